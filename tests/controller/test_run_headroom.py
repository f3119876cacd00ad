"""There is one headroom per look: it agrees with what was measured, and everything that shows it reads it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.contracts.decider import Observation
from mooring.contracts.engine import FragmentReport, Measurement, SiteReport
from mooring.contracts.picture import Picture, picture_of
from mooring.controller.initial_placement import Wish
from mooring.controller.known_model import known_model, known_model_in
from mooring.controller.parts import Parts
from mooring.controller.replanning import Replanning
from mooring.controller.run_headroom import RunHeadroom, run_headroom
from mooring.controller.run_state import RunState
from mooring.controller.session import SessionOptions
from mooring.controller.state_estimator import Surveyor
from mooring.errors import InfeasibleError
from mooring.model.deployment.moves import Figures, Move, described_moves, ordered_moves
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.problem import Problem
from mooring.planning import plan
from mooring.simulator.data_plane.arrivals import Poisson
from mooring.simulator.data_plane.engine import SimulatedEngine
from mooring.simulator.runs.simulated_run import simulated_run

PROBLEM = Problem.from_dict(
    {
        "sites": {"a": {"capacity": 1}, "b": {"capacity": 2}},
        "streams": {"x": {"rate": 10}, "y": {"rate": 10}},
        "operators": {
            "f": {"inputs": ["x"], "cost_us": 500, "fixed_cores": 0.05},
            "g": {"inputs": ["y"], "cost_us": 500},
        },
    }
)
HOMES = FragmentSites({"f": "a", "g": "b"})
TRIGGER_S = 5.0


def look(used: float, batch_s: float | None = None) -> Observation:
    """`used`: the share of a that is in use. The model has f use 0.055 cores of it."""
    measured = Measurement(
        0.0,
        5.0,
        {"x": 10.0, "y": 10.0},
        {"a": SiteReport(used, None, 1.0), "b": SiteReport(0.0025, None, 2.0)},
        {"f": FragmentReport("a", True, 10.0, 10.0, 0.1, batch_s=batch_s, cores_estimated=True)},
        trigger_s=TRIGGER_S,
    )
    return Observation(0.0, HOMES, measured, placement=HOMES)


def after(looks: Sequence[Observation]) -> RunHeadroom:
    surveyor = Surveyor(PROBLEM)
    found: Picture | str = ""
    for each in looks:
        found = surveyor.survey(each)
    assert isinstance(found, Picture)
    return run_headroom(found)


@given(
    capacity=st.floats(0.01, 8.0),
    rates=st.lists(st.floats(0.0, 1e6), min_size=2, max_size=2),
    errors=st.lists(st.floats(0.0, 1e6), min_size=2, max_size=2),
    bounds=st.tuples(st.floats(0.05, 1.0), st.floats(1.0, 5.0)),
)
def test_it_is_never_negative_and_lies_within_its_interval(
    capacity: float, rates: list[float], errors: list[float], bounds: tuple[float, float]
) -> None:
    problem = PROBLEM.in_circumstances(rates=rates, capacity_cores=[capacity, 2.0], latency_ms=None)
    picture = picture_of(problem, Placement.from_fragments(problem, HOMES))
    least, most = (picture.model.capacity_cores * bound for bound in bounds)
    seen = Picture(
        **{
            name: getattr(picture, name)
            for name in ("problem", "model", "sites", "low_rates", "running", "lost")
        },
        rate_errors=np.array(errors),
        capacity_bounds=(least, most),
    )
    found = run_headroom(seen)
    assert found.all is not None
    for room in (found.all, *found.sites.values()):
        assert 0.0 <= room.low <= room.factor <= room.high
    assert found.all.factor == pytest.approx(seen.predict(seen.sites).headroom)
    json.dumps(found.as_json(), allow_nan=False)


def test_a_full_site_has_next_to_no_headroom_however_little_the_model_says_it_does() -> None:
    """By the stated costs alone, rates could grow to 190 times the present."""
    modelled = after([look(0.055)] * 20).sites["a"]
    assert modelled.factor > 100.0
    full = after([look(0.99)] * 20).sites["a"]
    assert full.factor < 3.0
    assert full.limit == "CPU"


def test_what_a_site_uses_beyond_the_model_widens_the_interval_before_it_lasts() -> None:
    early = after([look(0.99)] * 4).sites["a"]
    assert early.low < 3.0 < early.factor


def test_batches_nearly_as_long_as_the_trigger_leave_no_room_on_an_idle_site() -> None:
    found = after([look(0.055, batch_s=4.5)] * 20)
    assert found.all is not None
    assert (found.site, found.all.limit, found.all.fragment) == ("a", "time", "f")
    assert 1.0 < found.all.factor < 3.0
    assert after([look(0.055, batch_s=6.0)] * 20).sites["a"].factor < 1.0


def test_a_stream_that_loads_nothing_is_named_instead_of_a_factor() -> None:
    problem = PROBLEM.with_rates([10.0, 0.0])
    found = run_headroom(picture_of(problem, Placement.from_fragments(problem, HOMES)))
    assert found.idle_streams == ["y"]
    assert found.words() == "more than x 10, then no CPU left at a; y loads nothing"


def test_status_proposal_and_list_of_moves_tell_one_headroom_at_every_look(tmp_path: Path) -> None:
    """The list of moves is described by another process, from the status alone."""
    problem = Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
            "streams": {"x": {"site": "a", "rate": 100}},
            "operators": {
                "read": {"inputs": ["x"], "cost_us": 2000, "site": "a"},
                "f": {"inputs": ["read"], "cost_us": 1500},
                "g": {"inputs": ["read"], "cost_us": 3400},
            },
            "queries": {"q": {"reads": "f", "site": "a"}},
        }
    )
    engine = SimulatedEngine(problem, [Poisson(130.0)], np.random.default_rng(0), horizon_s=1000.0)
    run = simulated_run(engine, tmp_path, Wish("rod"), options=SessionOptions(look_s=2.0))
    all_at_a = FragmentSites({"read": "a", "f": "a", "g": "a"})
    run.session.start(Placement.from_fragments(problem, all_at_a), "by hand")
    run.session.run(lambda passed: passed >= 60.0)
    known = 0
    for _, remarks in run.book.looks:
        status = json.loads(json.dumps(remarks))
        if status["model"] is None:
            assert status["headroom"]["missing"]
            continue
        known += 1
        factor, model = status["headroom"]["factor"], known_model_in(status)
        assert status["proposal"]["headroom"] == pytest.approx(factor)
        moves = described_moves(
            model.problem(problem), all_at_a, [Move("f", "a", "b")], Figures(batches=model.batches(problem))
        )
        assert moves.before.headroom == pytest.approx(factor)
    assert known > 20


def test_state_that_fills_the_memory_of_a_site_bounds_what_is_shown_and_what_moves_say() -> None:
    """Of 900 MB, 600 are in use for 200 of state: 500 of state is the most."""
    problem = Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1, "memory_mb": 900}, "b": {"capacity": 1}},
            "streams": {"x": {"rate": 10}},
            "operators": {"f": {"inputs": ["x"], "cost_us": 100}, "g": {"inputs": ["f"], "cost_us": 100}},
        }
    )
    homes = FragmentSites({"f": "a", "g": "a"})
    measured = Measurement(
        0.0,
        5.0,
        {"x": 10.0},
        {"a": SiteReport(0.01, None, 1.0, resident_mb=600.0), "b": SiteReport(0.01, None, 1.0)},
        {"g": FragmentReport("a", True, 10.0, 10.0, 0.1, state_bytes=200e6, cores_estimated=True)},
    )
    surveyor, found = Surveyor(problem), cast("Picture | str", "")
    for _ in range(4):
        found = surveyor.survey(Observation(0.0, homes, measured, placement=homes))
    assert isinstance(found, Picture)
    shown = run_headroom(found).sites["a"]
    assert shown.factor == pytest.approx(2.5)
    assert shown.limit == "memory"
    assert found.predict(found.sites).headroom == pytest.approx(2.5)
    known = known_model(found, surveyor.calibration)
    moves = described_moves(
        known.problem(problem), homes, [Move("g", "a", "b")], Figures(memory=known.memory(problem))
    )
    assert moves.before.headroom == pytest.approx(2.5)
    assert moves.steps[0].after.headroom == pytest.approx(1000.0, rel=0.2)


def test_the_load_of_a_site_is_told_apart_by_what_it_is_for() -> None:
    problem = Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1}},
            "streams": {"x": {"rate": 10}, "y": {"rate": 20}},
            "operators": {
                "f": {"inputs": ["x"], "cost_us": 1000, "fixed_cores": 0.05},
                "j": {"inputs": ["x", "y"], "kind": "join", "window_s": 2, "cost_us": 100},
                "v": {"inputs": ["f"], "cost_us": 0, "fixed_cores": 0.02},
            },
        }
    )
    placement = Placement.from_fragments(problem, FragmentSites({"f": "a", "j": "a", "v": "a"}))
    seen = replace(picture_of(problem, placement), refreshed=frozenset({"v"}))
    load = run_headroom(seen).sites["a"].load_cores
    assert load == pytest.approx({"fixed": 0.05, "rows": 0.01, "pairs": 0.04, "views": 0.02})


def test_a_batch_that_holds_the_rows_of_many_triggers_is_no_sign_that_nothing_gets_done() -> None:
    """Of f's 0.055 cores, 0.05 are fixed. A batch of 20 s, four triggers long, has four triggers' rows."""
    long = after([look(0.055, batch_s=20.0)] * 20).sites["a"]
    short = after([look(0.055, batch_s=6.0)] * 20).sites["a"]
    assert long.limit == short.limit == "time"
    assert long.factor < short.factor < 1.0


def test_a_site_whose_batches_fit_their_trigger_is_not_below_one_whatever_the_model_says() -> None:
    """By the model f takes 0.055 cores, of a quota that was lowered to 0.05."""
    quota = {"a": SiteReport(1.0, None, 0.05), "b": SiteReport(0.0025, None, 2.0)}

    def seen(batch_s: float) -> RunHeadroom:
        each = look(0.055, batch_s)
        return after([replace(each, measured=replace(each.measured, sites=quota))] * 20)

    assert 0.95 <= seen(4.9).sites["a"].factor < 1.2
    assert seen(5.5).sites["a"].factor < 1.0


def test_neighbours_that_leave_less_than_the_fixed_load_forbid_no_moves() -> None:
    """Of 1 core they leave 0.01, and f takes 0.05 at no rows: it runs there, and may move away and back."""
    left = {"a": SiteReport(0.01, None, 1.0, left_cores=0.01), "b": SiteReport(0.0025, None, 2.0)}
    surveyor, found = Surveyor(PROBLEM), cast("Picture | str", "")
    for _ in range(6):
        each = look(0.01)
        found = surveyor.survey(replace(each, measured=replace(each.measured, sites=left)))
    assert isinstance(found, Picture)
    assert run_headroom(found).sites["a"].factor == pytest.approx(0.0, abs=0.01)
    known = known_model(found, surveyor.calibration).problem(PROBLEM)
    assert described_moves(known, HOMES, [Move("f", "a", "b"), Move("f", "b", "a")]).steps

    there = FragmentSites({"f": "b", "g": "b"})
    full = replace(known, sites=tuple(msgspec.structs.replace(site, capacity=0.01) for site in known.sites))
    with pytest.raises(InfeasibleError, match="violates the problem"):
        ordered_moves(full, there, HOMES)
    assert ordered_moves(full, there, HOMES, Figures(quota_cores={"a": 1.0})).steps


def test_a_fragment_of_a_lost_site_does_not_wait_because_neighbours_are_busy() -> None:
    """b may use 2 cores, and its neighbours leave it 0.004 now: f starts there all the same, in the end."""
    left = {"a": SiteReport(0.01, None, 1.0), "b": SiteReport(0.0025, None, 2.0, left_cores=0.004)}
    surveyor, found = Surveyor(PROBLEM), cast("Picture | str", "")
    for _ in range(6):
        each = look(0.01)
        found = surveyor.survey(replace(each, measured=replace(each.measured, sites=left)))
    assert isinstance(found, Picture)
    assert found.problem.capacity_cores[1] < 0.02
    state = RunState(PROBLEM, HOMES, picture=found)
    replanning = Replanning(state, lambda problem: plan(problem, policy="rod").placement, Parts())
    assert replanning.replaced(HOMES, {"a"}) == {"f": "b", "g": "b"}

    lowered = replace(found, quota_cores=np.array([1.0, 0.004]))
    replanning.state.picture = lowered
    assert replanning.replaced(HOMES, {"a"}) == HOMES
