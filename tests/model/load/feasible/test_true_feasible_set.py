"""The true feasible set: the linear one where graphs are linear, areas by hand where it is curved."""

from __future__ import annotations

import dataclasses
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.errors import InfeasibleError, UnsupportedError
from mooring.model.load.feasible.feasible_set import FeasibleSet
from mooring.model.load.feasible.true_feasible_set import loading_streams, true_ratio
from mooring.model.load.model import Definition, LoadModel, Variable


def join_model(
    rows: list[list[float]], capacity: list[float], lower: tuple[float, float] = (0.0, 0.0)
) -> LoadModel:
    """Two streams, and the product of their rates as a third variable."""
    linear = LoadModel.from_coefficients(rows, capacity, lower=[*lower, lower[0] * lower[1]])
    return dataclasses.replace(
        linear,
        variables=(Variable("a", "stream"), Variable("b", "stream"), Variable("j", "pairs")),
        definitions=(Definition(2, 1.0, {0: 1.0}, {1: 1.0}),),
    )


@given(st.integers(1, 4), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_linear_graphs_have_the_same_ratio_in_rate_space(variables: int, seed: int) -> None:
    """Four combined standard errors: the two sample along different stretches of the axes."""
    rng = np.random.default_rng(seed)
    matrix = rng.uniform(0.0, 1.0, (8, variables))
    capacity = rng.uniform(0.5, 2.0, 3)
    lower = rng.uniform(0, 0.2, variables) * capacity.sum() / matrix.sum(axis=0) / variables
    model = LoadModel.from_coefficients(matrix, capacity, lower=lower, fixed_cores=rng.uniform(0, 0.05, 8))
    placement = rng.integers(3, size=8)
    linear = FeasibleSet.of(model, placement).ratio(2**10)
    true = true_ratio(model, placement, 2**10)
    slack = 4 * np.hypot(linear.standard_error, true.standard_error) + 1e-9
    assert abs(true.value - linear.value) <= slack


def test_a_curved_set_by_hand() -> None:
    """The join on site 1 (x y <= 1), the rest on site 0 (x + y <= 1/2 each): the triangle under x + y = 1/2
    of the region x + y + x y <= 3/2.

    That region reaches x = 3/2 and y = (3/2 - x)/(1 + x): its area is 5/2 ln(5/2) - 3/2. In the triangle x y
    is at most 1/16, so site 1 never binds: area 1/8.
    """
    model = join_model([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [0.5, 1.0])
    expected = 0.125 / (2.5 * log(2.5) - 1.5)
    estimate = true_ratio(model, [0, 0, 1])
    assert estimate.value == pytest.approx(expected, abs=1e-4)
    assert estimate.interval()[0] <= expected <= estimate.interval()[1]


def test_a_hyperbola_binds_by_hand() -> None:
    """Above rates (1, 1): stream a needs x/2 of 2 cores on site 0, the join x y / 4 of 1/2 on site 1.

    Feasible: 1 <= x <= 2 (beyond that no y >= 1 is left), 1 <= y <= 2/x: area 2 ln 2 - 1. Ideal:
    x/2 + x y/4 <= 5/2, so y <= 10/x - 2, 1 <= x <= 10/3: area 10 ln(10/3) - 3 (10/3 - 1).
    """
    model = join_model([[0.5, 0, 0], [0, 0, 0.25]], [2.0, 0.5], lower=(1.0, 1.0))
    expected = (2 * log(2) - 1) / (10 * log(10 / 3) - 7)
    estimate = true_ratio(model, [0, 1])
    assert estimate.value == pytest.approx(expected, abs=1e-4)
    assert estimate.interval()[0] <= expected <= estimate.interval()[1]


@given(st.integers(0, 10**6))
@settings(max_examples=10, deadline=None)
def test_it_agrees_with_hit_or_miss(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.uniform(0.1, 1, (6, 3)) * (rng.random((6, 3)) < 0.7) + np.vstack([np.eye(3)] * 2) * 0.1
    model = join_model(rows.tolist(), [1.0, 1.5])
    placement = rng.integers(2, size=6)
    reach = model.capacity_left_cores / model.totals[:2]
    points = rng.random((20_000, 2)) * reach
    ideal = model.variable_values(points) @ model.totals <= model.capacity_left_cores
    inside = (model.site_loads(placement, points[ideal]) <= model.capacity_cores).all(axis=1).mean()
    slack = 4 * np.sqrt(inside * (1 - inside) / ideal.sum()) + 3e-3
    assert abs(true_ratio(model, placement, 2**9).value - inside) <= slack


def test_perfect_balance_is_ideal_whatever_the_curve() -> None:
    model = join_model([[1, 2, 3], [2, 4, 6]], [1.0, 2.0])
    assert true_ratio(model, [0, 1], 2**8).value == pytest.approx(1.0, rel=1e-9)


def test_a_single_stream_is_exact() -> None:
    """r + r^2 on site 0, r on site 1: feasible to r = (sqrt 5 - 1)/2, ideal to r = sqrt 3 - 1."""
    linear = LoadModel.from_coefficients([[1, 1], [1, 0]], [1.0, 1.0])
    model = dataclasses.replace(
        linear,
        variables=(Variable("a", "stream"), Variable("j", "pairs")),
        definitions=(Definition(1, 1.0, {0: 1.0}, {0: 1.0}),),
    )
    estimate = true_ratio(model, [0, 1])
    assert estimate.value == pytest.approx(((5**0.5 - 1) / 2) / (3**0.5 - 1), rel=1e-9)
    assert estimate.standard_error == 0.0


def test_streams_that_load_nothing_are_left_out() -> None:
    model = LoadModel.from_coefficients([[1, 0, 2], [2, 0, 1]], [1.0, 1.0])
    assert loading_streams(model).tolist() == [0, 2]
    without = LoadModel.from_coefficients([[1, 2], [2, 1]], [1.0, 1.0])
    assert true_ratio(model, [0, 1], 2**8) == true_ratio(without, [0, 1], 2**8)


def test_a_stream_that_loads_only_through_a_join_is_kept() -> None:
    assert loading_streams(join_model([[1, 0, 0], [0, 0, 1]], [1.0])).tolist() == [0, 1]
    assert loading_streams(join_model([[1, 0, 0], [0, 0, 0]], [1.0])).tolist() == [0]


def test_an_unbounded_set_is_refused_with_the_stream_named() -> None:
    """b meets nobody while a is silent, so b can grow without end."""
    with pytest.raises(UnsupportedError, match=r"unbounded.* b loads nothing"):
        true_ratio(join_model([[1, 0, 0], [0, 0, 1]], [1.0, 1.0]), [0, 1])


def test_minimum_rates_that_overload_a_site_leave_nothing() -> None:
    model = join_model([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [2.0, 0.2], lower=(0.5, 0.5))
    assert true_ratio(model, [0, 0, 1]).value == 0.0


def test_minimum_rates_beyond_all_capacity_are_infeasible() -> None:
    model = join_model([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [0.5, 0.5], lower=(1.0, 1.0))
    with pytest.raises(InfeasibleError, match="minimum rates"):
        true_ratio(model, [0, 0, 1])
