"""The compiled loops agree with plain numpy, whatever the shapes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mooring.model.load.feasible.directions import Directions
from mooring.model.load.feasible.feasible_kernels import (
    count_first_to_saturate,
    mean_radii_to_the_power,
    smallest_simplex_around,
)


@pytest.mark.parametrize("variables", [1, 2, 3, 4, 5, 7, 8, 9, 13])
@pytest.mark.parametrize("points", [32, 2**12])
def test_mean_radii_agree_with_numpy(variables: int, points: int) -> None:
    """Variables go by fours and directions by tiles, so remainders of both are tried."""
    weights = np.random.default_rng(variables).uniform(0, 2, (6, variables))
    directions = Directions.draw(variables, points, 0).values
    radii = 0.9 / (weights @ directions).max(axis=0)
    expected = (radii**variables).reshape(16, -1).mean(axis=1)
    assert_allclose(mean_radii_to_the_power(weights, directions, 0.9, variables, 16), expected, rtol=1e-12)


def test_counts_agree_with_numpy() -> None:
    weights = np.random.default_rng(1).uniform(0, 2, (6, 5))
    directions = Directions.draw(5, 2**10, 0).values
    expected = np.bincount((weights @ directions).argmax(axis=0), minlength=6)
    assert count_first_to_saturate(weights, directions).tolist() == expected.tolist()


@pytest.mark.parametrize("seed", range(5))
def test_the_simplex_around_contains_the_set_and_shrinks_with_every_round(seed: int) -> None:
    planes = np.random.default_rng(seed).uniform(0, 3, (5, 4))
    directions = Directions.draw(4, 2**8, 0).values
    volumes = []
    for rounds in (0, 1, 5, 50):
        around = smallest_simplex_around(planes, rounds)
        assert (around @ directions <= (planes @ directions).max(axis=0) * (1 + 1e-12)).all()
        volumes.append(np.prod(1 / around))
    assert volumes == sorted(volumes, reverse=True)


def test_the_simplex_around_a_cube_is_known() -> None:
    """x_k <= 1 for three variables: x1 + x2 + x3 <= 3."""
    assert_allclose(smallest_simplex_around(np.eye(3), 50), 1 / 3, rtol=1e-12)
