"""The cost of an operator's output, cell by cell: a map of cycles that may move over the frames."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mooring.arrays import Floats, Ints
from mooring.chunks.partitioning import Partitioning, Shape
from mooring.errors import InputError


@dataclass(frozen=True, eq=False)
class ComplexityMap:
    """Cycles per cell. The map may be coarser than the array: each of its cells then covers an equal block.

    It moves by so many cells with every frame, and what leaves on one side comes in on the other.

    >>> busy_left = ComplexityMap(np.array([[9.0, 1.0]]), (0.0, 2.0))
    >>> busy_left.chunk_cycles((2, 4), Partitioning((1, 2)), frame=0).tolist()
    [36.0, 4.0]
    >>> busy_left.chunk_cycles((2, 4), Partitioning((1, 2)), frame=1).tolist()
    [4.0, 36.0]
    """

    cycles_per_cell: Floats
    cells_per_frame: tuple[float, ...] = ()
    """How far it moves with every frame, per dimension; empty: it stays."""

    def __post_init__(self) -> None:
        cycles = self.cycles_per_cell
        if not cycles.size or not np.all(np.isfinite(cycles)) or np.min(cycles) < 0:
            raise InputError("found a complexity map that is empty or has cells below 0 cycles")
        if self.cells_per_frame and len(self.cells_per_frame) != cycles.ndim:
            raise InputError(
                f"found a complexity map of {cycles.ndim} dimensions "
                f"that moves in {len(self.cells_per_frame)}"
            )

    @classmethod
    def even(cls, cycles_per_cell: float, dimensions: int) -> ComplexityMap:
        """The same everywhere and always."""
        return cls(np.full((1,) * dimensions, cycles_per_cell))

    @property
    def moves(self) -> bool:
        return any(self.cells_per_frame) and self.cycles_per_cell.size > 1

    def frame_cycles(self, shape: Shape) -> float:
        """Of a whole frame; moving does not change it."""
        return float(self.cycles_per_cell.mean()) * math.prod(shape)

    def chunk_cycles(self, shape: Shape, partitioning: Partitioning, frame: int) -> Floats:
        """Of every chunk of a frame."""
        first: Floats = self.chunk_cycles_by_frame(shape, partitioning, np.array([frame]))[0]
        return first

    def chunk_cycles_by_frame(self, shape: Shape, partitioning: Partitioning, frames: Ints) -> Floats:
        """Per frame and chunk."""
        cycles = np.broadcast_to(self.cycles_per_cell, (len(frames), *self.cycles_per_cell.shape))
        moved = self.cells_per_frame or (0.0,) * self.cycles_per_cell.ndim
        for axis, cuts in enumerate(partitioning.cuts(shape)):
            shares = _overlaps(cuts - moved[axis] * frames[:, None], shape[axis], cycles.shape[1])
            # The first axis is consumed and its parts come last: after all axes, they stand in order.
            cycles = np.einsum("fb...,fpb->f...p", cycles, shares)
        found: Floats = np.maximum(cycles.reshape(len(frames), -1), 0.0)
        return found


def _overlaps(cuts: Floats, cells: int, blocks: int) -> Floats:
    """Per frame, part and block of the map, the cells that they share; the map repeats for ever on both
    sides.
    """
    length = cells / blocks
    begins = np.arange(blocks) * length
    turns, within = np.divmod(cuts, cells)
    covered = turns[..., None] * length + np.clip(within[..., None] - begins, 0.0, length)
    return np.diff(covered, axis=-2)
