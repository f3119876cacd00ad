"""Past rates that vary make arrivals more irregular, in the measure that simulated ones are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mooring.model.load.queued.arrival_variability import arrival_variability
from mooring.model.load.queued.latencies import queued_latencies
from mooring.model.load.queued.many_placements import ManyPlacements
from mooring.model.problem.history import RateHistory
from mooring.model.problem.problem import Problem


def with_history(rates: list[float], **of_stream: float) -> Problem:
    problem = Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1}},
            "streams": {"x": {"rate": 50, **of_stream}},
            "operators": {"f": {"inputs": ["x"], "cost_us": 10_000}},
            "queries": {"q": {"reads": "f", "site": "a"}},
        }
    )
    return replace(problem, history=RateHistory(np.array(rates)[:, None]))


def test_constant_rates_are_by_chance_and_what_is_stated_counts() -> None:
    assert arrival_variability(with_history([50.0, 50.0]), 0) == pytest.approx(1.0)
    assert arrival_variability(with_history([10.0, 90.0], variability=0.25), 0) == 0.25
    assert arrival_variability(with_history([0.0, 0.0]), 0) == 1.0


def test_it_is_that_of_drawn_times_between_tuples() -> None:
    rates, rng = [20.0, 50.0, 110.0], np.random.default_rng(0)
    between = np.concatenate([rng.exponential(1.0 / rate, int(10_000 * rate)) for rate in rates])
    drawn = between.var() / between.mean() ** 2
    assert arrival_variability(with_history(rates), 0) == pytest.approx(drawn, rel=0.02)


def test_waits_are_longer_by_it_in_both_forms_of_the_model() -> None:
    even, varied = with_history([50.0]), with_history([20.0, 50.0, 80.0])
    assert queued_latencies(varied, [0]).query_s[0] > queued_latencies(even, [0]).query_s[0]
    compiled = ManyPlacements.of(varied).latencies(np.array([0])).query_s[0]
    assert compiled == pytest.approx(queued_latencies(varied, [0]).query_s[0])
