"""Coordinates answer what the matrix of them answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.errors import UnsupportedError
from mooring.model.problem.latencies import (
    Coordinates,
    among,
    as_matrix,
    same_latencies,
    with_changed,
)


def drawn(seed: int, sites: int, dimensions: int = 2, changes: int = 0) -> Coordinates:
    rng = np.random.default_rng(seed)
    plane = Coordinates(rng.uniform(0.0, 100.0, (sites, dimensions)), rng.uniform(0.0, 20.0, sites))
    changed = {(int(a), int(b)): 1.0 + a + b for a, b in rng.integers(sites, size=(changes, 2)) if a != b}
    found = with_changed(plane, changed)
    assert isinstance(found, Coordinates)
    return found


worlds = st.builds(
    drawn, st.integers(0, 1000), st.integers(2, 30), st.integers(2, 5), changes=st.sampled_from((0, 3))
)


@given(worlds)
def test_indexing_is_that_of_the_matrix(plane: Coordinates) -> None:
    matrix, sites = as_matrix(plane), np.arange(len(plane))
    chosen = sites[::2]
    assert matrix.shape == plane.shape
    assert np.array_equal(matrix, matrix.T)
    assert not matrix.diagonal().any()
    assert np.array_equal(plane[sites, sites[::-1]], matrix[sites, sites[::-1]])
    assert np.array_equal(plane[1], matrix[1])
    assert np.array_equal(plane[:, 1], matrix[:, 1])
    assert np.array_equal(plane[chosen], matrix[chosen])
    assert np.array_equal(plane[1, :2], matrix[1, :2])
    assert np.array_equal(plane[:, chosen], matrix[:, chosen])
    assert np.array_equal(plane[np.ix_(chosen, sites)], matrix[np.ix_(chosen, sites)])
    assert np.array_equal(as_matrix(among(plane, chosen)), as_matrix(among(matrix, chosen)))


def test_a_changed_link_is_slower_both_ways_and_nothing_else_is() -> None:
    plane = drawn(1, 6)
    slower, matrix = with_changed(plane, {(1, 4): 250.0}), as_matrix(plane).copy()
    matrix[1, 4] = matrix[4, 1] = 250.0
    assert np.array_equal(as_matrix(slower), matrix)
    assert np.array_equal(as_matrix(with_changed(as_matrix(plane), {(1, 4): 250.0})), matrix)
    assert same_latencies(plane, drawn(1, 6))
    assert not same_latencies(plane, slower)


def test_ten_thousand_sites_take_no_matrix() -> None:
    plane = drawn(1, 10_000)
    assert plane[7, :5].shape == (5,)
    with pytest.raises(UnsupportedError, match="a matrix of latencies is made of at most 5,000"):
        as_matrix(plane)
