"""Self-describing chunks: a header that says what to do with the cells, and the cells (section 2.1.2).

Its receiver needs nothing else to decide which operation to perform, on which cells, which cells to produce,
and where to send them. Headers travel as msgpack, cells as their bytes in C order.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np

from mooring.arrays import Cells
from mooring.chunks.data.array_frame import cells_from_bytes, cells_to_bytes
from mooring.chunks.partitioning import Bounds
from mooring.errors import InputError


class ChunkHeader(msgspec.Struct, frozen=True, array_like=True):
    frame: int
    entered_ms: float
    """When its frame entered the system: the oldest chunk in a queue is computed first."""
    operator: str
    """Which operation to perform."""
    chunk: int
    """Number among the chunks that this operator's frame was cut into."""
    chunks: int
    plan: int
    """Version of the chunk plan that cut it."""
    reads: Bounds
    """Bounds of the input cells that came along, halo included; windows may reach beyond the frame."""
    halo: tuple[tuple[int, ...], tuple[int, ...]]
    """Cells before and after, per axis, that came along for the windows at its border."""
    types: tuple[str, ...]
    """Of the cells of each input, as numpy writes it with the byte order, such as `<f4`."""
    writes: Bounds
    """Bounds of the output cells to produce."""
    shape: tuple[int, ...]
    """Of the whole output frame: what the chunk is a part of."""
    gather: str
    """Where to send the result."""

    @property
    def age_key(self) -> tuple[float, int, int]:
        """Sorts the queue of a node: the chunk that has been in the system the longest first."""
        return (self.entered_ms, self.frame, self.chunk)


@dataclass(frozen=True, eq=False)
class Chunk:
    """A header with the input cells it describes, one array per input."""

    header: ChunkHeader
    inputs: tuple[Cells, ...]


@dataclass(frozen=True, eq=False)
class ComputedChunk:
    """A header with the output cells it asked for."""

    header: ChunkHeader
    cells: Cells


def chunk_to_bytes(chunk: Chunk) -> tuple[bytes, bytes]:
    """Header and cells as they travel."""
    cells = b"".join(cells_to_bytes(each) for each in chunk.inputs)
    return msgspec.msgpack.encode(chunk.header), cells


def header_from_bytes(data: bytes) -> ChunkHeader:
    try:
        return msgspec.msgpack.decode(data, type=ChunkHeader)
    except msgspec.DecodeError as error:
        raise InputError(f"found a chunk whose header cannot be read: {error}") from None


def chunk_from_bytes(header: bytes, cells: bytes) -> Chunk:
    """The chunk that `chunk_to_bytes` wrote."""
    described = header_from_bytes(header)
    inputs, at = [], 0
    for kind in described.types:
        size = described.reads.cells * np.dtype(kind).itemsize
        inputs.append(cells_from_bytes(cells[at : at + size], kind, described.reads.shape))
        at += size
    if at != len(cells):
        raise InputError(f"found {len(cells)} bytes of cells, expected {at} as the header says")
    return Chunk(described, tuple(inputs))
