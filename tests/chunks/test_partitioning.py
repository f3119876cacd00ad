"""Regular partitionings cover every cell once, in parts of almost equal length."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.chunks.partitioning import Bounds, Partitioning, regular_partitionings
from mooring.errors import InputError

shapes = st.lists(st.integers(1, 12), min_size=1, max_size=3).map(tuple)


@given(shape=shapes, most=st.integers(1, 24), which=st.integers(0, 1000))
def test_chunks_cover_every_cell_exactly_once(shape: tuple[int, ...], most: int, which: int) -> None:
    choices = regular_partitionings(shape, most)
    partitioning = choices[which % len(choices)]
    covered = np.zeros(shape, dtype=int)
    boxes = partitioning.bounds(shape)
    for box in boxes:
        covered[box.slices] += 1
        assert box.cells > 0
    assert (covered == 1).all()
    assert len(boxes) == partitioning.count <= most
    for axis in range(len(shape)):
        assert {box.shape[axis] for box in boxes} <= {
            shape[axis] // partitioning.parts[axis],
            -(-shape[axis] // partitioning.parts[axis]),
        }


@given(shape=shapes, most=st.integers(1, 16))
def test_all_partitionings_are_found_once(shape: tuple[int, ...], most: int) -> None:
    grid = np.indices([min(n, most) for n in shape]).reshape(len(shape), -1).T + 1
    expected = {tuple(parts) for parts in grid.tolist() if np.prod(parts) <= most}
    found = [each.parts for each in regular_partitionings(shape, most)]
    assert len(found) == len(set(found))
    assert set(found) == expected


def test_a_halo_ends_at_the_edges_of_the_array() -> None:
    assert Bounds((0, 2), (2, 4)).grown((1, 1), (4, 4)) == Bounds((0, 1), (3, 4))


@pytest.mark.parametrize("parts", [(0, 1), (), (5, 1), (1,)])
def test_a_partitioning_that_does_not_fit_is_refused(parts: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="found"):
        Partitioning(parts).bounds((4, 4))
