"""Scatter, compute, gather: the data-parallel model of section 2.1, with cells in place of chunk counts.

*Scatter* cuts a frame along the regions of a partitioning; *compute* does what a chunk's header asks for;
*gather* puts frames together and hands them on in order.

Gather counts cells, not chunks. A cell has the same bytes in whichever chunk it was computed (see
`array_function`), so a frame is complete when every cell is there, no matter which chunks brought them: they
may come in any order, twice, or from different chunk plans. That is what makes replay exact. After a crash a
frame is cut again, perhaps by the plan that holds by then, perhaps while chunks of the first attempt still
arrive; the frame that comes out is the same, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mooring.arrays import Bools, Cells
from mooring.chunks.data.array_frame import ArrayFrame
from mooring.chunks.data.array_function import ArrayFunction, RegionToCell
from mooring.chunks.data.chunk import Chunk, ChunkHeader, ComputedChunk
from mooring.chunks.partitioning import Bounds
from mooring.errors import InputError


@dataclass(frozen=True)
class Scatter:
    """The scatter point of one operator."""

    operator: ArrayFunction
    gather: str
    """Where the results of its chunks go."""

    def cut(self, frames: Sequence[ArrayFrame], regions: Sequence[Bounds], plan: int = 0) -> list[Chunk]:
        """One chunk per region of the output, with the cells it reads; `frames` has one per input.

        An operator that cannot be cut gives one chunk whatever the regions.
        """
        first, mapping = frames[0], self.operator.mapping
        if len({frame.number for frame in frames}) > 1:
            raise InputError(f"found frames {[frame.number for frame in frames]}, expected the same number")
        shape = self.operator.output_shape([frame.cells.shape for frame in frames])
        regions = regions if mapping.is_cut else [Bounds.whole(shape)]
        halo = (mapping.before, mapping.after) if isinstance(mapping, RegionToCell) else ((), ())
        chunks = []
        for number, region in enumerate(regions):
            reads = mapping.reads(region, first.cells.shape)
            header = ChunkHeader(
                frame=first.number,
                entered_ms=min(frame.entered_ms for frame in frames),
                operator=self.operator.name,
                chunk=number,
                chunks=len(regions),
                plan=plan,
                reads=reads,
                halo=halo,
                types=tuple(frame.cells.dtype.str for frame in frames),
                writes=region,
                shape=shape,
                gather=self.gather,
            )
            inputs = tuple(mapping.boundary.cells(frame.cells, reads) for frame in frames)
            chunks.append(Chunk(header, inputs))
        return chunks


def compute(chunk: Chunk, operators: Mapping[str, ArrayFunction]) -> ComputedChunk:
    """What a node does with a chunk: the operation that its header names, on the cells it brought."""
    operator = operators.get(chunk.header.operator)
    if operator is None:
        raise InputError(
            f"found a chunk for the operator {chunk.header.operator!r}, which this node does not host",
            remedy=f"known: {', '.join(sorted(operators)) or 'none'}",
        )
    return ComputedChunk(chunk.header, operator.compute(chunk.inputs, chunk.header.writes))


class Gather:
    """The gather point of one operator: takes results in any order, gives frames in order."""

    def __init__(self, first_frame: int = 0) -> None:
        self.next_frame = first_frame
        """The frame that is handed on next; those before it are done."""
        self._parts: dict[int, FrameInParts] = {}

    def add(self, computed: ComputedChunk) -> None:
        """Cells of a frame that was handed on already, as a replay brings them, change nothing."""
        header = computed.header
        if header.frame >= self.next_frame:
            if header.frame not in self._parts:
                self._parts[header.frame] = FrameInParts(header, computed.cells.dtype)
            self._parts[header.frame].put(header, computed.cells)

    def missing(self, frame: int) -> int | None:
        """Cells of a frame that have not come; None: none has."""
        parts = self._parts.get(frame)
        return None if parts is None else parts.missing

    def complete(self) -> Iterator[ArrayFrame]:
        """The frames that are whole, in order, as far as there is no gap."""
        while (parts := self._parts.get(self.next_frame)) is not None and parts.missing == 0:
            del self._parts[self.next_frame]
            self.next_frame += 1
            yield parts.frame()


class FrameInParts:
    """A frame that is being put together, and which of its cells are there."""

    def __init__(self, header: ChunkHeader, kind: np.dtype[np.generic]) -> None:
        self._number, self._entered_ms = header.frame, header.entered_ms
        self.cells: Cells = np.empty(header.shape, dtype=kind)
        self.missing = self.cells.size
        """Cells that have not come."""
        self._present: Bools = np.zeros(header.shape, dtype=np.bool_)

    def put(self, header: ChunkHeader, cells: Cells) -> None:
        if header.shape != self.cells.shape or cells.dtype != self.cells.dtype:
            raise InputError(
                f"found a chunk of a frame of shape {header.shape} and type {cells.dtype}, expected "
                f"{self.cells.shape} and {self.cells.dtype} as its first chunk had",
                field=header.operator,
            )
        where = header.writes.slices
        self.cells[where] = cells
        self.missing -= cells.size - int(np.count_nonzero(self._present[where]))
        self._present[where] = True

    def frame(self) -> ArrayFrame:
        """As it is by now; whole once nothing is missing."""
        return ArrayFrame(self._number, self._entered_ms, self.cells)
