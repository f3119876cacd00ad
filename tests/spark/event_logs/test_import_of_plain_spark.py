"""An event log of plain Spark imports into the queries, rows and batches that there were.

How far the imported loads are from the CPU of the processes is in lab/benchmarks/spark_imports.py.
"""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

import pyarrow
import pyarrow.parquet
from pyspark.sql import functions as F

from mooring.spark.event_logs.event_log import EventLogReader, LoggedApplication, LoggedQuery
from mooring.spark.event_logs.imported_problem import import_applications
from mooring.spark.event_logs.lines import LineCounts, log_groups, read_lines
from mooring.spark.sites.embedded_site import EmbeddedSite
from mooring.spark.sites.endpoint import close_session, open_session
from mooring.spark.sites.java import find_java
from mooring.spark.sites.local_files import HADOOPS_FILES
from mooring.spark.storage.stream_logs import last_committed_batch
from tests.spark.quick_start import quick_start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

ROWS = [1_000, 30_000, 10_000, 1_000, 30_000, 10_000, 1_000]
"""Of each file, and so of each batch of the queries that read files."""
STEADY_ROWS = 2_000
"""Of each batch of the query over a steady source."""
PATIENCE_S = 240


def land(folder: Path) -> None:
    """A second per thousand rows, file after file."""
    folder.mkdir()
    first = 0
    for number, rows in enumerate(ROWS):
        n = range(first, first + rows)
        at = pyarrow.array([1000 * k for k in n], pyarrow.timestamp("us", tz="UTC"))
        file = folder / f"{number:04}.parquet"
        pyarrow.parquet.write_table(pyarrow.table({"n": list(n), "at": at}), file)
        os.utime(file, (1.7e9 + number, 1.7e9 + number))  # Spark reads in the order of dates
        first += rows


def start_queries(session: SparkSession, folder: Path) -> dict[str, StreamingQuery]:
    """One over a steady source that goes on until it is stopped, two over files that end with them."""
    files = session.readStream.schema("n long, at timestamp").option("maxFilesPerTrigger", 1)
    landed = files.parquet(str(folder / "in"))
    windows = landed.withWatermark("at", "2 seconds").groupBy(F.window("at", "5 seconds"), F.col("n") % 10)
    steady = session.readStream.format("rate-micro-batch").option("rowsPerBatch", STEADY_ROWS).load()
    frames = {
        "odd": steady.filter("value % 2 = 1"),
        "windows": windows.count().select("count"),
        "files": landed.withColumn("y", F.sqrt("n")),
    }
    return {
        name: frame.writeStream.format("parquet")
        .option("path", str(folder / name))
        .option("checkpointLocation", str(folder / f"checkpoint-{name}"))
        .queryName(name)
        .trigger(**({"processingTime": "0 seconds"} if name == "odd" else {"availableNow": True}))
        .start()
        for name, frame in frames.items()
    }


def run_to_the_end(queries: dict[str, StreamingQuery], folder: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while queries["files"].isActive or queries["windows"].isActive or (steady_batches(folder) < len(ROWS)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    queries["odd"].stop()
    assert [query.exception() for query in queries.values()] == 3 * [None]


def steady_batches(folder: Path) -> int:
    last = last_committed_batch(folder / "checkpoint-odd")
    return 0 if last is None else last + 1


def logged(folder: Path) -> LoggedApplication:
    (group,) = log_groups(folder)
    reader = EventLogReader()
    for file in group:
        for line in read_lines(file, LineCounts()):
            reader.take(line)
    return reader.application


def task_cpu_s(query: LoggedQuery) -> float:
    return sum(batch.work.cpu_s for batch in query.batches if batch.work is not None)


@pytest.mark.spark
def test_a_log_of_plain_spark_gives_the_queries_rows_and_batches_that_there_were(tmp_path: Path) -> None:
    """No part of the run is Mooring's but the start of the server; the log is Spark's own."""
    (tmp_path / "log").mkdir()
    land(tmp_path / "in")
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{tmp_path}/log",
        "spark.eventLog.rolling.enabled": "true",
        "spark.app.name": "plain",
        **HADOOPS_FILES,
    }
    options = quick_start(settings=settings, heap_mb=768)
    site = EmbeddedSite("plain", tmp_path / "site", find_java(), capacity=2, options=options)
    site.start()
    try:
        site.wait_ready()
        session = open_session(site.endpoint)
        run_to_the_end(start_queries(session, tmp_path), tmp_path)
        close_session(session)
        used = site.usage()
    finally:
        site.stop()
    application = logged(tmp_path / "log")
    queries = {query.name: query for query in application.queries.values()}
    assert sorted(queries) == ["files", "odd", "windows"]
    assert [batch.rows_in for batch in queries["files"].batches] == ROWS
    assert [batch.rows_out for batch in queries["files"].batches] == ROWS
    assert [batch.rows_in for batch in queries["windows"].batches if batch.rows_in] == ROWS
    steady = queries["odd"].batches[: steady_batches(tmp_path)]
    assert len(steady) == steady_batches(tmp_path)
    assert {(batch.rows_in, batch.rows_out) for batch in steady} == {(STEADY_ROWS, STEADY_ROWS // 2)}
    imported = import_applications([application])
    assert imported.placement == dict.fromkeys(queries, "plain")
    assert imported.problem.sites[0].capacity == site.slots  # the log says how many tasks run at a time
    by_name = {e.query: e for e in imported.estimates}
    assert by_name["windows"].selectivity < 0.1
    assert by_name["odd"].selectivity == pytest.approx(0.5)
    assert by_name["files"].selectivity == pytest.approx(1.0)
    for estimate in imported.estimates:
        assert 0.0 < estimate.load_cores < math.inf
        assert 0.0 < estimate.fixed_cores < estimate.load_cores
        assert 0.0 <= estimate.cost_us < math.inf
    # Tasks had some of the CPU of the processes, and the driver the rest of a batch's time.
    assert all(task_cpu_s(query) > 0.001 * len(query.batches) for query in queries.values())
    assert used is None or sum(task_cpu_s(query) for query in queries.values()) < used.cpu_s
    for query in queries.values():
        assert all(0.0 < batch.driver_s <= batch.seconds for batch in query.batches)
