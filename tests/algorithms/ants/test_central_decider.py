"""Ants move a chain where that makes it beta times as quick and makes up for the pause, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mooring.algorithms.ants.central_decider import AntsDecider, running_part
from mooring.algorithms.ants.policy import Ants
from mooring.contracts.picture import Picture, picture_of
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem


def two_queries(**of_f: Any) -> dict[str, Any]:
    """Two chains from a to a: f and g, then h by itself."""
    return {
        "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}, "c": {"capacity": 1}},
        "latency_ms": {"a": {"b": 40, "c": 20}, "b": {"c": 30}},
        "streams": {"x": {"rate": 50, "site": "a"}, "y": {"rate": 20, "site": "a"}},
        "operators": {
            "f": {"inputs": ["x"], "cost_us": 2000, **of_f},
            "g": {"inputs": ["f"], "cost_us": 2000},
            "h": {"inputs": ["y"], "cost_us": 2000},
        },
        "queries": {"top": {"reads": "g", "site": "a"}, "end": {"reads": "h", "site": "a"}},
    }


def picture(sites: dict[str, str], **of_f: Any) -> Picture:
    problem = Problem.from_dict(two_queries(**of_f))
    return picture_of(problem, Placement.from_dict(problem, sites))


FAR = {"f": "b", "g": "b", "h": "a"}


def test_a_chain_that_is_far_comes_back_and_the_other_stays() -> None:
    proposal = AntsDecider().decide(picture(FAR))
    assert {(each.move.fragment, each.move.to_site) for each in proposal.moves} == {("f", "a"), ("g", "a")}
    assert proposal.predicted.latency_ms["top"] < proposal.now.latency_ms["top"]


@pytest.mark.parametrize(("beta", "moves"), [(1.1, True), (30.0, False)])
def test_it_moves_from_a_factor_of_beta_on(beta: float, moves: bool) -> None:
    """From 84 ms and more to about 4."""
    assert bool(AntsDecider(Ants(beta=beta)).decide(picture(FAR)).moves) == moves


def test_a_pause_that_is_not_made_up_for_is_not_taken() -> None:
    """80 ms gained in ten minutes are 48 seconds; moving 10 GB makes everything wait 100."""
    assert AntsDecider().decide(picture(FAR, state_bytes=1e10)).moves == ()
    assert AntsDecider().decide(picture(FAR, state_bytes=1e8)).moves != ()


def test_what_is_held_is_left_and_its_neighbours_are_placed_around_it() -> None:
    seen = picture({"f": "b", "g": "c", "h": "a"})
    held = replace(seen, held=np.array([name == "f" for name in seen.problem.fragment_names]))
    assert {each.move.fragment for each in AntsDecider().decide(held).moves} <= {"g"}


def in_batches(capacity: float, sites: dict[str, str]) -> Picture:
    """f is at a, g and h use a quarter of a core each, and every batch hides what ways take."""
    data = two_queries(site="a", cost_us=100)
    data["operators"]["g"] |= {"cost_us": 5000}
    data["operators"]["h"] |= {"cost_us": 12500}
    data["sites"]["b"]["capacity"] = capacity
    problem = Problem.from_dict(data)
    return picture_of(problem, Placement.from_dict(problem, sites))


@pytest.mark.parametrize(("beta", "moves"), [(1.4, True), (2.7, False)])
def test_in_micro_batches_triggers_count_as_latency_that_no_move_saves(beta: float, moves: bool) -> None:
    """h takes 2 s of triggers and a batch of 2.7 s beside g, which waits .9 s longer for it; elsewhere its
    batch takes 1 s: 1.9 times as quick, not 3.6 times. g, with 6 s of triggers, would be 1.4 times."""
    seen = in_batches(0.55, {"f": "a", "g": "b", "h": "b"})
    proposal = AntsDecider(Ants(beta=beta), trigger_s=4.0).decide(seen)
    assert bool(proposal.moves) == moves
    assert proposal.now.latency_ms["top"] == pytest.approx(6000 + 4000 * 0.375 / 0.55 + 40)


def test_in_micro_batches_tuples_under_way_are_those_in_batches() -> None:
    """50 per second come for g and 20 for h, each a quarter of b's core, at rates as they are and a quarter
    higher; those on links are the same as without batches, which are told apart by a second trigger."""
    seen = in_batches(1.0, {"f": "a", "g": "b", "h": "b"})
    once, twice = (replace(seen, trigger_s=s).tuples_under_way(seen.sites) for s in (4.0, 8.0))
    in_a_second = 50 * 0.005 + 70 * 0.5
    assert twice - once == pytest.approx(4.0 * in_a_second * (1.0 + 1.25**2) / 2.0)


def test_a_site_that_cannot_keep_up_with_its_batches_is_left() -> None:
    proposal = AntsDecider(Ants(beta=3.0), trigger_s=4.0).decide(
        in_batches(0.4, {"f": "a", "g": "b", "h": "b"})
    )
    assert proposal.moves
    assert proposal.now.latency_ms == {}
    assert set(proposal.predicted.latency_ms) == {"top", "end"}


def test_of_a_query_that_has_left_nothing_is_scouted_for() -> None:
    seen = picture(FAR)
    running = np.array([name == "h" for name in seen.problem.fragment_names])
    without = replace(seen, running=running)
    part = running_part(without)
    assert part is not None
    assert [query.name for query in part[0].queries] == ["end"]
    assert AntsDecider().decide(without).moves == ()


def test_while_something_waits_for_what_is_lost_recovery_goes_first() -> None:
    seen = picture(FAR)
    running = np.array([name != "f" for name in seen.problem.fragment_names])
    proposal = AntsDecider().decide(replace(seen, running=running))
    assert proposal.moves == ()
    assert "recovery" in proposal.reason


def test_ants_are_counted_in_bytes() -> None:
    decider = AntsDecider()
    assert decider.sent_bytes == 0.0
    decider.decide(picture(FAR))
    once = decider.sent_bytes
    decider.decide(picture(FAR))
    assert 0.0 < once < decider.sent_bytes


def test_away_from_a_site_that_is_full() -> None:
    """Everything there waits for ever, whichever chain is looked at."""
    proposal = AntsDecider().decide(picture({"f": "a", "g": "a", "h": "a"}, cost_us=17_500))
    assert proposal.now.headroom < 1.0 <= proposal.predicted.headroom
