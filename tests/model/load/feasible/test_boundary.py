"""The search along rays, against roots known by hand."""

from __future__ import annotations

import numpy as np
import pytest
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
