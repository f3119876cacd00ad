"""Frames in chunks on a real Spark: none is lost, doubled or out of order, whoever dies meanwhile."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq
import pytest

from mooring.arrays import Cells
from mooring.chunks.data.array_frame import ArrayFrame, cells_from_bytes
from mooring.chunks.data.array_function import ArrayFunction, RegionToCell, shifted_sum
from mooring.chunks.data.routing_table import Route, RoutingTable
from mooring.chunks.partitioning import Bounds
from mooring.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FRAMES = [
    ArrayFrame(n, 1000.0 * n, np.random.default_rng(n).random((40, 30), dtype=np.float32)) for n in range(4)
]


def blur_that_kills_its_worker(marker: Path, at_frame_sum: float) -> ArrayFunction:
    """Once: in the middle of one frame, when other chunks of it are done."""

    def kernel(window: Cells, where: Bounds) -> Cells:
        out = shifted_sum(window, np.full((3, 3), 1 / 9, dtype=np.float32))
        if where.start[0] > 0 and not marker.exists() and float(window[0, 0]) == at_frame_sum:
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return out

    return ArrayFunction("blur", RegionToCell.window(1, 1, boundary="reflect"), kernel)


def test_a_worker_killed_in_the_middle_of_a_frame_loses_nothing_even_under_another_plan(
    session: SparkSession, tmp_path: Path
) -> None:
    """The query ends with its worker (one attempt per task) and goes on from its checkpoint."""
    from mooring.spark.chunks.bins import FixedBins, LearningBins
    from mooring.spark.chunks.chunked import chunked
    from mooring.spark.chunks.frame_rows import FRAME_COLUMNS, frame_table, times_of

    (tmp_path / "in").mkdir()
    for frame in FRAMES:
        pq.write_table(frame_table([frame]), tmp_path / "in" / f"{frame.number:03d}.parquet")
        os.utime(tmp_path / "in" / f"{frame.number:03d}.parquet", (1000 + frame.number,) * 2)
    # The halo of the chunk that begins at row 20 begins at row 19, column 0 reflected.
    fatal = float(FRAMES[2].cells[19, 0])
    blur = blur_that_kills_its_worker(tmp_path / "died", fatal)

    def run(bins: FixedBins | LearningBins) -> BaseException | None:
        source = session.readStream.schema(FRAME_COLUMNS).option("maxFilesPerTrigger", 1)
        out = chunked(source.parquet(str(tmp_path / "in")), blur, bins).coalesce(1)
        writer = out.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except Exception as failure:
            return failure
        return query.exception()

    halves = RoutingTable.starting_with({"blur": Route((2, 1), (0, 1))})
    assert run(FixedBins(2, halves)) is not None
    assert (tmp_path / "died").exists()
    done = session.read.parquet(str(tmp_path / "out")).count()
    assert done == 2
    assert run(LearningBins.on_cores(tmp_path / "routes", 2)) is None
    rows = session.read.parquet(str(tmp_path / "out")).orderBy("frame").collect()
    assert [row.frame for row in rows] == [frame.number for frame in FRAMES]
    for row, frame in zip(rows, FRAMES, strict=True):
        cells = cells_from_bytes(bytes(row.cells), row.type, tuple(row.shape))
        assert cells.tobytes() == blur.whole(frame.cells).tobytes()
    assert sorted(rows, key=lambda row: row.gathered_ms) == rows  # in order
    assert [len(row.chunk_times) for row in rows[:2]] == [2, 2]
    assert all(took.cpu_ms >= 0 for row in rows for took in times_of(row.chunk_times))
    assert (tmp_path / "routes" / "blur.routes.json").exists()


def test_ways_of_cutting_are_measured_side_by_side(session: SparkSession, tmp_path: Path) -> None:
    from lab.quota_bench.chunk_slot_bench import frame_queries
    from mooring.spark.chunks.bins import FixedBins

    blur = blur_that_kills_its_worker(tmp_path, 0.0)  # the marker is there: nobody dies
    routes = {"halves": Route((2, 1), (0, 1)), "rows": Route((4, 1), (0, 1, 2, 3))}
    ways = {
        name: FixedBins(len(route.nodes), RoutingTable.starting_with({"blur": route}))
        for name, route in routes.items()
    }
    with frame_queries(session, tmp_path, blur, ways) as queries:
        made = {name: query.put(0, FRAMES[0].cells) for name, query in queries.items()}
    assert {name: len(frame.times) for name, frame in made.items()} == {"halves": 2, "rows": 4}
    for frame in made.values():
        assert frame.cells.tobytes() == blur.whole(FRAMES[0].cells).tobytes()
        assert frame.end_to_end_ms > frame.scatter_to_gather_ms > 0
        assert frame.cpu_ms >= frame.busiest_cpu_ms > 0


def test_columns_that_are_not_there_are_named(session: SparkSession) -> None:
    from mooring.spark.chunks.bins import FixedBins
    from mooring.spark.chunks.chunked import chunked

    blur = blur_that_kills_its_worker(Path("nowhere"), 0.0)
    bins = FixedBins(1, RoutingTable.starting_with({}))
    with pytest.raises(InputError, match="without the column 'entered_ms'"):
        chunked(session.range(1).withColumnRenamed("id", "frame"), blur, bins)
