"""Ways to cut and route the same frames, side by side on one Spark server: what the experiment measures.

Every way has a streaming query of its own, and frames are given to them in turn, one at a time: whatever else
the machine does meets all ways alike.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from mooring.arrays import Cells
from mooring.atomic_files import write_whole
from mooring.chunks.data.array_frame import ArrayFrame
from mooring.chunks.data.array_function import ArrayFunction
from mooring.chunks.data.chunk_time import ChunkTime
from mooring.errors import EngineError
from mooring.spark.chunks.bins import Bins
from mooring.spark.chunks.chunk_rows import wall_ms
from mooring.spark.chunks.chunked import chunked
from mooring.spark.chunks.frame_rows import FRAME_COLUMNS, frame_table, frames_of, times_of

POLL_S = 0.01
PATIENCE_S = 120.0


@dataclass(frozen=True, eq=False)
class MeasuredFrame:
    """One frame that went through."""

    number: int
    cells: Cells
    scatter_to_gather_ms: float
    end_to_end_ms: float
    """From when it was there to be read until its result could be."""
    times: list[ChunkTime]

    @property
    def cpu_ms(self) -> float:
        return sum(took.cpu_ms for took in self.times)

    @property
    def busiest_cpu_ms(self) -> float:
        """Of the node with the most: what a frame takes at least, however quiet the machine."""
        return max(
            sum(took.cpu_ms for took in self.times if took.node == node)
            for node in {took.node for took in self.times}
        )


class FrameQuery:
    """A streaming query that cuts frames in one way. Frames are files in a folder, and so are results."""

    def __init__(self, session: SparkSession, folder: Path, function: ArrayFunction, bins: Bins) -> None:
        self._inbox, self._outbox = folder / "frames", folder / "results"
        self._inbox.mkdir(parents=True)
        source = session.readStream.schema(FRAME_COLUMNS).option("maxFilesPerTrigger", 1)
        out = chunked(source.parquet(str(self._inbox)), function, bins)
        writer = out.writeStream.format("parquet").option("path", str(self._outbox))
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        self.query: StreamingQuery = writer.trigger(processingTime="0 seconds").start()
        self._seen: set[Path] = set()
        """Entries of the sink's log, and results, that were there before."""

    def put(self, number: int, cells: Cells) -> MeasuredFrame:
        """Give it one frame, and wait for the result."""
        file = _as_file(ArrayFrame(number, wall_ms(), cells))
        write_whole(self._inbox / f"{number:06d}.parquet", file)
        deadline = time.monotonic() + PATIENCE_S
        while not (committed := self._committed()):
            failure = self.query.exception() if not self.query.isActive else None
            if failure is not None or time.monotonic() > deadline:
                raise EngineError(f"frame {number} did not come out of the query: {failure or 'too late'}")
            time.sleep(POLL_S)
        return _measured(committed, wall_ms())

    def _committed(self) -> list[Path]:
        """Results that have come since the last call; they count once the sink's log has an entry."""
        entries = set((self._outbox / "_spark_metadata").glob("[0-9]*")) - self._seen
        if not entries:
            return []
        files = set(self._outbox.glob("*.parquet")) - self._seen
        self._seen |= entries | files
        return sorted(files)


@contextmanager
def frame_queries(
    session: SparkSession, folder: Path, function: ArrayFunction, ways: Mapping[str, Bins]
) -> Iterator[dict[str, FrameQuery]]:
    """One query per way, all up; stopped when the block is left."""
    queries: dict[str, FrameQuery] = {}
    try:
        for name, bins in ways.items():
            queries[name] = FrameQuery(session, folder / name, function, bins)
        yield queries
    finally:
        for each in queries.values():
            each.query.stop()


def _as_file(frame: ArrayFrame) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(frame_table([frame]), sink)
    return bytes(sink.getvalue())


def _measured(files: list[Path], done_ms: float) -> MeasuredFrame:
    rows = [pq.read_table(path) for path in files]
    (table,) = [each for each in rows if each.num_rows]
    (frame,) = frames_of(table)
    times = times_of(table.column("chunk_times")[0].as_py())
    gathered_ms = table.column("gathered_ms")[0].as_py()
    scattered_ms = min(took.scattered_ms for took in times)
    return MeasuredFrame(
        frame.number, frame.cells, gathered_ms - scattered_ms, done_ms - frame.entered_ms, times
    )
