"""Array frames as rows, and what is measured of their chunks: the columns that go in and come out.

Nothing here needs Spark but the workers' Arrow batches, so that tests can do without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import pyarrow as pa

from mooring.chunks.data.array_frame import ArrayFrame, cells_from_bytes, cells_to_bytes
from mooring.chunks.data.chunk_time import ChunkTime

FRAME_COLUMNS = "frame long, entered_ms double, shape array<int>, type string, cells binary"
"""A frame: its number, when it entered (milliseconds since 1970), and its cells with their shape and type."""
CHUNK_TIMES = (
    "array<struct<operator: string, plan: int, chunk: int, node: int, start: array<int>, stop: array<int>, "
    "cpu_ms: double, scattered_ms: double, began_ms: double, ended_ms: double>>"
)
GATHERED_COLUMNS = f"{FRAME_COLUMNS}, gathered_ms double, chunk_times {CHUNK_TIMES}"
"""A frame that was gathered: when, and what each of its chunks took."""

_FRAME_FIELDS = [
    ("frame", pa.int64()),
    ("entered_ms", pa.float64()),
    ("shape", pa.list_(pa.int32())),
    ("type", pa.string()),
    ("cells", pa.binary()),
]
_TIME_FIELDS = [
    ("operator", pa.string()),
    ("plan", pa.int32()),
    ("chunk", pa.int32()),
    ("node", pa.int32()),
    ("start", pa.list_(pa.int32())),
    ("stop", pa.list_(pa.int32())),
    *((name, pa.float64()) for name in ("cpu_ms", "scattered_ms", "began_ms", "ended_ms")),
]
FRAME_SCHEMA = pa.schema(_FRAME_FIELDS)
GATHERED_SCHEMA = pa.schema(
    [*_FRAME_FIELDS, ("gathered_ms", pa.float64()), ("chunk_times", pa.list_(pa.struct(_TIME_FIELDS)))]
)


def frame_table(frames: Iterable[ArrayFrame]) -> pa.Table:
    """Frames as rows, for `createDataFrame` or a parquet file."""
    return pa.Table.from_pylist([_row(frame) for frame in frames], schema=FRAME_SCHEMA)


def frames_of(rows: pa.Table | pa.RecordBatch, cells: str = "cells") -> Iterator[ArrayFrame]:
    """The frames in rows, one by one; `cells` names the column of their cells."""
    columns = [rows.column(name) for name in ("frame", "entered_ms", "shape", "type", cells)]
    for number, entered_ms, shape, kind, data in zip(*columns, strict=True):
        array = cells_from_bytes(data.as_py(), kind.as_py(), tuple(shape.as_py()))
        yield ArrayFrame(number.as_py(), entered_ms.as_py(), array)


def gathered_batch(frame: ArrayFrame, gathered_ms: float, times: Iterable[ChunkTime]) -> pa.RecordBatch:
    """A frame that is whole again, with the times of its chunks."""
    own = [msgspec.to_builtins(time) for time in times]
    row = {**_row(frame), "gathered_ms": gathered_ms, "chunk_times": own}
    return pa.RecordBatch.from_pylist([row], schema=GATHERED_SCHEMA)


def times_of(chunk_times: Iterable[object]) -> list[ChunkTime]:
    """Of the column `chunk_times` of one row, as Spark or Arrow gives it."""
    plain = [each.asDict() if hasattr(each, "asDict") else each for each in chunk_times]
    return msgspec.convert(plain, list[ChunkTime])


def _row(frame: ArrayFrame) -> dict[str, object]:
    return {
        "frame": frame.number,
        "entered_ms": frame.entered_ms,
        "shape": list(frame.cells.shape),
        "type": frame.cells.dtype.str,
        "cells": cells_to_bytes(frame.cells),
    }
