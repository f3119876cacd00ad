"""Policy `overlay`: limits kept or queries rejected, pins, running placements, moves, lost sites."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mooring.algorithms.overlay.policy import Overlay
from mooring.contracts.deadline import Deadline
from mooring.errors import InfeasibleError, InputError
from mooring.model.placement.closed_sites import replace_lost
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem
from mooring.planning import evaluate, plan


def data(**changed: Any) -> dict[str, Any]:
    """Two queries over shared operators, one beside them, and an operator that no query needs."""
    return {
        "sites": {name: {"capacity": 1.0} for name in "abcde"},
        "latency_ms": {
            "a": {"b": 10, "c": 30, "d": 60, "e": 80},
            "b": {"c": 20, "d": 50, "e": 70},
            "c": {"d": 30, "e": 50},
            "d": {"e": 20},
        },
        "streams": {
            "x": {"site": "a", "rate": 100, "bytes": 100},
            "y": {"site": "e", "rate": 100, "bytes": 100},
        },
        "operators": {
            "common": {"inputs": ["x"], "cost_us": 4000, "selectivity": 0.5},
            "quick": {"inputs": ["common"], "cost_us": 4000},
            "both": {"inputs": ["common", "y"], "kind": "union", "cost_us": 2000},
            "beside": {"inputs": ["y"], "cost_us": 3000},
        },
        "queries": {
            "near": {"reads": "quick", "site": "b", "max_latency_ms": 40},
            "far": {"reads": "both", "site": "d", "max_latency_ms": 130},
        },
        **changed,
    }


def problem(**changed: Any) -> Problem:
    return Problem.from_dict(data(**changed))


def met(given: Problem, placement: Placement, metric: str = "qos_met") -> float:
    value = getattr(evaluate(given, placement), metric)
    assert isinstance(value, float)
    return value


def with_operator(name: str, **fields: Any) -> dict[str, Any]:
    operators = data()["operators"]
    return {"operators": operators | {name: operators[name] | fields}}


def test_limits_are_met_and_the_threshold_is_kept() -> None:
    made = plan(problem(), "overlay")
    assert made.rejected == {}
    assert made.metrics.qos_met == 1.0
    assert met(made.problem, made.placement, "max_utilisation") <= 0.95
    assert set(made.placement.as_dict()) == {"common", "quick", "both", "beside"}


def test_a_query_that_cannot_be_served_is_rejected_with_the_reason_and_the_rest_placed() -> None:
    queries = data()["queries"] | {"never": {"reads": "both", "site": "a", "max_latency_ms": 70}}
    made = plan(problem(queries=queries), "overlay")
    assert set(made.rejected) == {"never"}
    assert made.rejected["never"].startswith(
        "its limit is 70 ms, and the best plan takes 80 ms, 10 ms too long"
    )
    assert set(made.placement.as_dict()) == {"common", "quick", "both", "beside"}
    assert made.metrics.qos_met == pytest.approx(2 / 3)
    assert made.placement.problem.queries == tuple(q for q in made.problem.queries if q.name != "never")


def test_the_operators_of_rejected_queries_are_left_out() -> None:
    queries = {"near": {"reads": "quick", "site": "b", "max_latency_ms": 40}}
    queries["far"] = {"reads": "both", "site": "d", "max_latency_ms": 15}
    made = plan(problem(queries=queries), "overlay")
    assert set(made.rejected) == {"far"}
    assert set(made.placement.as_dict()) == {"common", "quick", "beside"}
    assert evaluate(made.problem, made.placement).qos_met == 0.5


def test_the_reason_names_the_resource_and_how_much_is_missing() -> None:
    made = plan(problem(**with_operator("both", cost_us=9_000, memory_mb=3)), "overlay")
    assert made.rejected["far"].startswith("operator 'both' needs 1.35 cores; no site")
    assert "has more than 0.95 left below the threshold, 0.4 cores short" in made.rejected["far"]


def test_where_every_query_is_rejected_there_is_no_plan() -> None:
    queries = {"near": {"reads": "quick", "site": "b", "max_latency_ms": 1}}
    with pytest.raises(InfeasibleError, match="no query can be admitted; 'near': its limit is 1 ms"):
        plan(problem(queries=queries), "overlay")


def test_where_the_time_was_spent_before_any_was_admitted_it_says_so() -> None:
    with pytest.raises(InfeasibleError, match="spent when 0 of 2 queries had been tried") as refused:
        plan(problem(), "overlay", deadline=Deadline.in_seconds(0.0, lambda: 0.0))
    assert "allow more time" in str(refused.value)


def test_pins_are_kept_and_limits_with_them() -> None:
    made = plan(problem(**with_operator("common", site="c")), "overlay")
    assert made.placement.as_dict()["common"] == "c"
    assert set(made.rejected) == {"near"}


def test_from_a_running_placement_nothing_moves_without_gain() -> None:
    first = plan(problem(), "overlay")
    again = plan(problem(), "overlay", current=first.placement)
    assert again.placement == first.placement


def running(**at: str) -> Placement:
    sites = {"common": "d", "quick": "d", "both": "e", "beside": "c"} | at
    return Placement.from_dict(problem(), sites)


def test_from_a_bad_placement_it_moves_what_mends_the_limits() -> None:
    assert met(problem(), running()) < 1.0
    made = plan(problem(), "overlay", current=running())
    assert made.rejected == {}
    assert made.metrics.qos_met == 1.0


@pytest.mark.parametrize("most", [0, 1, 2])
def test_no_more_fragments_move_than_allowed(most: int) -> None:
    current = running()
    made = plan(problem(), "overlay", current=current, max_moves=most)
    moved = np.sum(made.placement.site_of_fragment != current.site_of_fragment)
    assert moved <= most
    assert made.rejected == {}, "what runs is not turned away"


def test_what_may_not_move_stays() -> None:
    fixed = problem(**with_operator("common", movable=False))
    current = Placement(fixed, running().site_of_fragment)
    made = plan(fixed, "overlay", current=current)
    assert made.placement.as_dict()["common"] == "d"


def test_fragments_of_a_lost_site_are_placed_within_the_limits_of_their_queries() -> None:
    given = problem()
    placed = plan(given, "overlay").placement.by_fragment()
    lost = placed["quick"]
    after = replace_lost(given, placed, [lost], lambda left: plan(left, "overlay").placement)
    assert all(after[name] == site for name, site in placed.items() if site != lost)
    assert lost not in after.values()
    assert met(given, Placement.from_fragments(given, after)) >= 0.5


def test_the_seed_decides() -> None:
    one, other = (plan(problem(), "overlay", seed=7).placement for _ in range(2))
    assert one == other


def test_a_placement_that_leaves_out_a_query_is_another_than_one_that_does_not() -> None:
    placement = running()
    assert placement != replace(placement, rejected={"far": "too late"})


def test_settings_are_checked() -> None:
    with pytest.raises(InputError, match="threshold"):
        Overlay(threshold=1.5)
    with pytest.raises(InputError, match="candidates"):
        plan(problem(), Overlay(candidates=0))
