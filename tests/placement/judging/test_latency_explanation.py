"""Why queries are as quick as they are, in words."""

from __future__ import annotations

import numpy as np

from mooring.load.build import build_load_model
from mooring.placement.judging.evaluation import evaluate_placement
from mooring.placement.judging.latency_explanation import LatencyExplanation, explain_latency
from mooring.placement.placement import Placement
from mooring.problem.problem import Problem
from tests.placement.ants.latency_problems import diamond


def explained(problem: Problem, site: int) -> LatencyExplanation:
    placement = Placement(problem, np.full(len(problem.fragments), site))
    return explain_latency(placement, evaluate_placement(build_load_model(problem), placement, points=64))


def test_it_names_the_mean_the_slowest_query_the_longest_wait_and_missed_limits() -> None:
    data = diamond()
    data["queries"]["tops"]["max_latency_ms"] = 5.0
    problem = Problem.from_dict(data)
    found = explained(problem, 2)
    assert found.sentences[0].startswith(f"Queries wait {found.mean_ms:.4g} ms for their results on average")
    assert found.sentences[1].startswith(f"Query {problem.queries[found.slowest].name} is the slowest")
    assert found.sentences[2].startswith("Messages wait longest at c: ")
    assert "1 of 1 latency limits is not met with queues; tops misses its own" in found.sentences[3]
    assert 0.0 < found.way_ms < found.mean_ms


def test_a_full_site_is_said_to_be_full() -> None:
    data = diamond()
    data["streams"]["x"]["rate"] = 1000
    found = explained(Problem.from_dict(data), 0)
    assert found.sentences[0].startswith("2 of 2 queries wait without end")
    assert "Site a is full: what it is sent grows without end." in found.sentences
