"""Micro-batches: half a trigger at the entry, a trigger per channel, and batches that share their site."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.load.build import build_load_model
from mooring.load.micro_batches import batch_times_s, micro_batches, shared_evenly_s
from mooring.problem.problem import Problem


def chain(length: int, **of_site: Any) -> Problem:
    """Every fragment has .05 cores to do, and .05 more without any tuples."""
    operators = {
        f"o{k}": {"inputs": [f"o{k - 1}" if k else "x"], "cost_us": 500, "fixed_cores": 0.05}
        for k in range(length)
    }
    return Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1, **of_site}, "b": {"capacity": 1}},
            "latency_ms": {"a": {"b": 30}},
            "streams": {"x": {"rate": 100, "site": "a"}},
            "operators": operators,
            "queries": {"q": {"reads": f"o{length - 1}", "site": "a"}},
        }
    )


def latency_s(problem: Problem, sites: list[int], trigger_s: float = 1.0) -> float:
    model = build_load_model(problem)
    return float(micro_batches(problem, model, np.array(sites), trigger_s).query_s[0])


def test_one_fragment_is_half_a_trigger_and_its_batch() -> None:
    assert latency_s(chain(1), [0]) == pytest.approx(0.5 + 0.1)
    assert latency_s(chain(1), [0], 10.0) == pytest.approx(5.0 + 1.0)


def test_every_channel_is_a_trigger_and_the_last_batch_counts_itself() -> None:
    """Two batches of a tenth share one core."""
    assert latency_s(chain(2), [0, 0]) == pytest.approx(0.5 + 1.0 + 0.2)
    assert latency_s(chain(3), [0, 0, 0]) == pytest.approx(0.5 + 2.0 + 0.3)


def test_apart_batches_are_shorter_and_ways_are_hidden_by_the_trigger() -> None:
    """30 ms to b are over before the next trigger; those back to the query are not."""
    assert latency_s(chain(2), [0, 1]) == pytest.approx(0.5 + 1.0 + 0.1 + 0.03)


def test_a_batch_that_is_not_ready_is_read_a_trigger_later() -> None:
    problem = chain(2, capacity=0.21)
    model = build_load_model(problem)
    assert batch_times_s(model, np.array([0, 0]), 1.0) == pytest.approx([0.2 / 0.21] * 2)
    slow = Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
            "latency_ms": {"a": {"b": 300}},
            "streams": {"x": {"rate": 100, "site": "a"}},
            "operators": {"f": {"inputs": ["x"], "cost_us": 8000}, "g": {"inputs": ["f"], "cost_us": 100}},
            "queries": {"q": {"reads": "g", "site": "b"}},
        }
    )
    # .8 s of work and .3 s of way: at the second trigger.
    assert latency_s(slow, [0, 1]) == pytest.approx(0.5 + 2.0 + 0.01)


def test_a_site_that_cannot_keep_up_delivers_nothing_in_time() -> None:
    assert latency_s(chain(2, capacity=0.15), [0, 0]) == float("inf")


def test_jobs_that_share_cores_evenly_use_one_each_at_most() -> None:
    assert shared_evenly_s(np.array([1.0, 1.0]), 4.0) == pytest.approx([1.0, 1.0])
    assert shared_evenly_s(np.array([3.0, 1.0]), 1.0) == pytest.approx([4.0, 2.0])
    assert shared_evenly_s(np.array([]), 1.0).tolist() == []
