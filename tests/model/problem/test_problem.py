"""The problem as a whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mooring.model.problem.problem import Problem

DESIGN_EXAMPLE = """
version: 1                                       # optional; 1 is the only one
sites:
  berkeley: {capacity: 2.0}                      # optional: memory_mb, connect: "sc://host:port"
  mit:      {capacity: 1.0}
latency_ms: {berkeley: {mit: 71.0}}              # symmetric unless both directions are given
network: {channel_ms: 0, comm_us: 0}
streams:
  packets: {site: berkeley, rate: 1200, min_rate: 200, max_rate: 9000, bytes: 64}    # or rates: history.csv
  dns:     {site: mit, rate: 40, bytes: 80}
operators:
  tcp:   {inputs: [packets], cost_us: 12, selectivity: 0.8}
  pairs: {inputs: [tcp, dns], kind: join, window_s: 0.5, cost_us: 0.4, selectivity: 0.01}
  odd:   {inputs: [tcp], cost_us: 30, selectivity: 0.7, variable: true}
  fixed: {inputs: [odd], cost_us: 5, selectivity: 0.5, site: mit}
  split: {inputs: [tcp], cost_us: 50, selectivity: 1, instances: 4}
  raw:   {load: {packets: 3.1e-5}}
queries:
  top: {reads: fixed, site: mit, max_latency_ms: 150}
"""


@pytest.fixture
def problem(tmp_path: Path) -> Problem:
    (tmp_path / "p.yaml").write_text(DESIGN_EXAMPLE)
    return Problem.load(tmp_path / "p.yaml")


def test_the_example_of_the_design_loads(problem: Problem) -> None:
    assert [operator.name for operator in problem.operators] == [
        *("tcp", "pairs", "odd", "fixed", "split#1", "split#2", "split#3", "split#4", "raw")
    ]
    assert problem.operators[1].window_s == 0.5
    assert problem.operators[2].variable
    assert problem.operators[3].site == "mit"
    assert problem.operators[8].load == {"packets": 3.1e-5}
    assert problem.queries[0].max_latency_ms == 150
    assert np.array_equal(problem.network.latency_ms, [[0, 71], [71, 0]])  # type: ignore[arg-type]
    assert problem.history is None


def test_arrays_follow_the_order_of_the_file(problem: Problem) -> None:
    assert np.array_equal(problem.capacity_cores, [2, 1])
    assert np.array_equal(problem.rates, [1200, 40])
    assert np.array_equal(problem.min_rates, [200, 0])
    assert problem.site_index == {"berkeley": 0, "mit": 1}
    assert problem.stream_index["dns"] == 1
    assert problem.operator_index["split#2"] == 5


def test_other_rates_leave_the_rest_as_it_is(problem: Problem) -> None:
    other = problem.with_rates([1, 2]).with_min_rates([0.5, 0])
    assert np.array_equal(other.rates, [1, 2])
    assert np.array_equal(other.min_rates, [0.5, 0])
    assert np.array_equal(problem.rates, [1200, 40])
    assert other.operators is problem.operators


def test_every_operator_is_a_fragment_of_its_own_unless_labelled() -> None:
    data = {
        "sites": {"a": {"capacity": 1}},
        "streams": {"s": {"rate": 1}},
        "operators": {
            name: {"inputs": ["s"], "cost_us": 1, **label}
            for name, label in {"o": {}, "p": {"fragment": "f"}, "q": {}, "r": {"fragment": "f"}}.items()
        },
    }
    problem = Problem.from_dict(data)
    assert problem.fragments == ((0,), (1, 3), (2,))
    assert problem.fragment_names == ("o", "f", "q")
