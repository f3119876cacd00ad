"""What stalls is named within two looks of being so, with what it affects; what runs quietly never is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mooring.contracts.decider import Observation, Stall
from mooring.contracts.engine import FragmentReport, Measurement, SiteReport, ViewReport
from mooring.contracts.picture import Picture
from mooring.controller.initial_placement import Wish
from mooring.controller.parts import is_aside
from mooring.controller.run_headroom import run_headroom
from mooring.controller.stalls import Watch
from mooring.controller.state_estimator import Surveyor
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.problem import Problem
from mooring.simulator.data_plane.arrivals import Poisson
from mooring.simulator.data_plane.engine import SimulatedEngine
from mooring.simulator.runs.simulated_run import simulated_run

CLUSTER = SiteReport(0.1, None, 3.0, executors=3, slots=3, held_slots=0, active_tasks=1)
LOOK_S = TRIGGER_S = 5.0
PROBLEM = Problem.from_dict(
    {
        "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
        "streams": {"x": {"rate": 10}},
        "operators": {
            "read": {"inputs": ["x"], "cost_us": 100, "site": "a"},
            "totals": {"inputs": ["read"], "cost_us": 100},
        },
        "queries": {"daily": {"reads": "totals", "site": "b"}},
    }
)
HOMES = FragmentSites({"read": "a", "totals": "b"})
At = Callable[[int], float]


def course(
    looks: int,
    *,
    waiting: At = lambda k: 10.0 * (k % 3),
    batch_s: At = lambda k: 1.0,
    batches: At = lambda k: k,
    rate: At = lambda k: 10.0,
    due: Callable[[int], bool] = lambda k: k % 12 == 0,
) -> list[Observation]:
    """Of a run in which `totals` behaves as given, look by look."""
    seen = []
    for k in range(looks):
        read = FragmentReport("a", True, 10.0, 10.0, 0.1, batch_s=1.0, batches=k, open_s=2.0)
        totals = FragmentReport("b", True, 10.0, 1.0, 0.1, waiting(k), batch_s(k), int(batches(k)), 2.0)
        measured = Measurement(
            LOOK_S * k,
            LOOK_S,
            {"x": rate(k)},
            {site: SiteReport(0.05, None, 1.0) for site in ("a", "b")},
            {"read": read, "totals": totals},
            views={"totals": ViewReport(40.0, 30.0, 2.0, due(k))},
            trigger_s=TRIGGER_S,
        )
        seen.append(Observation(LOOK_S * k, HOMES, measured, placement=HOMES))
    return seen


def watched(looks: list[Observation]) -> list[tuple[Stall, ...]]:
    watch = Watch(PROBLEM)
    return [watch.take(look) for look in looks]


def first(found: list[tuple[Stall, ...]], kind: str) -> int:
    return next(k for k, stalls in enumerate(found) if kind in {each.kind for each in stalls})


@pytest.mark.parametrize("seed", range(10))
def test_ten_quiet_minutes_have_no_trouble_however_waiting_rows_vary(seed: int) -> None:
    draw = np.random.default_rng(seed).random
    batch_s = 0.2 + 4.2 * draw()
    quiet = course(
        120,
        waiting=lambda k: 90.0 * draw(),
        batch_s=lambda k: batch_s * (1.4 if draw() < 0.1 else 1.0),
        rate=lambda k: 0.0 if draw() < 0.2 else 10.0,
    )
    assert not any(watched(quiet))


def test_rows_that_wait_for_several_triggers_without_a_batch_are_a_stall() -> None:
    """After look 20 nothing is committed; three triggers later, at look 23, that is one."""
    found = watched(course(40, waiting=lambda k: 10.0 if k <= 20 else 500.0, batches=lambda k: min(k, 20)))
    assert 23 < first(found, "stalled") <= 25
    (stall,) = (each for each in found[-1] if each.kind == "stalled")
    assert (stall.name, stall.site, stall.share, stall.affects) == ("totals", "b", 0.0, ("daily",))
    assert stall.since_s == 20 * LOOK_S
    assert "500 rows wait" in stall.words(200.0)
    assert is_aside(stall.title)


def test_batches_longer_than_the_trigger_are_named_and_forgotten_once_they_are_shorter() -> None:
    found = watched(course(60, batch_s=lambda k: 8.8 if 20 <= k < 40 else 2.0))
    assert first(found, "slow batches") == 22
    (stall,) = found[30]
    assert stall.share == pytest.approx(TRIGGER_S / 8.8)
    assert not any(found[44:])


def test_a_backlog_that_grows_is_named_and_one_that_shrinks_is_not() -> None:
    def waiting(k: int) -> float:
        return 10.0 + (100.0 * min(k - 20, 40 - k) if 20 <= k < 40 else 0.0)

    found = watched(course(60, waiting=waiting))
    assert first(found, "growing backlog") <= 24
    growing = next(each for each in found[25] if each.kind == "growing backlog")
    assert growing.share == pytest.approx(10.0 / (10.0 + 100.0 / LOOK_S))
    assert not any(found[34:])


def test_a_view_that_stays_due_and_a_stream_without_rows_are_named() -> None:
    found = watched(course(40, due=lambda k: k > 10, rate=lambda k: 10.0 if k < 20 else 0.0))
    assert first(found, "stale view") == 11 + 7
    assert first(found, "silent stream") == 19 + 6
    assert {each.share for each in found[-1]} == {None}


def test_what_falls_behind_has_a_headroom_below_one_whatever_the_model_says() -> None:
    surveyor, watch = Surveyor(PROBLEM), Watch(PROBLEM)
    looks = course(40, batch_s=lambda k: 8.8 if k >= 20 else 1.0)
    factors = []
    for look in looks:
        with_stalls = Observation(
            look.at_s, look.sites, look.measured, placement=look.placement, stalls=watch.take(look)
        )
        picture = surveyor.survey(with_stalls)
        if isinstance(picture, Picture) and (whole := run_headroom(picture).all) is not None:
            factors.append(whole.factor)
            if with_stalls.stalls:
                assert whole.factor == pytest.approx(picture.predict(picture.sites).headroom, abs=0.02)
                assert (run_headroom(picture).site, whole.limit, whole.fragment) == ("b", "time", "totals")
    assert min(factors[:15]) > 3.0
    assert max(factors[-10:]) < 1.0


@pytest.mark.parametrize(("rate", "falls_behind"), [(150.0, False), (600.0, True)])
def test_a_simulated_run_names_the_site_whose_backlog_grows(
    tmp_path: Path, rate: float, falls_behind: bool
) -> None:
    """A row costs `totals` 2.1 ms: 476 a second fill b."""
    true = Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
            "streams": {"x": {"site": "a", "rate": 100}},
            "operators": {
                "read": {"inputs": ["x"], "cost_us": 100, "site": "a"},
                "totals": {"inputs": ["read"], "cost_us": 2100},
            },
            "queries": {"daily": {"reads": "totals", "site": "b"}},
        }
    )
    engine = SimulatedEngine(true, [Poisson(rate)], np.random.default_rng(0), horizon_s=1000.0)
    run = simulated_run(engine, tmp_path, Wish("rod"))
    run.session.start(Placement.from_fragments(true, HOMES), "by hand")
    run.session.run(lambda passed: passed >= 120.0)
    named = [troubles for troubles, _ in run.book.looks if "growing backlog: b" in troubles]
    assert bool(named) is falls_behind
    for troubles, remarks in run.book.looks:
        headroom = remarks["headroom"]
        assert isinstance(headroom, dict)
        if "growing backlog: b" in troubles and not headroom["missing"]:
            assert headroom["factor"] < 1.0
    assert not falls_behind or len(named) >= 10


def seen_at(k: int, totals: FragmentReport, more: FragmentReport, left_cores: float | None) -> Observation:
    measured = Measurement(
        LOOK_S * k,
        LOOK_S,
        {"x": 10.0},
        {"b": SiteReport(0.1, None, 1.0, left_cores=left_cores)},
        {"totals": totals, "read": more},
        trigger_s=TRIGGER_S,
    )
    homes = FragmentSites({"totals": "b", "read": "b"})
    return Observation(LOOK_S * k, homes, measured, placement=homes)


def test_one_long_batch_that_keeps_others_of_its_site_waiting_is_named() -> None:
    def look(k: int) -> Observation:
        late_s = max(0.0, LOOK_S * (k - 20))
        totals = FragmentReport("b", True, 10.0, 1.0, 0.1, 10.0, 2.0, min(k, 20), 2.0 + late_s)
        read = FragmentReport("b", True, 10.0, 1.0, 0.1, 10.0, 1.0, min(k, 21), 1.0 + late_s)
        return seen_at(k, totals, read, None)

    found = watched([look(k) for k in range(30)])
    assert 22 < first(found, "long batch") <= 24
    (stall,) = (each for each in found[-1] if each.kind == "long batch")
    assert (stall.name, stall.site, stall.share) == ("totals", "b", None)
    assert "read wait for it" in stall.why


def test_a_site_that_neighbours_leave_too_little_is_named_at_the_second_look() -> None:
    def look(k: int, left: float | None, batch_s: float = 3.0) -> Observation:
        report = FragmentReport("b", True, 10.0, 1.0, 0.1, 10.0, batch_s, k, 2.0)
        return seen_at(k, report, report, left)

    found = watched([look(k, 0.15 if 20 <= k < 30 else None) for k in range(40)])
    assert first(found, "starved site") == 21
    (stall,) = found[25]
    assert (stall.name, stall.site) == ("b", "b")
    assert "0.15 of 1 cores" in stall.why
    assert not any(found[32:])
    # What is done in time, enough for what it does, or one look alone, is none.
    assert not any(watched([look(k, 0.15, batch_s=1.0) for k in range(40)]))
    assert not any(watched([look(k, 0.5 if k % 4 else 0.15) for k in range(40)]))


def test_a_second_batch_that_compiles_right_after_a_start_is_no_stall() -> None:
    """The first is committed at 5 s, the second after 25 s."""
    early = course(8, batches=lambda k: 0 if k == 0 else 1 if k < 5 else k, waiting=lambda k: 30.0)
    assert not any(watched(early))


def blocked(seen: SiteReport, *, waits: int = 5) -> list[Stall]:
    """Both fragments at one cluster, which looks like that once nothing is committed any more."""
    homes, watch, found = FragmentSites({"read": "a", "totals": "a"}), Watch(PROBLEM), list[Stall]()
    for k in range(30):
        late = max(0, k - waits)
        common = {"batch_s": 1.0, "batches": min(k, waits), "open_s": 2.0 + LOOK_S * late}
        fragments = {
            "read": FragmentReport("a", True, 10.0, 10.0, 0.1, **common),  # type: ignore[arg-type]
            "totals": FragmentReport("a", True, 10.0, 1.0, 0.1, 50.0 * late, **common),  # type: ignore[arg-type]
        }
        site = CLUSTER if k < waits else seen
        measured = Measurement(LOOK_S * k, LOOK_S, {"x": 10.0}, {"a": site}, fragments, trigger_s=TRIGGER_S)
        found += watch.take(Observation(LOOK_S * k, homes, measured))
    return found


@pytest.mark.parametrize(
    ("site", "why"),
    [
        (replace(CLUSTER, executors=0, slots=0, active_tasks=0), "it has no executors"),
        (replace(CLUSTER, held_slots=3, active_tasks=0), "others hold 3 of its 3 slots"),
        (SiteReport(0.1, estimated=True), "none of its 2 fragments with work commits a batch"),
    ],
)
def test_a_cluster_that_answers_and_runs_nothing_is_one_trouble_with_its_reason(
    site: SiteReport, why: str
) -> None:
    found = blocked(site)
    (name,) = {each.title for each in found if each.kind == "blocked site"}
    assert name == "blocked site: a"
    last = [each for each in found if each.kind == "blocked site"][-1]
    assert last.why.startswith(why)
    assert (last.share, last.site) == (0.0, "a")
    assert set(last.affects) == {"daily"}
    # What its fragments do not get done is no trouble of theirs.
    assert {each.kind for each in found if each.since_s >= last.since_s + 60.0} <= {"blocked site"}


def test_a_cluster_whose_tasks_run_or_that_has_nothing_to_do_is_not_blocked() -> None:
    assert not [each for each in blocked(replace(CLUSTER, held_slots=2)) if each.kind == "blocked site"]
    nothing_there = replace(CLUSTER, executors=0, active_tasks=0)
    assert not [each for each in blocked(nothing_there, waits=30) if each.kind == "blocked site"]
