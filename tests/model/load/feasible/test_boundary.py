"""The search along rays, against roots known by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from mooring.arrays import Floats
from mooring.model.load.feasible.boundary import largest_multiples


@pytest.mark.parametrize("capacity", [1e-6, 0.5, 1.0, 7.0, 1e6])
def test_the_first_load_to_reach_its_capacity_decides(capacity: float) -> None:
    """Rays with loads (t, t^2 / 4) and (t^3, 0): roots min(c, 2 sqrt c) and c^(1/3)."""

    def loads_at(t: Floats) -> Floats:
        zero = np.zeros(1)
        return np.stack([np.array([t[0], t[0] ** 2 / 4]), np.array([t[1] ** 3, zero[0]])])

    found = largest_multiples(loads_at, 2, np.array([capacity, capacity]), linear=False)
    assert_allclose(found, [min(capacity, 2 * capacity**0.5), capacity ** (1 / 3)], rtol=1e-9)


def test_rays_that_load_nothing_have_no_end_and_overloaded_ones_no_beginning() -> None:
    def loads_at(t: Floats) -> Floats:
        return np.array([[0.5], [2.0 + t[1]], [1.0 + t[2] ** 2]])

    for linear in (False, True):
        found = largest_multiples(loads_at, 3, np.array([1.0]), linear=linear)
        assert found.tolist() == [np.inf, 0.0, 0.0]


@given(st.integers(0, 10_000))
def test_it_ends_where_the_first_load_reaches_its_capacity(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rays, loads = 20, 3
    coefficients = rng.exponential(1.0, (rays, loads, 4)) * (rng.random((rays, loads, 4)) < 0.6)
    coefficients *= 10.0 ** rng.integers(-6, 7, (rays, 1, 1))
    capacity = np.array([0.5, 1.0, 20.0])

    def loads_at(t: Floats) -> Floats:
        return np.asarray((coefficients * (t[:, None] ** np.arange(1, 5))[:, None, :]).sum(axis=2))

    found = largest_multiples(loads_at, rays, capacity, linear=False)
    bounded = np.isfinite(found)
    assert (bounded == coefficients.any(axis=(1, 2))).all()
    some = np.where(bounded, found, 0.0)
    assert (loads_at(some * (1.0 - 1e-12)) <= capacity).all()
    beyond = loads_at(some * (1.0 + 1e-12)) > capacity
    assert np.array_equal(np.any(beyond, axis=1), bounded)
