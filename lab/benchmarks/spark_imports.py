"""Do loads imported from an event log of plain Spark agree with the CPU of its processes?

    python -m lab.benchmarks spark_imports[:RUNS,BATCHES]

Three queries run on a server that writes an event log, while its process tree is watched. The log is
imported over the same time, and the ratio of the imported load to the measured one is shown: 1 is perfect,
and within a quarter of it is what the import promises (docs/measurement.md). No part of the run is Mooring's
but the start of the server; the log is Spark's own.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from lab.benchmarks._machine import load_average
from lab.benchmarks._record import Measurement, carry_out, prose_of
from mooring.cli.output.result_table import ResultTable, Value
from mooring.spark.event_logs.event_log import EventLogReader, LoggedApplication
from mooring.spark.event_logs.imported_problem import import_applications
from mooring.spark.event_logs.lines import LineCounts, log_groups, read_lines
from mooring.spark.sites.embedded_site import EmbeddedOptions, EmbeddedSite
from mooring.spark.sites.endpoint import close_session, open_session
from mooring.spark.sites.java import find_java
from mooring.spark.sites.local_files import HADOOPS_FILES
from mooring.spark.storage.stream_logs import last_committed_batch

SETTLING_BATCHES = 3
"""Of every query, before anything counts: the first ones load and compile most of Spark."""
NAMES = ("odd", "windows", "files")
PROMISED = 0.25
DEFAULT_SIZES = (3, 14)
"""Runs, and batches of each."""


def land(folder: Path, number: int, rng: np.random.Generator) -> None:
    rows = int(rng.choice([2_000, 20_000, 200_000]))
    table = pyarrow.table({"n": np.arange(rows), "x": rng.random(rows)})
    hidden = folder / f".{number}"
    pyarrow.parquet.write_table(table, hidden)
    hidden.rename(folder / f"{number:04}.parquet")


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


def looked_at(site: EmbeddedSite) -> tuple[float, float]:
    """Now, and the CPU of the site's processes until now."""
    usage = site.usage()
    assert usage is not None
    return time.time(), usage.cpu_s


def watched_run(
    site: EmbeddedSite, folder: Path, batches: int
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Instants and CPU seconds at which what counts begins and ends."""
    session = open_session(site.wait_ready())
    queries, rng = start_queries(session, folder), np.random.default_rng(0)
    begin, number = None, 0
    while (done := committed(folder)) < SETTLING_BATCHES + batches:
        land(folder / "in", number, rng)
        time.sleep(1.0)
        number += 1
        if begin is None and done >= SETTLING_BATCHES:
            begin = looked_at(site)
    assert begin is not None
    end = looked_at(site)
    for query in queries:
        query.stop()
    close_session(session)
    return begin, end


def logged(folder: Path) -> LoggedApplication:
    (group,) = log_groups(folder)
    reader = EventLogReader()
    for file in group:
        for line in read_lines(file, LineCounts()):
            reader.take(line)
    return reader.application


def ratio(folder: Path, batches: int) -> float:
    """Cores by the log, over cores by the process tree, after the first batches."""
    (folder / "log").mkdir(parents=True)
    (folder / "in").mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{folder}/log",
        "spark.eventLog.rolling.enabled": "true",
        "spark.app.name": "plain",
        **HADOOPS_FILES,
    }
    options = EmbeddedOptions(settings=settings, heap_mb=768)
    site = EmbeddedSite("plain", folder / "site", find_java(), capacity=2, options=options)
    site.start()
    try:
        (begin_s, begin_cpu_s), (end_s, end_cpu_s) = watched_run(site, folder, batches)
    finally:
        site.stop()
    application = logged(folder / "log")
    for query in application.queries.values():
        query.batches = [batch for batch in query.batches if begin_s <= batch.begin_s <= end_s]
    predicted_cores = sum(e.load_cores for e in import_applications([application]).estimates)
    return predicted_cores / ((end_cpu_s - begin_cpu_s) / (end_s - begin_s))


def measure(words: Sequence[str]) -> Iterator[ResultTable | str]:
    runs, batches = [*map(int, words), *DEFAULT_SIZES[len(words) :]]
    rows: list[dict[str, Value]] = []
    ratios = []
    for number in range(runs):
        with tempfile.TemporaryDirectory(prefix="mooring-imports-") as folder:
            ratios.append(ratio(Path(folder), batches))
        rows.append({"run": number, "imported_to_measured": ratios[-1], "load_average": load_average()})
        print(rows[-1], file=sys.stderr, flush=True)
    yield ResultTable.of("Load by the log over load by the process tree", rows)
    within = sum(abs(found - 1.0) <= PROMISED for found in ratios)
    yield f"Median {statistics.median(ratios):.2f}; {within} of {runs} are within {PROMISED:.0%}."


SPARK_IMPORTS = Measurement(
    "spark_imports",
    "Do loads imported from an event log agree with the CPU of the processes?",
    prose_of(__doc__),
    measure,
)

if __name__ == "__main__":
    carry_out(SPARK_IMPORTS, sys.argv[1:])
