"""Springs come to rest where physics says."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.algorithms.relaxation.spring_params import SpringParams
from mooring.algorithms.relaxation.springs import Springs, problem_springs, virtual_positions
from mooring.model.network.embedding import Embedding
from mooring.model.problem.problem import Problem


def sites_at(*places: tuple[float, float]) -> Embedding:
    return Embedding(np.array(places), np.zeros(len(places)), np.zeros(len(places)))


FINE = SpringParams(threshold_ms=1e-6)


def test_one_operator_rests_at_the_weighted_mean_of_its_sites() -> None:
    springs = Springs.of(1, np.array([~0, ~1, 0]), np.array([0, 0, ~2]), np.array([2.0, 2.0, 1.0]))
    at = virtual_positions(springs, sites_at((0, 0), (100, 0), (0, 50)), np.random.default_rng(0), FINE)
    assert at[0] == pytest.approx([40.0, 10.0], abs=1e-3)


def test_chained_operators_share_the_way_between_two_sites() -> None:
    springs = Springs.of(2, np.array([~0, 0, 1]), np.array([0, 1, ~1]), np.ones(3))
    at = virtual_positions(springs, sites_at((0, 0), (90, 0)), np.random.default_rng(0), FINE)
    assert at[:, 0] == pytest.approx([30.0, 60.0], abs=1e-3)


def test_the_result_does_not_depend_on_the_unit_of_rates() -> None:
    ends = np.array([~0, ~1, 0]), np.array([0, 0, ~2])
    rate = np.array([2.0, 3.0, 1.0])
    sites = sites_at((0, 0), (100, 0), (0, 50))
    small, large = (
        virtual_positions(Springs.of(1, *ends, rate * unit), sites, np.random.default_rng(0), FINE)
        for unit in (1e-3, 1e6)
    )
    assert small == pytest.approx(large, abs=1e-3)


def test_a_shared_operator_feels_all_its_queries() -> None:
    alone = Springs.of(1, np.array([~0, 0]), np.array([0, ~1]), np.array([1.0, 1.0]))
    shared = Springs.of(1, np.array([~0, 0, 0]), np.array([0, ~1, ~2]), np.array([1.0, 1.0, 1.0]))
    sites = sites_at((0, 0), (60, 0), (0, 60))
    at = [virtual_positions(s, sites, np.random.default_rng(0), FINE)[0] for s in (alone, shared)]
    assert at[0] == pytest.approx([30.0, 0.0], abs=1e-3)
    assert at[1] == pytest.approx([20.0, 20.0], abs=1e-3)


def test_a_problem_gives_one_spring_per_flow_in_bytes_per_second() -> None:
    problem = Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
            "latency_ms": {"a": {"b": 10}},
            "streams": {"x": {"site": "a", "rate": 100, "bytes": 20}},
            "operators": {
                "f": {"inputs": ["x"], "selectivity": 0.5, "cost_us": 1},
                "g": {"inputs": ["f"], "selectivity": 0.1, "bytes": 8, "cost_us": 1, "site": "b"},
            },
            "queries": {"q": {"reads": "g", "site": "a"}},
        }
    )
    springs = problem_springs(problem, np.array([-1, 1]))
    own = springs.of_operator(0)
    assert springs.other[own].tolist() == [~1, ~0]
    assert springs.rate[own].tolist() == [1000.0, 2000.0]
    assert springs.outgoing[own].tolist() == [True, False]
