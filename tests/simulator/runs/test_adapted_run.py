"""Changes happen to a simulated run at their instants, and deciders answer them or do not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest

from mooring.algorithms.catalogue import DECIDERS
from mooring.controller.guards import GuardOptions
from mooring.controller.state_estimator import SurveyOptions
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem
from mooring.simulator.data_plane.workload import workload
from mooring.simulator.runs.adapted_run import Circumstances, run_adapted
from mooring.simulator.runs.timeline import CourseReport
from mooring.simulator.runs.variants import REPLANNED, compare_ways, decided_by, never_moving, replanned

if TYPE_CHECKING:
    from tests.simulator.runs.conftest import MakeScenario

FLOOD = {"at_s": 60, "stream": "x", "rate": 200, "over_s": 5}


def test_a_flood_overloads_a_run_that_never_moves_and_not_one_that_adapts(scenario: MakeScenario) -> None:
    flooded = scenario(FLOOD)
    ways = compare_ways(flooded, [never_moving(), decided_by("headroom"), replanned(flooded)]).courses
    still, adapted = ways["none"], ways["headroom"]
    assert still.moves == ()
    assert still.moments[-1].headroom == pytest.approx(1 / 1.2)
    (move,) = adapted.moves
    assert (move.from_site, move.to_site) == ("a", "c")
    assert 60 < move.at_s < 120
    assert all(moment.headroom >= 1.25 for moment in adapted.moments if moment.at_s > 125)
    assert adapted.summary()["limits_met_share"] > still.summary()["limits_met_share"]  # type: ignore[operator]
    assert {move.asked_by for move in ways[REPLANNED].moves} == {"replanned from scratch"}


def test_a_site_that_shrinks_is_seen_to_have_shrunk(scenario: MakeScenario) -> None:
    """The problem goes on saying that it has one core."""
    shrunk = scenario({"at_s": 60, "site": "a", "capacity": 0.32}, seconds=180)
    adapted = run_adapted(shrunk, decided_by("headroom"))
    assert [move.from_site for move in adapted.moves] == ["a"]
    assert adapted.moments[-1].headroom >= 1.25


def test_recovery_goes_by_what_sites_can_do_now_and_not_by_what_is_stated() -> None:
    """By what is stated `b1` would go to a, of which hardly anything is left."""
    operators = {"a0": "x", "a1": "a0", "a2": "a0", "b0": "y", "b1": "b0", "c0": "z"}
    problem = Problem.from_dict(
        {
            "sites": {name: {"capacity": 0.5} for name in "abc"},
            "streams": {"x": {"rate": 25}, "y": {"rate": 25}, "z": {"rate": 37}},
            "operators": {
                name: {"inputs": [read], "cost_us": 2000, "fixed_cores": 0.04}
                for name, read in operators.items()
            },
            "changes": [{"at_s": 10, "site": "a", "capacity": 0.16}, {"at_s": 20, "site": "b", "lost": True}],
        }
    )
    start = Placement.from_dict(problem, {name: name[0] for name in operators})
    arrivals = tuple(workload(problem, changes=problem.changes))
    course = run_adapted(Circumstances(problem, start, problem.changes, 30.0, arrivals), never_moving())
    went = [what for _, what in course.incidents if "goes" in what]
    assert went == ["b0 goes from b to c", "b1 goes from b to c"]


def test_a_lost_site_is_left_to_recovery_and_comes_back_unused(scenario: MakeScenario) -> None:
    lost = scenario({"at_s": 60, "site": "a", "lost": True, "for_s": 60}, seconds=180)
    adapted = run_adapted(lost, decided_by("headroom"))
    said = [what for _, what in adapted.incidents]
    assert any("the site a is lost" in what for what in said)
    assert any("the site a is back" in what for what in said)
    assert adapted.moves == ()
    assert adapted.simulated.queries["top"].latency.tuples > 0


def test_a_decider_goes_on_after_a_site_was_lost_for_good(scenario: MakeScenario) -> None:
    gone = scenario({"at_s": 30, "site": "c", "lost": True}, {**FLOOD, "at_s": 90, "rate": 180})
    adapted = run_adapted(gone, decided_by("headroom"))
    assert [move.to_site for move in adapted.moves] == ["b"]


def test_a_slower_link_is_felt_and_ends_by_itself(scenario: MakeScenario) -> None:
    slow = scenario({"at_s": 40, "link": ["a", "b"], "latency_ms": 400, "for_s": 40}, seconds=120)
    far = slow.start.site_of_fragment.copy()
    far[0] = slow.problem.site_index["b"]
    course = run_adapted(replace(slow, start=Placement(slow.problem, far)), never_moving())
    seen = {moment.at_s: moment.latency_ms["top"] for moment in course.moments}
    before, during, after = seen[35.0], seen[70.0], seen[115.0]
    assert before is not None
    assert during is not None
    assert after is not None
    assert during == pytest.approx(before + 2 * 390, rel=0.05)
    assert after == pytest.approx(before, rel=0.3)


def test_what_only_a_query_that_left_needs_rests_until_it_joins(scenario: MakeScenario) -> None:
    gone = scenario(
        {"at_s": 60, "query": "top", "leaves": True},
        {"at_s": 120, "query": "top", "joins": True},
        seconds=180,
    )
    course = run_adapted(gone, decided_by("headroom"))
    used = {moment.at_s: moment.utilisation["a"] for moment in course.moments}
    assert used[55.0] == pytest.approx(0.3, abs=0.05)
    assert used[100.0] == pytest.approx(0.15, abs=0.05)
    assert used[170.0] == pytest.approx(0.3, abs=0.05)
    assert "top" not in next(m.latency_ms for m in course.moments if m.at_s == 100.0)
    assert course.simulated.queries["top"].latency.max_ms < 200.0  # nothing was kept for it meanwhile


def test_a_query_that_is_to_join_is_not_there_at_first(scenario: MakeScenario) -> None:
    course = run_adapted(scenario({"at_s": 60, "query": "top", "joins": True}, seconds=90), never_moving())
    assert "top" not in course.moments[5].latency_ms
    assert course.moments[-1].latency_ms["top"] is not None


def test_the_same_seed_gives_the_same_report(scenario: MakeScenario) -> None:
    def document() -> str:
        return json.dumps(run_adapted(scenario(FLOOD, seconds=150), decided_by("headroom")).as_json())

    assert document() == document()


@pytest.mark.parametrize(
    ("guards", "said"),
    [
        (GuardOptions(untouched=frozenset({"f", "g"})), "no move raises it"),
        (GuardOptions(moves_per_hour=0), "0 moves within the last hour, limit 0"),
        (GuardOptions(quiet_hours=((0.0, 3600.0),)), "quiet hours: no moves"),
    ],
)
def test_when_nothing_is_done_the_run_says_why(
    scenario: MakeScenario, guards: GuardOptions, said: str
) -> None:
    course = run_adapted(scenario(FLOOD, seconds=150, guards=guards), decided_by("headroom"))
    assert course.moves == ()
    assert any(said in why for why in course.whys), course.whys


def test_a_move_that_made_things_worse_is_undone_once_and_not_tried_again(scenario: MakeScenario) -> None:
    """The statistics are wrong on purpose: what runs at b costs ten times what is believed."""
    believed = scenario(
        {"at_s": 0, "site": "c", "capacity": 0.02},
        {"at_s": 60, "stream": "x", "rate": 150},
        seconds=600,
        survey=SurveyOptions(calibrates=False),
        guards=GuardOptions(untouched=frozenset({"g"})),
    )
    operators = [
        msgspec.structs.replace(each, cost_us=30_000.0) if each.name == "h" else each
        for each in believed.problem.operators
    ]
    problem = replace(believed.problem, operators=tuple(operators))
    true = replace(
        believed,
        problem=problem,
        start=Placement(problem, believed.start.site_of_fragment),
        believed=believed.problem,
    )
    course = run_adapted(true, decided_by("headroom"))
    assert [(move.fragment, move.to_site) for move in course.moves] == [("f", "b"), ("f", "a")]
    (entry,) = course.ledger
    assert str(entry["verdict"]).endswith("worse, 1 sites are full; undone")
    assert any("after moving f: " in what for _, what in course.incidents)
    right = run_adapted(replace(true, survey=SurveyOptions()), decided_by("headroom"))
    assert right.moves == ()  # with costs re-estimated while running it knows better
    assert any("no move raises it" in why for why in right.whys)


@pytest.mark.parametrize("name", list(DECIDERS))
def test_on_rates_with_noise_alone_nobody_moves_anything(scenario: MakeScenario, name: str) -> None:
    rng = np.random.default_rng(0)
    noisy = [
        {
            "at_s": 0,
            "stream": stream,
            "rates": [[5.0 * k, rate * float(rng.lognormal(0, 0.15))] for k in range(240)],
        }
        for stream, rate in (("x", 115.0), ("y", 20.0))
    ]
    course = run_adapted(scenario(*noisy, seconds=1200, batch=8), decided_by(name))
    assert course.moves == (), course.ledger
    assert min(moment.headroom for moment in course.moments) < 1.25


def test_replan_follows_a_policy_and_relaxation_the_latencies(scenario: MakeScenario) -> None:
    flooded = scenario(FLOOD)
    adapted = run_adapted(flooded, decided_by("replan"))
    assert 1 <= len(adapted.moves) <= 3
    assert adapted.moments[-1].headroom >= 1.25
    far = scenario(
        {"at_s": 60, "link": ["a", "b"], "latency_ms": 400}, seconds=240, guards=GuardOptions(worth=0.1)
    )
    at_b = far.start.site_of_fragment.copy()
    at_b[0] = far.problem.site_index["b"]
    course = run_adapted(replace(far, start=Placement(far.problem, at_b)), decided_by("relaxation"))
    assert [(move.fragment, move.to_site) for move in course.moves] == [("f", "a")]


def test_ants_lower_the_latency_and_then_stop(scenario: MakeScenario) -> None:
    flooded = scenario({**FLOOD, "rate": 150}, seconds=400)
    still, adapted = (run_adapted(flooded, decided_by(name)) for name in ("none", "ants"))
    assert adapted.way == "ants-central"
    assert {move.asked_by for move in adapted.moves} == {"adapting: ants-central"}
    assert {entry["decider"] for entry in adapted.ledger} == {"ants-central"}
    assert all(move.at_s < 200 for move in adapted.moves)

    def late_ms(course: CourseReport) -> float:
        seen = [ms for moment in course.moments[-30:] for ms in moment.latency_ms.values()]
        return float(np.mean([ms for ms in seen if ms is not None]))

    assert late_ms(adapted) < 0.8 * late_ms(still)
    assert set(adapted.traffic.messages) == {"routing ants", "scouts"}
    assert adapted.traffic.bytes > 0
    assert still.traffic.bytes == 0


def test_a_stored_plan_brings_a_query_back_within_its_limit(scenario: MakeScenario) -> None:
    """From a to b and back it takes 600 ms where 200 are allowed; f is at b."""
    far = scenario({"at_s": 60, "link": ["a", "b"], "latency_ms": 300}, seconds=240)
    at_b = far.start.site_of_fragment.copy()
    at_b[0] = far.problem.site_index["b"]
    late = replace(far, start=Placement(far.problem, at_b))
    ways = compare_ways(late, [never_moving(), decided_by("overlay")]).courses
    (move,) = ways["overlay"].moves
    assert (move.fragment, move.from_site) == ("f", "b")
    assert 60 < move.at_s < 120
    met = {name: float(str(way.summary()["limits_met_share"])) for name, way in ways.items()}
    assert met["overlay"] > met["none"]
