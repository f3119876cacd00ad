"""A query that begins behind a sink's earlier batches delivers what one that begins with batch 0 does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mooring.spark.engine.sink_beginning import told_about
from mooring.spark.storage import stream_logs
from mooring.spark.storage.checkpoints.later_beginning import NOTED_SETTINGS
from mooring.spark.storage.checkpoints.state_store import MAPS, PROVIDER, ROCKSDB, choose_store


def numbers(session: SparkSession, folder: Path) -> DataFrame:
    stream = session.readStream.schema("n long, at timestamp").option("maxFilesPerTrigger", "1")
    return stream.json(str(folder)).withWatermark("at", "1 minute")


def windows(session: SparkSession, folder: Path) -> DataFrame:
    """Two operators with state."""
    once = numbers(session, folder).dropDuplicates(["n", "at"])
    return once.groupBy(F.window("at", "2 minutes")).count().select(F.col("count").alias("n"))


def pairs(session: SparkSession, folder: Path) -> DataFrame:
    left, right = numbers(session, folder).alias("l"), numbers(session, folder).alias("r")
    joined = left.join(right.where("n % 2 = 0"), F.expr("l.n = r.n and l.at = r.at"), "left_outer")
    return joined.select("l.n")


def deliver(frame: DataFrame, checkpoint: Path, sink: Path) -> None:
    writer = frame.writeStream.format("parquet").option("path", str(sink))
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(60)


def rows(sink: Path) -> list[int]:
    found: list[int] = []
    for entry in stream_logs.sink_entries(sink / "_spark_metadata"):
        found += pyarrow.parquet.ParquetFile(entry.path).read()["n"].to_pylist()
    return found


def feed(folder: Path, number: int) -> None:
    lines = [
        {"n": n, "at": f"2024-01-01T{number:02d}:{n % 60:02d}:00Z"} for n in range(number * 4, number * 4 + 4)
    ]
    (folder / f"{number}.json").write_text("\n".join(map(json.dumps, lines)))


@pytest.mark.parametrize(("query", "store"), [(pairs, MAPS), (windows, ROCKSDB)])
def test_rows_are_those_of_a_query_that_begins_with_batch_0(
    session: SparkSession, tmp_path: Path, query: Callable[[SparkSession, Path], DataFrame], store: str
) -> None:
    session.conf.set(PROVIDER, store)
    choose_store(session, tmp_path, 0)
    (tmp_path / "in").mkdir()
    feed(tmp_path / "in", 0)
    frame = query(session, tmp_path / "in")
    deliver(frame, tmp_path / "first", tmp_path / "out")
    before = rows(tmp_path / "out")
    taken = stream_logs.last_batch(tmp_path / "out" / "_spark_metadata")
    feed(tmp_path / "in", 1)
    told_about(frame, session, taken, tmp_path / "tried", str, stateful=True).write(tmp_path / "second")
    deliver(frame, tmp_path / "second", tmp_path / "out")
    deliver(frame, tmp_path / "truth", tmp_path / "expected")
    assert sorted(rows(tmp_path / "out")) == sorted(before + rows(tmp_path / "expected"))
    noted = stream_logs.recorded_settings(tmp_path / "truth")
    assert noted == stream_logs.recorded_settings(tmp_path / "second")
    assert set(noted) == set(NOTED_SETTINGS)
