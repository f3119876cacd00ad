"""Clustering before ROD: what merges, what must not, and that it pays where crossing costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.algorithms.rod.clustering import (
    Clustering,
    cluster,
    clustered,
    clustering_ratios,
    plane_distance,
    sweep,
)
from mooring.algorithms.rod.policy import Rod, rod_assign
from mooring.contracts.policy import Context
from mooring.model.load.feasible.feasible_set import FeasibleSet
from mooring.model.problem.generate import GraphParameters, generate_problem
from mooring.model.problem.problem import Problem


def chain(costs: list[float], comm_us: float, **extra: dict[str, Any]) -> Problem:
    """s -> o0 -> o1 -> ..., all of selectivity one; `extra` adds fields to single operators."""
    return Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
            "streams": {"s": {"rate": 10}},
            "network": {"comm_us": comm_us},
            "operators": {
                f"o{n}": {
                    "inputs": ["s" if n == 0 else f"o{n - 1}"],
                    "cost_us": cost,
                    **extra.get(f"o{n}", {}),
                }
                for n, cost in enumerate(costs)
            },
        }
    )


def test_the_ratio_is_crossing_over_the_cheaper_end() -> None:
    model = Context.of(chain([10, 40, 20], comm_us=5)).load
    assert sorted(clustering_ratios(model)) == pytest.approx([5 / 20, 5 / 10])


def test_ratio_merges_the_costliest_arc_first_and_stops_at_the_threshold() -> None:
    model = Context.of(chain([10, 40, 20], comm_us=5)).load
    assert cluster(model, Clustering("ratio", 0.3, 10)).tolist() == [0, 0, 1]
    assert cluster(model, Clustering("ratio", 0.25, 10)).tolist() == [0, 0, 0]
    assert cluster(model, Clustering("ratio", 0.6, 10)).tolist() == [0, 1, 2]


def test_weight_merges_the_lightest_pair_first() -> None:
    """Ratios prefer the arc at the cheapest end (o0); weights prefer the pair 20 + 20 over 10 + 60."""
    model = Context.of(chain([10, 60, 20, 20], comm_us=30)).load
    cap = 2 * 75 / 110  # of 110 us in all; 70 fit, 90 do not
    assert cluster(model, Clustering("ratio", 0.0, cap)).tolist() == [0, 0, 1, 1]
    first_only = 2 * 45 / 110
    assert cluster(model, Clustering("weight", 0.0, first_only)).tolist() == [0, 1, 2, 2]


def test_no_cluster_is_heavier_than_the_cap() -> None:
    model = Context.of(generate_problem(GraphParameters(comm_us=300), np.random.default_rng(1))).load
    for how in sweep(model):
        merged = clustered(model, cluster(model, how))
        parts = merged.coefficients.toarray() / model.totals
        norms = np.linalg.norm(parts, axis=1)[np.bincount(cluster(model, how)) > 1]
        assert (norms <= how.weight_cap / 10 + 1e-12).all()


def test_fragments_pinned_apart_or_too_bulky_together_do_not_merge() -> None:
    apart = chain([10, 10], 50, o0={"site": "a"}, o1={"site": "b"})
    assert cluster(Context.of(apart).load, Clustering("ratio", 0.0, 10)).tolist() == [0, 1]
    bulky = chain([10, 10], 50, o0={"fixed_cores": 0.6}, o1={"fixed_cores": 0.6})
    assert cluster(Context.of(bulky).load, Clustering("ratio", 0.0, 10)).tolist() == [0, 1]
    one_pin = chain([10, 10], 50, o0={"site": "b"})
    together = Rod(clustering="ratio", weight_cap=10).place(one_pin, Context.of(one_pin))
    assert together.as_dict() == {"o0": "b", "o1": "b"}


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.sampled_from(["ratio", "weight"]))
def test_a_clustered_model_carries_the_same_load(seed: int, approach: Any) -> None:
    """Site coefficients, communication included, do not change when fragments are placed as clusters."""
    rng = np.random.default_rng(seed)
    problem = generate_problem(
        GraphParameters(streams=3, operators=30, sites=4, comm_us=200, joins=2, queries=2), rng
    )
    model = Context.of(problem).load
    cluster_of = cluster(model, Clustering(approach, 0.2, 2.0))
    merged = clustered(model, cluster_of)
    sites = rng.integers(0, 4, merged.fragment_count)
    np.testing.assert_allclose(
        merged.site_coefficients(sites), model.site_coefficients(sites[cluster_of]), atol=1e-15
    )
    assert plane_distance(model, sites[cluster_of]) == pytest.approx(
        FeasibleSet.of(model, sites[cluster_of]).plane_distance
    )


def test_the_sweep_pays_where_crossing_costs_and_changes_nothing_where_it_is_free() -> None:
    """Figure 17(a): at a communication cost of half the processing cost, clustered ROD is far ahead."""
    ratios = []
    for seed in range(3):
        problem = generate_problem(
            GraphParameters(operators=100, cost_us=(500, 500), comm_us=250), np.random.default_rng(seed)
        )
        context = Context.of(problem)
        plans = [Rod().place(problem, context), Rod(clustering="none").place(problem, context)]
        ratios.append([FeasibleSet.of(context.load, p.site_of_fragment).ratio(2**12).value for p in plans])
    with_sweep, without = np.mean(ratios, axis=0)
    assert with_sweep > 1.5 * without
    free = generate_problem(GraphParameters(operators=50), np.random.default_rng(0))
    assert (
        Rod().place(free, Context.of(free)).site_of_fragment.tolist()
        == rod_assign(Context.of(free).load).tolist()
    )
