"""Functions of operators over array frames, by what they read for one cell (section 6 of the chunks paper).

A *cell-to-cell* operator reads the same cell, a *region-to-cell* one a window around it, a *global-to-cell*
one all cells. A scatter needs nothing else: given the output cells that a chunk is to produce, the mapping
says which input cells go along. An operator of which nothing is known is *uncut*: one chunk.

The promise behind everything else: **a kernel computes each output cell from what its mapping lets it read
and from nothing else, in an order that does not depend on the chunk.** Then the bytes of a cell are the same
in whichever chunk it is computed, so any partitioning gives the same frame. Sums over a window keep the
promise when they add shifted slices one by one (`shifted_sum`); running sums do not, as their rounding
depends on where they began.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from mooring.arrays import Cells
from mooring.chunks.data.boundary import Boundary
from mooring.chunks.partitioning import Bounds, Shape
from mooring.errors import InputError

Kernel: TypeAlias = Callable[..., Cells]
"""(cells of each input, then the `Bounds` of the output to compute) -> the cells of that region."""


@dataclass(frozen=True)
class CellToCell:
    """Each cell from the same cell: chunks need nothing of each other."""

    is_cut = True
    boundary = Boundary()

    def output_shape(self, frame: Shape) -> Shape:
        return frame

    def reads(self, output: Bounds, frame: Shape) -> Bounds:
        return output


@dataclass(frozen=True)
class RegionToCell:
    """Each cell from a window: a chunk brings a halo along, the cells that windows at its border reach."""

    before: Shape
    """Cells of the window before the cell itself, per axis."""
    after: Shape
    boundary: Boundary = field(default_factory=Boundary)
    stride: Shape = ()
    """Input cells from one output cell to the next, per axis; empty: 1, a frame of the same shape."""
    is_cut = True

    def __post_init__(self) -> None:
        lengths = {len(self.before), len(self.after), len(self.stride) or len(self.before)}
        if len(lengths) > 1 or min(*self.before, *self.after, 0) < 0 or min(self.stride, default=1) < 1:
            raise InputError(
                f"found a window of {self.before} before, {self.after} after and a stride of {self.stride}, "
                "expected counts of cells, one per axis"
            )

    @classmethod
    def window(cls, *halo: int, boundary: str = "nearest", value: float = 0.0) -> RegionToCell:
        """As many cells on both sides, per axis: `window(1, 1)` is 3 x 3."""
        return cls(halo, halo, Boundary(boundary, value))

    def output_shape(self, frame: Shape) -> Shape:
        if len(frame) != len(self.before):
            raise InputError(
                f"found a frame of {len(frame)} axes, expected {len(self.before)} as the window has"
            )
        return tuple(-(-length // step) for length, step in zip(frame, self._steps, strict=True))

    def reads(self, output: Bounds, frame: Shape) -> Bounds:
        """Beyond the frame too, where windows reach there."""
        steps = self._steps
        start = (
            at * step - before for at, step, before in zip(output.start, steps, self.before, strict=True)
        )
        stop = (
            (at - 1) * step + 1 + after
            for at, step, after in zip(output.stop, steps, self.after, strict=True)
        )
        return Bounds(tuple(start), tuple(stop))

    @property
    def _steps(self) -> Shape:
        return self.stride or (1,) * len(self.before)


@dataclass(frozen=True)
class GlobalToCell:
    """Each cell from the whole frame: every chunk brings all of it along."""

    shape: Shape = ()
    """Of the output; empty: the frame's."""
    is_cut = True
    boundary = Boundary()

    def output_shape(self, frame: Shape) -> Shape:
        return self.shape or frame

    def reads(self, output: Bounds, frame: Shape) -> Bounds:
        return Bounds.whole(frame)


@dataclass(frozen=True)
class Uncut(GlobalToCell):
    """An operator that cannot be cut: one chunk, which may still go to any site."""

    is_cut = False


CellMapping: TypeAlias = CellToCell | RegionToCell | GlobalToCell


@dataclass(frozen=True)
class ArrayFunction:
    """What an operator does to frames. With several inputs, frames of the same number and shape meet."""

    name: str
    mapping: CellMapping
    kernel: Kernel

    def output_shape(self, frames: Sequence[Shape]) -> Shape:
        if len(set(frames)) != 1:
            raise InputError(
                f"{self.name} received frames of shapes {list(frames)}, expected one shape", field=self.name
            )
        return self.mapping.output_shape(frames[0])

    def compute(self, inputs: Sequence[Cells], where: Bounds) -> Cells:
        """The output cells of a region, from the input cells that the mapping says it reads."""
        cells = self.kernel(*inputs, where)
        if cells.shape != where.shape:
            raise InputError(
                f"{self.name} gave an array of shape {cells.shape}, expected {where.shape}: a kernel "
                "returns the requested cells, without the halo",
                field=self.name,
            )
        return cells

    def whole(self, *frames: Cells) -> Cells:
        """The operator on whole frames: what every partitioning of them must give."""
        where = Bounds.whole(self.output_shape([frame.shape for frame in frames]))
        reads = self.mapping.reads(where, frames[0].shape)
        return self.compute([self.mapping.boundary.cells(frame, reads) for frame in frames], where)


def shifted_sum(window: Cells, weights: Cells) -> Cells:
    """The weighted sum of each window, its terms added in one fixed order: `weights` has the window's shape.

    >>> shifted_sum(np.arange(5.0), np.array([1.0, 0.0, -1.0])).tolist()
    [-2.0, -2.0, -2.0]
    """
    lengths = [inner - outer + 1 for inner, outer in zip(window.shape, weights.shape, strict=True)]
    total = np.zeros(lengths, dtype=np.result_type(window, weights))
    for at in np.ndindex(*weights.shape):
        if weights[at] != 0:
            total += weights[at] * window[tuple(slice(i, i + n) for i, n in zip(at, lengths, strict=True))]
    return total
