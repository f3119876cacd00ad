"""An event log of plain Spark, whose process tree was watched meanwhile, imports into loads that agree."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

import pyarrow
import pyarrow.parquet
from pyspark.sql import functions as F

from mooring.spark.event_logs.event_log import EventLogReader
from mooring.spark.event_logs.imported_problem import import_applications
from mooring.spark.event_logs.lines import LineCounts, log_groups, read_lines
from mooring.spark.sites.embedded_site import EmbeddedOptions, EmbeddedSite
from mooring.spark.sites.endpoint import close_session, open_session
from mooring.spark.sites.java import find_java
from mooring.spark.sites.local_files import HADOOPS_FILES
from mooring.spark.sites.process_tree import can_see_processes
from mooring.spark.storage.stream_logs import last_committed_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

SETTLING_BATCHES = 3
"""Of every query, before anything counts: the first ones load and compile most of Spark."""
BATCHES = 14
"""Of every query, that count."""
PATIENCE_S = 240
NAMES = ("odd", "windows", "files")


def land(folder: Path, number: int, rng: np.random.Generator) -> None:
    rows = int(rng.choice([2_000, 20_000, 200_000]))
    table = pyarrow.table({"n": np.arange(rows), "x": rng.random(rows)})
    hidden = folder / f".{number}"
    pyarrow.parquet.write_table(table, hidden)
    hidden.rename(folder / f"{number:04}.parquet")


def cpu_s(site: EmbeddedSite) -> float:
    usage = site.usage()
    assert usage is not None
    return usage.cpu_s


def start_queries(session: SparkSession, folder: Path) -> list[StreamingQuery]:
    """Two over a steady source, one of them windowed, and one over files of different sizes."""

    def steady(rows_per_s: int) -> DataFrame:
        return session.readStream.format("rate").option("rowsPerSecond", rows_per_s).load()

    windows = (
        steady(5000)
        .withWatermark("timestamp", "2 seconds")
        .groupBy(F.window("timestamp", "5 seconds"), F.col("value") % 100)
        .count()
    )
    files = session.readStream.schema("n long, x double").option("maxFilesPerTrigger", 1)
    frames = {
        "odd": (steady(2000).filter("value % 3 = 0"), "2 seconds"),
        "windows": (windows.select("count"), "2 seconds"),
        "files": (files.parquet(str(folder / "in")).withColumn("y", F.sqrt("x")), "1 second"),
    }
    return [
        frame.writeStream.format("parquet")
        .option("path", str(folder / name))
        .option("checkpointLocation", str(folder / f"checkpoint-{name}"))
        .queryName(name)
        .trigger(processingTime=trigger)
        .start()
        for name, (frame, trigger) in frames.items()
    ]


def committed(folder: Path) -> int:
    """Batches of the query that has the fewest."""
    last = [last_committed_batch(folder / f"checkpoint-{name}") for name in NAMES]
    return min(-1 if batch is None else batch for batch in last) + 1


@pytest.mark.skipif(not can_see_processes(), reason="CPU is read from /proc")
def test_loads_imported_from_a_log_of_plain_spark_agree_with_the_cpu_of_its_processes(tmp_path: Path) -> None:
    """Within 25%, over the time the log covers after its first batches. No part of the run is Mooring's but
    the start of the server; the log is Spark's own."""
    (tmp_path / "log").mkdir()
    (tmp_path / "in").mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{tmp_path}/log",
        "spark.eventLog.rolling.enabled": "true",
        "spark.app.name": "plain",
        **HADOOPS_FILES,
    }
    options = EmbeddedOptions(settings=settings, heap_mb=768)
    site = EmbeddedSite("plain", tmp_path / "site", find_java(), capacity=2, options=options)
    site.start()
    try:
        site.wait_ready()
        session = open_session(site.endpoint)
        queries, rng = start_queries(session, tmp_path), np.random.default_rng(0)
        began, marked, number = time.monotonic(), None, 0
        while (done := committed(tmp_path)) < SETTLING_BATCHES + BATCHES:
            assert time.monotonic() < began + PATIENCE_S
            land(tmp_path / "in", number, rng)
            time.sleep(1.0)
            number += 1
            if marked is None and done >= SETTLING_BATCHES:
                marked = (time.time(), cpu_s(site))
        end_s, end_cpu_s = time.time(), cpu_s(site)
        assert marked is not None
        for query in queries:
            query.stop()
        close_session(session)
    finally:
        site.stop()
    measured_cores = (end_cpu_s - marked[1]) / (end_s - marked[0])
    (group,) = log_groups(tmp_path / "log")
    reader = EventLogReader()
    for file in group:
        for line in read_lines(file, LineCounts()):
            reader.take(line)
    for query in reader.application.queries.values():
        query.batches = [batch for batch in query.batches if marked[0] <= batch.begin_s <= end_s]
    imported = import_applications([reader.application])
    assert imported.placement == dict.fromkeys(NAMES, "plain")
    assert imported.problem.sites[0].capacity == 2.0
    by_name = {e.query: e for e in imported.estimates}
    assert by_name["windows"].selectivity < 0.1
    assert by_name["odd"].selectivity == pytest.approx(1 / 3, rel=0.1)
    predicted_cores = sum(e.load_cores for e in imported.estimates)
    assert predicted_cores == pytest.approx(measured_cores, rel=0.25)
