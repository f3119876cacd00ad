"""Max-rate balancing looks at the highest rates: stated, else seen, else present."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mooring.algorithms.baselines.max_rate import MaxRate, highest_rates
from mooring.contracts.policy import Context
from mooring.model.problem.history import RateHistory
from mooring.model.problem.problem import Problem

PROBLEM = Problem.from_dict(
    {
        "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
        "streams": {"steady": {"rate": 50}, "bursty": {"rate": 1, "max_rate": 900}, "seen": {"rate": 2}},
        "operators": {
            "s1": {"inputs": ["steady"], "cost_us": 100},
            "s2": {"inputs": ["steady"], "cost_us": 100},
            "b1": {"inputs": ["bursty"], "cost_us": 100},
            "b2": {"inputs": ["bursty"], "cost_us": 100},
        },
    }
)


def test_a_stated_maximum_wins_over_the_history_over_the_present_rate() -> None:
    assert highest_rates(PROBLEM).tolist() == [50, 900, 2]
    seen = replace(PROBLEM, history=RateHistory(np.array([[40.0, 5.0, 7.0], [60.0, 3.0, 1.0]])))
    assert highest_rates(seen).tolist() == [60, 900, 7]


def test_the_operators_of_a_bursty_stream_are_kept_apart() -> None:
    where = MaxRate().place(PROBLEM, Context.of(PROBLEM)).as_dict()
    assert where["b1"] != where["b2"]
