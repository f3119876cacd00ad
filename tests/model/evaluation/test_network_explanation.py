"""Explanations of network policies say what is so: the bound, the link, the query, the site."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.algorithms.catalogue import POLICIES, make_policy
from mooring.model.evaluation.latency_explanation import LatencyExplanation
from mooring.model.evaluation.metrics import evaluate_placement
from mooring.model.evaluation.network_explanation import NetworkExplanation, explain_network
from mooring.model.evaluation.resilience_explanation import ResilienceExplanation
from mooring.model.load.build import build_load_model
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem
from mooring.planning import plan
from tests.model.bounds.test_network_bound import random_problem, usage


def explained(placement: Placement) -> NetworkExplanation:
    model = build_load_model(placement.problem)
    return explain_network(model, placement, evaluate_placement(model, placement, points=64))


def line(**changes: Any) -> Problem:
    """Sites on a line, 10 ms apart; a stream at one end, its query at the other, a filter in between."""
    names = ["west", "middle", "east"]
    data: dict[str, Any] = {
        "sites": {name: {"capacity": 1} for name in names},
        "latency_ms": {"west": {"middle": 10, "east": 20}, "middle": {"east": 10}},
        "streams": {"readings": {"site": "west", "rate": 1000, "bytes": 100}},
        "operators": {"filter": {"inputs": ["readings"], "cost_us": 100, "selectivity": 0.1}},
        "queries": {"desk": {"reads": "filter", "site": "east"}},
    }
    return Problem.from_dict(data | changes)


def at(problem: Problem, **sites: str) -> NetworkExplanation:
    return explained(Placement.from_dict(problem, sites))


def test_the_best_placement_is_said_to_be_the_best() -> None:
    found = at(line(), filter="west")
    assert found.usage == pytest.approx(found.least) == pytest.approx(200.0)
    assert (
        found.sentences[0]
        == "200 B are in flight between sites, which equals the lower bound of all placements."
    )
    assert "10 kB/s over 20 ms, mostly from filter" in found.sentences[1]
    assert found.sentences[2] == "No query takes longer than the direct way from its farthest stream."
    assert found.sentences[3] == (
        "filter contributes most: at west it has 200 B in flight, 100.0% of the total; "
        "at the next best site, middle, it would have 1.1 kB, 5.5 times as much."
    )


def test_a_worse_placement_is_held_against_the_bound_and_the_better_site_is_named() -> None:
    found = at(line(), filter="middle")
    assert "5.5 times as much as the lower bound of 200 B" in found.sentences[0]
    assert (
        "The link from west to middle carries the most, 90.9% of it: 100 kB/s over 10 ms"
        in found.sentences[1]
    )
    assert "at west it would have 200 B, 81.8% less" in found.sentences[3]


def test_a_better_site_without_room_is_said_to_have_none() -> None:
    sites = {"west": {"capacity": 0.05}, "middle": {"capacity": 1}, "east": {"capacity": 1}}
    found = at(line(sites=sites), filter="middle")
    assert "at west it would have 81.8% less, but west has no room" in found.sentences[3]
    assert "at the next best site, east" in found.sentences[3]
    narrow = {"sites": {name: {"capacity": 0.05} for name in ("west", "east")} | {"middle": {"capacity": 1}}}
    assert "no other site has room for it" in at(line(**narrow), filter="middle").sentences[3]


def test_the_longest_detour_and_missed_limits_are_named() -> None:
    back = {
        "latency_ms": {"west": {"middle": 10, "east": 20}, "middle": {"east": 30}},
        "queries": {
            "desk": {"reads": "filter", "site": "east", "max_latency_ms": 25},
            "here": {"reads": "filter", "site": "west", "max_latency_ms": 1000},
        },
    }
    found = at(line(**back), filter="middle")
    assert (
        "Query desk has the longest detour: 40 ms over its operators, 2.0 times the 20 ms"
        in (found.sentences[2])
    )
    assert found.sentences[3] == "1 of 2 latency limits is not met; desk exceeds its limit by 15 ms."


def test_without_sizes_it_speaks_of_tuples() -> None:
    found = at(line(streams={"readings": {"site": "west", "rate": 1000}}), filter="middle")
    assert found.unit == "tuples"
    assert found.sentences[0].startswith("11 tuples are in flight")


def test_nothing_in_flight_is_said_so() -> None:
    found = at(line(queries={"desk": {"reads": "filter", "site": "west"}}), filter="west")
    assert found.sentences[0] == "Nothing is in flight between sites."
    assert found.dominant is None
    assert found.choice is None


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_what_is_claimed_holds(seed: int) -> None:
    """The bound, the link and the next best site, against all placements and all sites."""
    problem = random_problem(seed)
    pinned = build_load_model(problem).pinned_site
    choices = [range(len(problem.sites)) if site < 0 else [int(site)] for site in pinned]
    everything = [Placement(problem, np.array(sites)) for sites in product(*choices)]
    placement = everything[seed % len(everything)]
    found = explained(placement)
    assert found.usage == pytest.approx(usage(placement))
    assert found.least is not None
    assert found.least <= min(usage(each) for each in everything) * (1 + 1e-9)
    if found.choice is not None:
        fragment, here = found.choice.fragment, placement.site_of_fragment
        alone = [
            each
            for each in everything
            if (np.delete(each.site_of_fragment, fragment) == np.delete(here, fragment)).all()
        ]
        elsewhere = [each for each in alone if each.site_of_fragment[fragment] != here[fragment]]
        saved = usage(placement) - min(usage(each) for each in elsewhere)
        assert found.choice.usage - found.choice.next_usage == pytest.approx(saved)
        assert pinned[fragment] < 0


@pytest.mark.parametrize("name", list(POLICIES))
def test_a_policy_is_explained_by_what_it_is_about(name: str) -> None:
    """Of the network or of latencies where it is about that and they are stated, else of resilience."""
    settings_of = {"optimal": {"node_budget": "20000"}, "resilient": {}}
    policy = make_policy(name, settings_of.get(name, {}))
    made = plan(line(), policy, steps=50)
    kinds = {"network": NetworkExplanation, "latency": LatencyExplanation}
    assert isinstance(made.explanation, kinds.get(policy.about, ResilienceExplanation))
    assert (made.network_usage_bound is not None) == (policy.about == "network")


def test_the_subject_of_optimal_is_its_objective() -> None:
    assert make_policy("optimal", {"objective": "network"}).about == "network"
    assert make_policy("optimal", {"objective": "latency"}).about == "latency"
    assert make_policy("optimal").about == "resilience"


def test_without_latencies_a_network_policy_is_explained_by_load() -> None:
    problem = line()
    bare = Problem(problem.sites, problem.streams, problem.operators, problem.queries)
    assert isinstance(plan(bare, "producer").explanation, ResilienceExplanation)


def test_the_bound_of_a_large_problem_is_left_out_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.model.bounds.network_bound.MOST_WEIGHTS", 2)  # 1 fragment on 3 sites
    problem = line()
    whole = plan(problem, "relaxation", thorough=True)
    short = plan(problem, "relaxation")
    assert isinstance(short.explanation, NetworkExplanation)
    assert short.explanation.least is None
    assert "--all" in short.explanation.sentences[0]
    assert short.document(0.0).keys() == whole.document(0.0).keys() - {"network_usage_bound"}
    assert isinstance(whole.explanation, NetworkExplanation)
    assert whole.explanation.least == pytest.approx(200.0)
