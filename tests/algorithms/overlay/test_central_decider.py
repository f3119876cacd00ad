"""Stored plans answer limits that break and sites that are too full, and leave everything else alone."""

from __future__ import annotations

from typing import Any

from mooring.algorithms.overlay.central_decider import OverlayDecider, OverlayOptions
from mooring.contracts.decider import Proposal
from mooring.contracts.picture import picture_of
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem

PROBLEM: dict[str, Any] = {
    "sites": {name: {"capacity": 1} for name in "abcd"},
    "latency_ms": {"a": {"b": 10, "c": 10, "d": 10}, "b": {"c": 10, "d": 10}, "c": {"d": 10}},
    "streams": {"x": {"rate": 100, "site": "a", "bytes": 100}},
    "operators": {
        "shared": {"inputs": ["x"], "cost_us": 4000, "selectivity": 0.5},
        "left": {"inputs": ["shared"], "cost_us": 4000, "selectivity": 0.5},
        "right": {"inputs": ["shared"], "cost_us": 4000, "selectivity": 0.5},
    },
    "queries": {
        "one": {"reads": "left", "site": "c", "max_latency_ms": 60},
        "two": {"reads": "right", "site": "d", "max_latency_ms": 60},
    },
}
HOMES = {"shared": "b", "left": "b", "right": "d"}


def looked(decider: OverlayDecider, homes: dict[str, str] | None = None, **changed: Any) -> Proposal:
    problem = Problem.from_dict({**PROBLEM, **changed})
    return decider.decide(picture_of(problem, Placement.from_dict(problem, homes or HOMES)))


def slow(**links: float) -> dict[str, Any]:
    latency_ms = {a: dict(others) for a, others in PROBLEM["latency_ms"].items()}
    for pair, ms in links.items():
        latency_ms[pair[0]][pair[1]] = ms
    return {"latency_ms": latency_ms}


def moved(proposal: Proposal) -> dict[str, str]:
    return {each.move.fragment: each.move.to_site for each in proposal.moves}


NOTHING_SAVES = OverlayOptions(least_saving=20_000.0)


def test_while_all_limits_hold_a_plan_is_proposed_only_if_it_saves_enough() -> None:
    saving = looked(OverlayDecider(OverlayOptions(least_saving=10_000.0)))
    assert moved(saving) == {"shared": "a", "left": "a"}
    assert not saving.violation
    proposal = looked(OverlayDecider(NOTHING_SAVES))
    assert not proposal.moves
    assert "meet their limits" in proposal.reason


def test_a_slow_link_is_answered_by_a_plan_that_leaves_it_and_keeps_both_limits() -> None:
    decider = OverlayDecider(NOTHING_SAVES)
    assert not looked(decider).moves
    proposal = looked(decider, **slow(ab=100.0))
    assert "shared" in moved(proposal)
    assert moved(proposal)["shared"] != "b"
    assert all(ms <= 60.0 for ms in proposal.predicted.latency_ms.values())
    assert max(proposal.predicted.site_loads_cores.values()) <= 0.95
    assert "exceeds its limit" in proposal.reason
    assert (proposal.violation, proposal.plans) == (True, (len(proposal.moves),))


def test_the_plan_that_mends_a_query_harms_no_other_and_is_best_for_the_bandwidth() -> None:
    """The link from b to c is the last of query one alone. Everything at the stream's site sends least."""
    decider = OverlayDecider()
    looked(decider)
    proposal = looked(decider, **slow(bc=70.0))
    assert "left" in moved(proposal)
    assert all(ms <= 60.0 for ms in proposal.predicted.latency_ms.values())
    assert "two" not in proposal.reason


def test_two_queries_that_share_nothing_that_moves_are_mended_at_once() -> None:
    decider = OverlayDecider()
    homes = {"shared": "a", "left": "b", "right": "c"}
    looked(decider, homes)
    proposal = looked(decider, homes, **slow(ab=100.0, ac=100.0))
    assert {"left", "right"} <= set(moved(proposal))
    assert all(ms <= 60.0 for ms in proposal.predicted.latency_ms.values())


def test_a_site_that_has_become_too_small_is_relieved() -> None:
    decider = OverlayDecider()
    looked(decider)
    sites = {**PROBLEM["sites"], "b": {"capacity": 0.45}}
    proposal = looked(decider, sites=sites)
    assert moved(proposal)
    assert proposal.predicted.site_loads_cores["b"] <= 0.45
    assert "over its threshold" in proposal.reason


def test_where_no_plan_helps_it_says_for_whom() -> None:
    decider = OverlayDecider()
    looked(decider)
    everywhere = slow(ab=100.0, ac=100.0, ad=100.0)
    proposal = looked(decider, **everywhere)
    assert not proposal.moves
    assert proposal.reason == "no stored plan repairs one, two"


def test_rates_that_fall_for_good_let_operators_gather() -> None:
    """At a quarter of the rate all three fit on the site of the stream, and less crosses the network."""
    decider = OverlayDecider(OverlayOptions(least_saving=0.1))
    looked(decider)
    streams = {"x": {**PROBLEM["streams"]["x"], "rate": 25}}
    proposal = looked(decider, streams=streams)
    assert moved(proposal).get("shared") == "a"
    assert "saves" in proposal.reason
    assert all(ms <= 60.0 for ms in proposal.predicted.latency_ms.values())


def test_without_latencies_it_says_that_it_needs_them() -> None:
    bare = {key: value for key, value in PROBLEM.items() if key != "latency_ms"}
    bare["queries"] = {"one": {"reads": "left", "site": "c"}}
    problem = Problem.from_dict(bare)
    proposal = OverlayDecider().decide(picture_of(problem, Placement.from_dict(problem, HOMES)))
    assert "need latencies" in proposal.reason
