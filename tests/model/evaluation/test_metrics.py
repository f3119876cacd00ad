"""Metrics over many streams: as logarithms, finite, and in agreement with what is known."""

from __future__ import annotations

from math import log10
from typing import Any

import numpy as np
import pytest

from mooring.model.evaluation.metrics import evaluate_placement
from mooring.model.load.build import build_load_model
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem


def many(streams: int, sites: int, **stream: Any) -> Problem:
    """One operator per stream, equal ones on equal sites."""
    return Problem.from_dict(
        {
            "sites": {f"s{i}": {"capacity": 1} for i in range(sites)},
            "streams": {f"x{k}": {"rate": 1000, **stream} for k in range(streams)},
            "operators": {f"o{k}": {"inputs": [f"x{k}"], "cost_us": 100} for k in range(streams)},
        }
    )


def metrics_of(problem: Problem, sites: np.ndarray) -> dict[str, Any]:
    return evaluate_placement(build_load_model(problem), Placement(problem, sites)).as_json()


def test_a_ratio_too_small_for_a_number_is_null_and_its_logarithm_is_there() -> None:
    found = metrics_of(many(480, 240), np.arange(480) % 60)
    assert found["feasible_ratio"] is None
    assert found["feasible_ratio_error"] is None
    # sixty simplices of eight variables whose weight is 240 each: prod (1/240)^8 / 8!, times 480!
    factorials = sum(log10(k) for k in range(1, 481)) - 60 * sum(log10(k) for k in range(1, 9))
    assert found["feasible_ratio_log10"] == pytest.approx(factorials - 480 * log10(240))
    assert found["feasible_ratio_log10_error"] == 0.0


def test_both_are_there_where_the_number_is_one() -> None:
    found = metrics_of(many(70, 7), np.arange(70) % 7)
    assert found["feasible_ratio"] == pytest.approx(10 ** found["feasible_ratio_log10"])
    assert "feasible_ratio_log10" not in metrics_of(many(9, 3), np.arange(9) % 3)


def test_what_directions_hardly_find_over_dozens_of_streams_is_exact_where_sites_share_none() -> None:
    found = metrics_of(many(48, 12), np.arange(48) % 12)
    exact = sum(log10(k) for k in range(1, 49)) - 12 * log10(24) - 48 * log10(12)
    assert found["feasible_ratio"] == pytest.approx(10**exact, rel=1e-9)
    assert found["feasible_ratio_error"] == 0.0


def test_below_high_maximum_rates_the_share_is_the_ratio_and_below_low_ones_it_is_all() -> None:
    sites = np.arange(80) % 8
    unlimited = metrics_of(many(80, 8), sites)["feasible_ratio_log10"]
    high = metrics_of(many(80, 8, max_rate=1e9), sites)
    error = high["feasible_ratio_below_max_log10_error"]
    assert high["feasible_ratio_below_max_log10"] == pytest.approx(unlimited, abs=5 * error)
    low = metrics_of(many(80, 8, max_rate=1000), sites)  # ten streams of a tenth of a core per site
    assert low["feasible_ratio_below_max_log10"] == pytest.approx(
        0.0, abs=5 * low["feasible_ratio_below_max_log10_error"]
    )


def test_an_empty_set_over_many_streams_is_zero() -> None:
    found = metrics_of(many(80, 80, min_rate=900), np.zeros(80, dtype=np.int64))
    assert found["feasible_ratio"] == 0.0
    assert found["feasible_ratio_log10"] is None
