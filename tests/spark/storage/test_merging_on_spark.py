"""Spark reads a table whose files are merged under it: in batches, in streams that run, and in new ones."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from pyspark.sql.streaming import StreamingQuery

from mooring.spark.runs.results import read_stored
from mooring.spark.storage.compacted_file import write_merged
from mooring.spark.storage.compacted_name import read_name
from mooring.spark.storage.compaction import MergeOptions
from mooring.spark.storage.file_channel import FileChannel
from mooring.spark.storage.owned_folder import unowned
from mooring.spark.storage.stream_logs import sink_entries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_S = 120.0
SCHEMA = "n long, at timestamp, price decimal(6,2), tags array<string>"


class Pipeline:
    """A flow into a kept table, and flows that copy it."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        self.session, self.folder = session, folder
        self.channel = FileChannel(
            "flow",
            folder / "channels" / "table" / "flow",
            folder / "links" / "flow",
            self.checkpoint,
            unowned(folder),
        )
        self.channel.create()
        self.channel.register("results")
        self.channel.merges.options = MergeOptions(fan=3, spared=2, after_s=0, grace_s=0)
        (folder / "input").mkdir()
        self.files = 0
        self.running: list[StreamingQuery] = []

    def checkpoint(self, name: str) -> Path:
        return self.folder / "checkpoints" / name

    def write(self, files: int) -> None:
        """Each in a micro-batch of its own."""
        for _ in range(files):
            rows = [
                {"n": 3 * self.files + i, "at": "1066-10-14T12:00:00Z", "price": "1.25", "tags": ["a", None]}
                for i in range(3)
            ]
            file = self.folder / "input" / f"{self.files:03d}.json"
            file.write_text("\n".join(json.dumps(row) for row in rows))
            self.files += 1
        frame = self.session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        query = (
            frame.json(f"file://{self.folder / 'input'}")
            .writeStream.option("path", f"file://{self.channel.link}")
            .option("checkpointLocation", f"file://{self.checkpoint('flow')}")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(PATIENCE_S)
        assert query.exception() is None

    def copy(self, name: str) -> StreamingQuery:
        """A flow that reads the table, from its beginning or from where it stopped."""
        self.channel.register(name)
        frame = self.session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 2)
        query = (
            frame.parquet(f"file://{self.channel.link}")
            .writeStream.option("path", f"file://{self.folder / 'channels' / name / name}")
            .option("checkpointLocation", f"file://{self.checkpoint(name)}")
            .trigger(processingTime="100 milliseconds")
            .start()
        )
        self.running.append(query)
        return query

    def rows(self) -> list[str]:
        """As a batch finds them."""
        return sorted(str(row) for row in self.session.read.parquet(f"file://{self.channel.link}").collect())

    def delivered(self, name: str) -> list[int]:
        stored = read_stored(self.folder, name)
        return sorted(stored["n"].to_pylist()) if stored.num_rows else []

    def merge(self) -> None:
        plan = self.channel.merge_plan()
        assert plan is not None
        self.channel.adopt(plan, write_merged([entry.path for entry in plan.files], plan.hidden))


@pytest.fixture
def pipeline(session: SparkSession, tmp_path: Path) -> Iterator[Pipeline]:
    session.conf.set("spark.sql.streaming.fileSink.log.compactInterval", "3")
    made = Pipeline(session, tmp_path)
    yield made
    for query in made.running:
        query.stop()


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.1)


def test_a_merge_under_running_readers_doubles_and_loses_no_row(pipeline: Pipeline) -> None:
    reader = pipeline.copy("reader")
    pipeline.write(9)
    wait_until(lambda: pipeline.delivered("reader") == list(range(27)))
    wait_until(lambda: pipeline.channel.state().committed["reader"] == 9)
    before, files = pipeline.rows(), [entry.path for entry in sink_entries(pipeline.channel.sink_log)]
    pipeline.merge()
    entries = sink_entries(pipeline.channel.sink_log)
    assert [entry.items for entry in entries] == [7, 1, 1]
    assert read_name(entries[0].path.name) is not None
    assert pipeline.rows() == before
    # Spark writes the log anew with the merged file in it, and the old ones go.
    pipeline.write(3)
    wait_until(lambda: pipeline.channel.state().committed["reader"] == 12)
    pipeline.channel.trim()
    pipeline.channel.trim()
    assert not any(path.exists() for path in files[:7])
    assert [entry.items for entry in sink_entries(pipeline.channel.sink_log)] == [7, 1, 1, 1, 1, 1]
    assert [row for row in pipeline.rows() if row in before] == before
    assert pipeline.delivered("reader") == list(range(36))
    # A reader that is started again, and one that begins at the beginning.
    reader.stop()
    pipeline.copy("reader")
    pipeline.copy("late")
    pipeline.write(1)
    for name in ("reader", "late"):
        wait_until(lambda name=name: pipeline.channel.state().committed[name] == 13)  # type: ignore[misc]
        assert pipeline.delivered(name) == list(range(39))
