"""Chunks and their results as rows, and the computing in between, measured: what bins and sites both do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

import pyarrow as pa

from mooring.chunks.data.array_frame import cells_from_bytes, cells_to_bytes
from mooring.chunks.data.array_function import ArrayFunction
from mooring.chunks.data.chunk import (
    Chunk,
    ComputedChunk,
    chunk_from_bytes,
    chunk_to_bytes,
    header_from_bytes,
)
from mooring.chunks.data.chunk_time import ChunkTime
from mooring.chunks.data.scatter_gather import compute

Batches: TypeAlias = Iterator[pa.RecordBatch]

CHUNK_COLUMNS = "node int, scattered_ms double, header binary, cells binary"
RESULT_COLUMNS = (
    "node int, scattered_ms double, began_ms double, ended_ms double, cpu_ms double, header binary, "
    "type string, cells binary"
)
CHUNK_SCHEMA = pa.schema(
    [("node", pa.int32()), ("scattered_ms", pa.float64()), ("header", pa.binary()), ("cells", pa.binary())]
)
RESULT_SCHEMA = pa.schema(
    [
        ("node", pa.int32()),
        *((name, pa.float64()) for name in ("scattered_ms", "began_ms", "ended_ms", "cpu_ms")),
        ("header", pa.binary()),
        ("type", pa.string()),
        ("cells", pa.binary()),
    ]
)


def wall_ms() -> float:
    """Milliseconds since 1970."""
    return time.time() * 1000.0


def chunk_batch(chunks: Iterable[Chunk], nodes: Iterable[int], scattered_ms: float) -> pa.RecordBatch:
    """Chunks with the node of each, as they are sent."""
    rows = []
    for chunk, node in zip(chunks, nodes, strict=True):
        header, cells = chunk_to_bytes(chunk)
        rows.append({"node": node, "scattered_ms": scattered_ms, "header": header, "cells": cells})
    return pa.RecordBatch.from_pylist(rows, schema=CHUNK_SCHEMA)


def computer(functions: Mapping[str, ArrayFunction]) -> Callable[[Batches], Batches]:
    """On a worker: the chunks of one node to results, the oldest first, each with what it took.

    All of them are read before the first is computed: only then is it known which is the oldest.
    """

    def compute_all(batches: Batches) -> Batches:
        queue = [(header_from_bytes(row["header"]), row) for batch in batches for row in batch.to_pylist()]
        for _, row in sorted(queue, key=lambda entry: entry[0].age_key):
            began_ms, cpu_s = wall_ms(), time.process_time()
            computed = compute(chunk_from_bytes(row["header"], row["cells"]), functions)
            result = {
                "node": row["node"],
                "scattered_ms": row["scattered_ms"],
                "began_ms": began_ms,
                "ended_ms": wall_ms(),
                "cpu_ms": 1000.0 * (time.process_time() - cpu_s),
                "header": row["header"],
                "type": computed.cells.dtype.str,
                "cells": cells_to_bytes(computed.cells),
            }
            yield pa.RecordBatch.from_pylist([result], schema=RESULT_SCHEMA)

    return compute_all


def results_of(rows: pa.Table | pa.RecordBatch) -> Iterator[tuple[ComputedChunk, ChunkTime]]:
    """What `computer` gave: the chunks that came back, and what they took."""
    for row in rows.to_pylist():
        header = header_from_bytes(row["header"])
        cells = cells_from_bytes(row["cells"], row["type"], header.writes.shape)
        took = ChunkTime(
            operator=header.operator,
            plan=header.plan,
            chunk=header.chunk,
            node=row["node"],
            start=header.writes.start,
            stop=header.writes.stop,
            cpu_ms=row["cpu_ms"],
            scattered_ms=row["scattered_ms"],
            began_ms=row["began_ms"],
            ended_ms=row["ended_ms"],
        )
        yield ComputedChunk(header, cells), took
