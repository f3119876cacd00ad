"""Largest load first, worked by hand."""

from __future__ import annotations

import numpy as np

from mooring.algorithms.baselines.llf import LargestLoadFirst, fragment_loads, least_loaded_assign
from mooring.contracts.policy import Context
from mooring.model.load.model import LoadModel
from mooring.model.problem.problem import Problem


def test_the_largest_goes_to_the_least_loaded_for_its_capacity() -> None:
    """Loads 6, 4, 3, 2 on capacities 1 and 2: 6 -> first; 4, 3, 2 -> second (4/2, 7/2, 9/2 < 6)."""
    model = LoadModel.from_coefficients([[3.0], [2.0], [6.0], [4.0]], [1, 2])
    assert least_loaded_assign(model, np.array([1.0])).tolist() == [1, 1, 0, 1]


def test_fixed_load_counts_as_load() -> None:
    model = LoadModel.from_coefficients([[1.0], [2.0]], [9, 9], fixed_cores=[5, 0])
    assert fragment_loads(model, np.array([3.0])).tolist() == [8, 6]


def test_the_policy_balances_the_present_rates() -> None:
    """Two streams of 100/s and 1/s: the two readers of the busy one are kept apart."""
    problem = Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
            "streams": {"busy": {"rate": 100}, "quiet": {"rate": 1}},
            "operators": {
                name: {"inputs": [stream], "cost_us": 100}
                for name, stream in {"b1": "busy", "q1": "quiet", "b2": "busy", "q2": "quiet"}.items()
            },
        }
    )
    where = LargestLoadFirst().place(problem, Context.of(problem)).as_dict()
    assert where["b1"] != where["b2"]
