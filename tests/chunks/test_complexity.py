"""Chunks of a complexity map cost what their cells cost, wherever the map has moved."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.arrays import Floats
from mooring.chunks.complexity import ComplexityMap
from mooring.chunks.partitioning import Partitioning
from mooring.errors import InputError


@given(seed=st.integers(0, 50), rows=st.integers(1, 4), columns=st.integers(1, 4), frame=st.integers(0, 9))
def test_chunks_cost_the_sum_of_their_cells(seed: int, rows: int, columns: int, frame: int) -> None:
    rng = np.random.default_rng(seed)
    cells = rng.random((6, 8))
    moving = ComplexityMap(cells, (1.0, -2.0))
    moved = np.roll(cells, (frame, -2 * frame), (0, 1))
    partitioning = Partitioning((rows, columns))
    expected = [moved[box.slices].sum() for box in partitioning.bounds((6, 8))]
    assert moving.chunk_cycles((6, 8), partitioning, frame) == pytest.approx(expected)
    assert sum(expected) == pytest.approx(moving.frame_cycles((6, 8)))


@given(seed=st.integers(0, 50), frame=st.integers(0, 30))
def test_a_coarse_map_equals_the_fine_one_and_nothing_is_lost_on_the_way(seed: int, frame: int) -> None:
    coarse = np.random.default_rng(seed).random((2, 3))
    fine = coarse.repeat(4, axis=0).repeat(5, axis=1)
    moves = (0.75, 0.3)
    partitioning = Partitioning((3, 2))
    of_coarse = ComplexityMap(coarse, moves).chunk_cycles((8, 15), partitioning, frame)
    assert of_coarse == pytest.approx(
        ComplexityMap(fine, moves).chunk_cycles((8, 15), partitioning, frame), abs=1e-9
    )
    assert of_coarse.sum() == pytest.approx(fine.sum())


@pytest.mark.parametrize("cells", [np.zeros((0, 2)), np.array([[1.0, -1.0]]), np.array([[np.nan]])])
def test_a_map_without_cycles_is_refused(cells: Floats) -> None:
    with pytest.raises(InputError, match="complexity map"):
        ComplexityMap(cells)
