"""Directions: uniform on the simplex, reproducible, and kept only as long as asked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from mooring.errors import InputError
from mooring.model.load.feasible.directions import Directions


@given(st.integers(1, 30), st.integers(5, 8), st.integers(0, 100))
@settings(max_examples=30, deadline=None)
def test_every_direction_is_on_the_unit_simplex(dimensions: int, log_points: int, seed: int) -> None:
    values = Directions.draw(dimensions, 2**log_points, seed).values
    assert values.shape == (dimensions, 2**log_points)
    assert (values >= 0).all()
    assert_allclose(values.sum(axis=0), 1.0, rtol=1e-12)


def test_moments_are_those_of_the_uniform_distribution_on_the_simplex() -> None:
    """E[u_k] = 1/K, E[u_k^2] = 2/(K(K+1)), E[u_j u_k] = 1/(K(K+1)), the same for every coordinate."""
    for dimensions in (2, 3, 5, 8):
        values = Directions.draw(dimensions, 2**14, 1).values
        second = values @ values.T / 2**14
        expected = (np.ones((dimensions, dimensions)) + np.eye(dimensions)) / (dimensions * (dimensions + 1))
        assert_allclose(values.mean(axis=1), 1 / dimensions, rtol=2e-3)
        assert_allclose(second, expected, rtol=1e-2)


def test_the_distribution_of_a_coordinate_is_a_beta() -> None:
    """P(u_k > x) = (1 - x)^(K - 1), for first and last coordinate alike."""
    values = Directions.draw(4, 2**14, 2).values
    for k in (0, 3):
        for x in (0.1, 0.4, 0.8):
            assert (values[k] > x).mean() == pytest.approx((1 - x) ** 3, abs=2e-3)


def test_a_seed_gives_the_same_directions_and_another_seed_others() -> None:
    one, same, other = (Directions.draw(3, 64, seed).values for seed in (5, 5, 6))
    assert (one == same).all()
    assert (one != other).any()


def test_directions_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        Directions.draw(3, 64, 0).values[0, 0] = 1.0


def test_no_dimension_is_refused() -> None:
    with pytest.raises(InputError, match="0 dimensions"):
        Directions.draw(0, 64, 0)
