"""Placements as an engine runs them that shares what computes the same at one site."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.model.evaluation.latency_explanation import explain_latency
from mooring.model.evaluation.metrics import evaluate_placement
from mooring.model.load.build import build_load_model
from mooring.model.load.queued.latencies import queued_latencies
from mooring.model.placement.placement import Placement
from mooring.model.placement.shared import as_shared
from mooring.model.problem.problem import Problem


def two_queries(**second: Any) -> dict[str, Any]:
    """Both clean packets; what follows differs."""
    return {
        "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
        "latency_ms": {"a": {"b": 5}},
        "streams": {"packets": {"rate": 100, "site": "a"}},
        "operators": {
            "clean": {"inputs": ["packets"], "cost_us": 4000},
            "top": {"inputs": ["clean"], "cost_us": 1000},
            "clean2": {"inputs": ["packets"], "cost_us": 4000, **second},
            "log": {"inputs": ["clean2"], "cost_us": 500, "per_input": {"clean2": {"selectivity": 0.5}}},
        },
        "queries": {"tops": {"reads": "top", "site": "b"}, "logs": {"reads": "log", "site": "b"}},
    }


def placed(data: dict[str, Any], sites: str) -> Placement:
    problem = Problem.from_dict(data)
    return Placement(problem, np.array(["ab".index(site) for site in sites]))


def test_readers_of_what_need_not_run_read_what_does() -> None:
    running = as_shared(placed(two_queries(), "abab"))
    assert running.as_dict() == {"clean": "a", "top": "b", "log": "b"}
    log = running.problem.operators[2]
    assert log.inputs == ("clean",)
    assert log.selectivity_of("clean") == 0.5
    used = queued_latencies(running.problem, running.site_of_operator.tolist()).site_utilisation
    assert used.tolist() == pytest.approx([0.4, 0.15])


@pytest.mark.parametrize(
    ("second", "sites"), [({"reuse": False}, "abab"), ({"cost_us": 3}, "abab"), ({}, "abbb")]
)
def test_what_differs_or_is_elsewhere_runs(second: dict[str, Any], sites: str) -> None:
    placement = placed(two_queries(**second), sites)
    assert as_shared(placement) is placement


def test_split_operators_are_shared_where_every_instance_is() -> None:
    data = two_queries(instances=2)
    data["operators"]["clean"]["instances"] = 2
    together = as_shared(placed(data, "abbabb"))
    assert sorted(together.as_dict()) == ["clean#1", "clean#2", "log", "top"]
    apart = placed(data, "abbbab")
    assert as_shared(apart) is apart


def test_the_explanation_says_what_sharing_would_bring() -> None:
    placement = placed(two_queries(), "abab")
    metrics = evaluate_placement(build_load_model(placement.problem), placement, points=64)
    said = [each for each in explain_latency(placement, metrics).sentences if "operators shared" in each]
    assert said[0].startswith("With equal operators shared, queries take ")
    assert said[0].endswith("; the busiest site is then a, at 40%.")
