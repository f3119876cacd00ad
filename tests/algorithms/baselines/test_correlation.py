"""Correlation-based balancing separates loads that rise and fall together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mooring.algorithms.baselines.correlation import Correlation, averaged, correlation_assign
from mooring.contracts.policy import Context
from mooring.errors import InputError
from mooring.model.load.model import LoadModel
from mooring.model.problem.history import RateHistory
from mooring.model.problem.problem import Problem


def test_operators_of_one_stream_are_separated() -> None:
    model = LoadModel.from_coefficients(np.repeat(np.eye(2), 2, axis=0), [1, 1])
    series = np.random.default_rng(0).random((50, 2))
    sites = correlation_assign(model, series)
    assert sites[0] != sites[1]
    assert sites[2] != sites[3]


def test_streams_that_burst_together_are_separated_by_their_history() -> None:
    """a and b rise together, c and d fall then: each site should get one of either pair."""
    problem = Problem.from_dict(
        {
            "sites": {"x": {"capacity": 1}, "y": {"capacity": 1}},
            "streams": {name: {"rate": 10} for name in "abcd"},
            "operators": {f"o{name}": {"inputs": [name], "cost_us": 100} for name in "abcd"},
        }
    )
    up = np.arange(1.0, 21.0)
    history = RateHistory(np.column_stack([up, up, up[::-1], up[::-1]]))
    sites = Correlation().place(replace(problem, history=history), Context.of(problem)).site_of_fragment
    assert sites[0] != sites[1]
    assert sites[2] != sites[3]


def test_mean_load_stays_near_each_sites_share() -> None:
    rng = np.random.default_rng(2)
    capacity = np.array([1.0, 2.0, 3.0])
    model = LoadModel.from_coefficients(rng.random((60, 4)), capacity)
    series = rng.random((50, 4))
    load = model.site_loads(correlation_assign(model, series, slack=0.2), series.mean(axis=0))
    assert (load <= 1.2 * load.sum() * capacity / capacity.sum() + 1e-9).all()


def test_a_long_history_is_averaged_down_without_changing_its_mean() -> None:
    series = np.arange(1000.0).reshape(-1, 1)
    short = averaged(series, 100)
    assert len(short) == 100
    assert short.mean() == pytest.approx(series.mean())
    assert averaged(short, 100) is short


@pytest.mark.parametrize("wrong", [{"samples": 1}, {"slack": -0.1}, {"slack": np.inf}])
def test_parameters_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        Correlation(**wrong)  # type: ignore[arg-type]
