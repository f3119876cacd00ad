"""Regular partitionings of an array: every dimension is cut into parts of (almost) equal length.

A chunk is one cell of the grid that the cuts make. Chunks are numbered as numpy numbers the cells of an
array, the last dimension fastest. Where a dimension is not a multiple of its parts, their lengths differ by
one cell.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mooring.arrays import Ints
from mooring.errors import InputError

Shape = tuple[int, ...]
"""Cells per dimension."""


@dataclass(frozen=True)
class Bounds:
    """A box of cells: from `start` up to, not including, `stop`, per dimension.

    >>> box = Bounds((0, 4), (2, 8))
    >>> box.cells, box.shape, box.grown((1, 1), (6, 8))
    (8, (2, 4), Bounds(start=(0, 3), stop=(3, 8)))
    """

    start: Shape
    stop: Shape

    @classmethod
    def whole(cls, shape: Shape) -> Bounds:
        return cls((0,) * len(shape), shape)

    @property
    def shape(self) -> Shape:
        return tuple(stop - start for start, stop in zip(self.start, self.stop, strict=True))

    @property
    def cells(self) -> int:
        return math.prod(self.shape)

    @property
    def slices(self) -> tuple[slice, ...]:
        """What cuts this box out of an array."""
        return tuple(itertools.starmap(slice, zip(self.start, self.stop, strict=True)))

    def grown(self, halo: Sequence[int], shape: Shape) -> Bounds:
        """With `halo` more cells on both sides of every dimension, as far as the array reaches."""
        return Bounds(
            tuple(max(0, start - more) for start, more in zip(self.start, halo, strict=True)),
            tuple(min(n, stop + more) for n, stop, more in zip(shape, self.stop, halo, strict=True)),
        )


@dataclass(frozen=True, order=True)
class Partitioning:
    """How many parts each dimension is cut into.

    >>> halves = Partitioning((1, 2))
    >>> halves.count, [box.start for box in halves.bounds((4, 5))]
    (2, [(0, 0), (0, 2)])
    """

    parts: Shape

    def __post_init__(self) -> None:
        if not self.parts or any(part < 1 for part in self.parts):
            raise InputError(
                f"found a partitioning into {self.parts} parts, expected at least one per dimension"
            )

    @classmethod
    def one_chunk(cls, dimensions: int) -> Partitioning:
        return cls((1,) * dimensions)

    @property
    def count(self) -> int:
        """Chunks."""
        return math.prod(self.parts)

    def __str__(self) -> str:
        return " x ".join(map(str, self.parts))

    def cuts(self, shape: Shape) -> list[Ints]:
        """Per dimension, where its parts begin and end: one number more than there are parts."""
        self._check(shape)
        return [cuts_of(cells, parts) for cells, parts in zip(shape, self.parts, strict=True)]

    def bounds(self, shape: Shape) -> list[Bounds]:
        """Of every chunk, in the order of their numbers."""
        sides = [list(itertools.pairwise(cuts.tolist())) for cuts in self.cuts(shape)]
        return [
            Bounds(tuple(start for start, _ in box), tuple(stop for _, stop in box))
            for box in itertools.product(*sides)
        ]

    def fits(self, shape: Shape) -> bool:
        """Whether every part has at least one cell."""
        return len(self.parts) == len(shape) and all(
            part <= cells for part, cells in zip(self.parts, shape, strict=True)
        )

    def _check(self, shape: Shape) -> None:
        if not self.fits(shape):
            raise InputError(
                f"found {self} parts for an array of {' x '.join(map(str, shape))} cells",
                remedy="give one number per dimension, each at most the number of cells",
            )


def cuts_of(cells: int, parts: int) -> Ints:
    """Where the parts of one dimension begin and end.

    >>> cuts_of(10, 4).tolist()
    [0, 2, 5, 7, 10]
    """
    return np.arange(parts + 1, dtype=np.int64) * cells // parts


def regular_partitionings(shape: Shape, most_chunks: int) -> tuple[Partitioning, ...]:
    """All of at most so many chunks, the fewest chunks first (section 4).

    >>> [str(each) for each in regular_partitionings((100, 100), 4)]
    ['1 x 1', '1 x 2', '2 x 1', '1 x 3', '3 x 1', '1 x 4', '2 x 2', '4 x 1']
    """
    if most_chunks < 1 or not shape or any(cells < 1 for cells in shape):
        raise InputError(
            f"found at most {most_chunks} chunks of an array of {shape} cells",
            remedy="both need to be at least 1",
        )
    found = [Partitioning(parts) for parts in _grids(shape, most_chunks)]
    return tuple(sorted(found, key=lambda each: (each.count, each.parts)))


def _grids(shape: Shape, most: int) -> Iterator[Shape]:
    """Every way to choose parts per dimension whose product is at most `most`."""
    if not shape:
        yield ()
        return
    for part in range(1, min(shape[0], most) + 1):
        for rest in _grids(shape[1:], most // part):
            yield (part, *rest)
