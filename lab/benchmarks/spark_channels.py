"""Which channel? Rows per second written and read, and CPU per micro-batch, for the design's alternatives.

    python -m lab.benchmarks spark_channels[:ROWS,BATCHES]

Each alternative drains the same backlog of parquet files (one file per micro-batch) into a channel, and a
second query drains the channel into a no-op sink; both on one embedded site whose process tree is measured. A
first, unmeasured drain of each kind warms the JVM up. Decision 0010 has the choice.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming import DataStreamWriter
from pyspark.sql.types import StructType

from lab.benchmarks._record import Measurement, carry_out, prose_of
from mooring.cli.output.result_table import ResultTable, Value
from mooring.spark.sites.embedded_site import EmbeddedSite
from mooring.spark.sites.endpoint import close_session, open_session
from mooring.spark.sites.java import find_java

Offset = dict[str, int]
DEFAULT_SIZES = (2_000_000, 20)
SCHEMA = "at timestamp, source long, target long, size int"


def make_backlog(session: SparkSession, folder: Path, rows: int, batches: int) -> None:
    per_file = rows // batches
    for batch in range(batches):
        frame = session.range(batch * per_file, (batch + 1) * per_file, 1, 1).selectExpr(
            "timestamp_micros(id * 100) as at",
            "id % 1000 as source",
            "id % 7919 as target",
            "cast(id % 1500 as int) as size",
        )
        frame.write.mode("append").parquet(str(folder))


def read_files(session: SparkSession, folder: Path) -> DataFrame:
    return session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


class Segment(InputPartition):
    def __init__(self, path: str) -> None:
        self.path = path


class Written(WriterCommitMessage):
    def __init__(self, path: str) -> None:
        self.path = path


class SegmentWriter(DataSourceStreamArrowWriter):
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> Written:
        import uuid

        import pyarrow as pa

        path = f"{self.folder}/tmp-{uuid.uuid4().hex}"
        writer = None
        for batch in iterator:
            if writer is None:
                writer = pa.ipc.new_file(path, batch.schema)
            writer.write_batch(batch)
        if writer is None:
            return Written("")
        writer.close()
        return Written(path)

    def commit(self, messages: list[Written | None], batchId: int) -> None:
        for part, message in enumerate(messages):
            if message is not None and message.path:
                os.replace(message.path, f"{self.folder}/{batchId:012d}-{part}.arrow")

    def abort(self, messages: list[Written | None], batchId: int) -> None:
        pass


class SegmentReader(DataSourceStreamReader):
    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.next = 0

    def initialOffset(self) -> Offset:
        return {"segment": 0}

    def latestOffset(self, *args: object) -> Offset:
        self.next = min(
            self.next + 1, len([name for name in os.listdir(self.folder) if name.endswith(".arrow")])
        )
        return {"segment": self.next}

    def partitions(self, start: Offset, end: Offset) -> list[Segment]:
        names = sorted(name for name in os.listdir(self.folder) if name.endswith(".arrow"))
        return [Segment(f"{self.folder}/{name}") for name in names[start["segment"] : end["segment"]]]

    def read(self, partition: Segment) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow as pa

        with pa.memory_map(partition.path) as source:
            yield from (
                pa.ipc.open_file(source).get_batch(i)
                for i in range(pa.ipc.open_file(source).num_record_batches)
            )


class Segments(DataSource):
    @classmethod
    def name(cls) -> str:
        return "segments"

    def schema(self) -> str:
        return SCHEMA

    def streamWriter(self, schema: StructType, overwrite: bool) -> SegmentWriter:
        return SegmentWriter(self.options["path"])

    def streamReader(self, schema: StructType) -> SegmentReader:
        return SegmentReader(self.options["path"])


def into_file_sink(frame: DataFrame, channel: Path) -> DataStreamWriter:
    return frame.writeStream.format("parquet").option("path", str(channel))


def into_renamed_files(frame: DataFrame, channel: Path) -> DataStreamWriter:
    final = str(channel)

    def write(batch: DataFrame, batch_id: int) -> None:
        import glob
        import os

        staging = f"{final}/.staging-{batch_id}"
        batch.write.mode("overwrite").parquet(staging)
        for part, path in enumerate(sorted(glob.glob(f"{staging}/part-*"))):
            os.replace(path, f"{final}/{batch_id:012d}-{part}.parquet")

    return frame.writeStream.foreachBatch(write)


def into_segments(frame: DataFrame, channel: Path) -> DataStreamWriter:
    return frame.writeStream.format("segments").option("path", str(channel))


def from_segments(session: SparkSession, channel: Path) -> DataFrame:
    return session.readStream.format("segments").option("path", str(channel)).load()


Into = Callable[[DataFrame, Path], DataStreamWriter]
OutOf = Callable[[SparkSession, Path], DataFrame]

ALTERNATIVES: dict[str, tuple[Into, OutOf]] = {
    "file sink and source": (into_file_sink, read_files),
    "foreachBatch, renamed": (into_renamed_files, read_files),
    "Python data source": (into_segments, from_segments),
}


def drain(
    site: EmbeddedSite, writer: DataStreamWriter, checkpoint: Path, expected: int
) -> tuple[float, float, int]:
    """Run a query until it has taken every row; seconds, CPU seconds and micro-batches."""
    before, start = site.usage(), time.monotonic()
    query = writer.option("checkpointLocation", str(checkpoint)).outputMode("append").start()
    rows = batches = 0
    while rows < expected:
        time.sleep(0.1)
        if query.exception() is not None:
            raise SystemExit(str(query.exception())[:2000])
        progress = query.recentProgress
        rows, batches = sum(p.numInputRows for p in progress), len([p for p in progress if p.numInputRows])
    took, after = time.monotonic() - start, site.usage()
    query.stop()
    assert before is not None
    assert after is not None
    return took, after.cpu_s - before.cpu_s, batches


def drain_all(rows: int, batches: int, work: Path) -> list[dict[str, Value]]:
    site = EmbeddedSite("bench", work / "site", find_java(), capacity=2.0)
    site.start()
    site.wait_ready()
    results: list[dict[str, Value]] = []
    try:
        session = open_session(site.endpoint)
        session.dataSource.register(Segments)
        session.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
        make_backlog(session, work / "backlog", rows, batches)
        for turn in ("warm", "measured"):
            for name, (into, out_of) in ALTERNATIVES.items():
                channel = work / turn / name.replace(" ", "_")
                channel.mkdir(parents=True)
                source = read_files(session, work / "backlog")
                write = drain(site, into(source, channel), work / f"{turn}-{name}-w", rows)
                reader = out_of(session, channel).writeStream.format("noop")
                read = drain(site, reader, work / f"{turn}-{name}-r", rows)
                if turn == "measured":
                    usage = site.usage()
                    results.append(
                        {
                            "channel": name,
                            "written_rows_per_s": round(rows / write[0]),
                            "write_cpu_s_per_batch": round(write[1] / write[2], 3),
                            "read_rows_per_s": round(rows / read[0]),
                            "read_cpu_s_per_batch": round(read[1] / read[2], 3),
                            "site_processes": usage.processes if usage else None,
                            "site_resident_mb": round(usage.resident_mb) if usage else None,
                        }
                    )
        close_session(session)
    finally:
        site.stop()
    return results


def measure(words: Sequence[str]) -> Iterator[ResultTable]:
    rows, batches = [*map(int, words), *DEFAULT_SIZES[len(words) :]]
    folder = Path(tempfile.mkdtemp(prefix="mooring-channels-"))
    try:
        yield ResultTable.of(f"{rows:,} rows in {batches} micro-batches", drain_all(rows, batches, folder))
    finally:
        shutil.rmtree(folder)


SPARK_CHANNELS = Measurement(
    "spark_channels", "Three kinds of channels between fragments", prose_of(__doc__), measure
)

if __name__ == "__main__":
    carry_out(SPARK_CHANNELS, sys.argv[1:])
