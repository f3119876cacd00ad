"""Why queries are as quick as they are, in words."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.model.evaluation.latency_explanation import LatencyExplanation, explain_latency
from mooring.model.evaluation.metrics import evaluate_placement
from mooring.model.load.build import build_load_model
from mooring.model.load.queued.latencies import queued_latencies
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem
from tests.algorithms.ants.latency_problems import diamond


def explained(problem: Problem, site: int) -> LatencyExplanation:
    placement = Placement(problem, np.full(len(problem.fragments), site))
    return explain_latency(placement, evaluate_placement(build_load_model(problem), placement, points=64))


def test_it_names_the_mean_the_slowest_query_the_longest_wait_and_missed_limits() -> None:
    data = diamond()
    data["queries"]["tops"]["max_latency_ms"] = 5.0
    problem = Problem.from_dict(data)
    found = explained(problem, 2)
    assert found.sentences[0].startswith(f"Queries take {found.mean_ms:.4g} ms on average")
    assert found.sentences[1].startswith(f"Query {problem.queries[found.slowest].name} is the slowest")
    assert found.sentences[2].startswith("Messages wait longest at c: ")
    assert "1 of 1 latency limits is not met with queues; tops exceeds its limit" in found.sentences[3]
    assert 0.0 < found.way_ms < found.mean_ms


def test_a_full_site_is_said_to_be_full() -> None:
    data = diamond()
    data["streams"]["x"]["rate"] = 1000
    found = explained(Problem.from_dict(data), 0)
    assert found.sentences[0].startswith("The latency of 2 of 2 queries grows without bound")
    assert "Site a is full: its queue grows without bound." in found.sentences


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_the_way_is_a_part_of_the_latency_whatever_paths_results_take(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = diamond()
    data["streams"]["x"]["rate"] = float(rng.uniform(1.0, 120.0))
    problem = Problem.from_dict(data)
    sites = rng.integers(0, len(problem.sites), len(problem.operators)).tolist()
    found = queued_latencies(problem, sites)
    finite = np.isfinite(found.query_s)
    assert (found.way_s[finite] >= 0.0).all()
    assert (found.way_s[finite] <= found.query_s[finite] + 1e-12).all()


def test_a_result_that_came_by_the_shorter_of_two_paths_counts_with_that() -> None:
    """Nine of ten results travel 10 ms, one in ten 100 ms: 19 ms on the way on average, not 100."""
    problem = Problem.from_dict(
        {
            "sites": {name: {"capacity": 1} for name in ("near", "far", "end")},
            "latency_ms": {"near": {"end": 10, "far": 50}, "far": {"end": 100}},
            "streams": {"x": {"rate": 90, "site": "near"}, "y": {"rate": 10, "site": "far"}},
            "operators": {"both": {"inputs": ["x", "y"], "kind": "union", "cost_us": 100, "site": "end"}},
            "queries": {"q": {"reads": "both", "site": "end"}},
        }
    )
    found = queued_latencies(problem, [2])
    np.testing.assert_allclose(1e3 * found.way_s, [19.0])
    assert found.query_s[0] > found.way_s[0]
