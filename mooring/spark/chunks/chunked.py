"""Array frames in chunks within one Spark cluster: one task per bin, on the core that Spark gives it.

    frames  --scatter-->  chunks by bin  --compute-->  results  --gather-->  frames
            mapInArrow    shuffle          mapInArrow  shuffle   mapInArrow

A *bin* stands for a slot, a core that runs one task at a time. Scatter looks frames up in a routing table,
cuts them, and sends each chunk to its bin. A bin computes its chunks oldest first, measuring the CPU of each.
Gather puts frames together and hands them on in order. A frame's chunks never leave its micro-batch, so the
stream keeps no state, and Spark's checkpoint alone says which frames are done.

Replay is exact. If a worker or a whole query dies in the middle of a frame, Spark runs the task or the
micro-batch again, perhaps under a chunk plan that came in the meantime. Since a cell has the same bytes in
whichever chunk it is computed (`mooring.chunks.data.array_function`), the frames that come out are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from mooring.chunks.data.array_frame import ArrayFrame
from mooring.chunks.data.array_function import ArrayFunction
from mooring.chunks.data.chunk import ComputedChunk
from mooring.chunks.data.chunk_time import ChunkTime
from mooring.chunks.data.scatter_gather import FrameInParts, Scatter
from mooring.errors import EngineError, InputError
from mooring.spark.chunks.bins import Bins
from mooring.spark.chunks.chunk_rows import (
    CHUNK_COLUMNS,
    RESULT_COLUMNS,
    Batches,
    chunk_batch,
    computer,
    results_of,
    wall_ms,
)
from mooring.spark.chunks.frame_rows import GATHERED_COLUMNS, frames_of, gathered_batch


def chunked(
    frames: DataFrame, function: ArrayFunction, bins: Bins, *, inputs: Sequence[str] = ("cells",)
) -> DataFrame:
    """Apply a function to the frames of an array column, cut into chunks; streaming or not.

    `frames` has the columns of `FRAME_COLUMNS`, and a column of cells for every further name in `inputs`, of
    the same shape and type. What comes back has the columns of `GATHERED_COLUMNS`, so that one function can
    follow another.
    """
    _check_columns(frames, inputs)
    chunks = frames.mapInArrow(scatterer(function, bins, tuple(inputs)), CHUNK_COLUMNS)
    in_bins = chunks.repartitionById(bins.count, F.col("node") % bins.count)
    results = in_bins.mapInArrow(computer({function.name: function}), RESULT_COLUMNS)
    return results.repartitionById(1, F.lit(0)).mapInArrow(gatherer(function.name, bins), GATHERED_COLUMNS)


def _check_columns(frames: DataFrame, inputs: Sequence[str]) -> None:
    needed = ["frame", "entered_ms", "shape", "type", *inputs]
    missing = [name for name in needed if name not in frames.columns]
    if missing:
        raise InputError(
            f"found a DataFrame without the column {missing[0]!r}; it has {', '.join(frames.columns)}",
            remedy=f"frames have the columns {', '.join(needed)}",
        )


def scatterer(function: ArrayFunction, bins: Bins, inputs: tuple[str, ...]) -> Callable[[Batches], Batches]:
    """On a worker: frames to chunks. The table is read once per task, so once per micro-batch."""

    def scatter(batches: Batches) -> Batches:
        routes, point = bins.routes(function.name), Scatter(function, gather=function.name)
        for batch in batches:
            for frames in zip(*(frames_of(batch, name) for name in inputs), strict=True):
                now_ms = wall_ms()
                shape = function.output_shape([each.cells.shape for each in frames])
                version, route = routes.at(frames[0].number, shape)
                for chunk in point.cut(frames, route.bounds(shape), version):
                    yield chunk_batch([chunk], [route.nodes[chunk.header.chunk]], now_ms)

    return scatter


def gatherer(operator: str, bins: Bins) -> Callable[[Batches], Batches]:
    """On a worker: results to frames, in order. A micro-batch has all chunks of its frames."""

    def gather(batches: Batches) -> Batches:
        parts: dict[int, _Gathered] = {}
        for batch in batches:
            for computed, took in results_of(batch):
                own = parts.setdefault(computed.header.frame, _Gathered())
                own.put(computed, took)
        frames = [parts[number].whole() for number in sorted(parts)]
        for frame, whole_ms, times in frames:
            yield gathered_batch(frame, whole_ms, times)
        # After the last frame is on its way: planning delays nobody.
        bins.learn(operator, [(frame.number, frame.cells.shape, times) for frame, _, times in frames])

    return gather


class _Gathered:
    """A frame of a micro-batch that is being put together."""

    def __init__(self) -> None:
        self._parts: FrameInParts | None = None
        self._times: list[ChunkTime] = []
        self._whole_ms = 0.0

    def put(self, computed: ComputedChunk, took: ChunkTime) -> None:
        if self._parts is None:
            self._parts = FrameInParts(computed.header, computed.cells.dtype)
        self._parts.put(computed.header, computed.cells)
        self._times.append(took)
        self._whole_ms = wall_ms()

    def whole(self) -> tuple[ArrayFrame, float, list[ChunkTime]]:
        assert self._parts is not None
        frame = self._parts.frame()
        if self._parts.missing:
            raise EngineError(f"frame {frame.number} came without {self._parts.missing} of its cells")
        return frame, self._whole_ms, sorted(self._times, key=lambda took: took.chunk)
