"""What keeping a table costs: a look, the disk and a start after a million rows, and a fragment more.

    python -m lab.benchmarks spark_kept_tables[:million,readers,ways]

*Million* is one table of a million rows in ten thousand files, as a flow writes them and as they are once all
but the last hour are merged. A *look* is what a run does every five seconds (positions, what was appended,
what is lost, trimming); *start* is the first of them, which reads all logs. `mooring tables` opens every file
the first time and the new ones later. Times are CPU of Mooring's process.

*Readers* are flows that were added and begin with the first row of such a table: CPU of an embedded site up
to the end of the first batch, of 200 files.

*Ways* are those of a flow that writes a table which one other flow reads: a *chain* of two queries, *two
queries over the source*, and *one query with two outputs* (`foreachBatch`), beside the second flow alone,
where the table is not kept. CPU of the site's processes per batch of the source.
"""

from __future__ import annotations

import io
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession

from lab.benchmarks._record import Measurement, carry_out, chosen_parts, prose_of
from lab.benchmarks.spark_looks import Logs, channel_of, cpu_ms, cpu_s, look, merged
from mooring.cli.output.result_table import ResultTable, Value
from mooring.spark.sites.embedded_site import EmbeddedOptions, EmbeddedSite
from mooring.spark.sites.endpoint import close_session, open_session
from mooring.spark.sites.java import find_java
from mooring.spark.storage.owned_folder import unowned
from mooring.spark.storage.pipeline_record import FlowRecord, PipelineRecord
from mooring.spark.tables.stored_tables import TableShelf

FILES = 10_000
ROWS_PER_FILE = 100
LOOKS = 21
FILES_PER_BATCH = 200
PATIENCE_S = 600.0
TABLES = {"as written": [1] * FILES, "merged": merged(FILES)}
WARM_BATCHES, BATCHES = 4, 12


@contextmanager
def running_site(folder: Path) -> Iterator[tuple[EmbeddedSite, SparkSession]]:
    options = EmbeddedOptions(start_timeout_s=PATIENCE_S)
    site = EmbeddedSite("here", folder / "site", find_java(), capacity=2, options=options)
    site.start()
    try:
        site.wait_ready()
        session = open_session(site.endpoint)
        try:
            yield site, session
        finally:
            close_session(session)
    finally:
        site.stop()


def million(folder: Path) -> ResultTable:
    rows = [_million(Logs(folder / str(len(each)), FILES, each), what, each) for what, each in TABLES.items()]
    return ResultTable.of(f"A kept table of {FILES * ROWS_PER_FILE:,} rows", rows)


def readers(folder: Path) -> ResultTable:
    rows: list[dict[str, Value]] = []
    with running_site(folder) as (site, session):
        for what, entries in ({"warm": [1] * 20} | TABLES).items():
            logs = Logs(folder / str(len(entries)), sum(entries), entries)
            _write_rows(logs, entries)
            rows.append({"table": what, "first_batch_CPU_s": _first_batch_cpu_s(logs, site, session)})
    return ResultTable.of("A reader from the beginning", rows[1:])


def _million(logs: Logs, what: str, entries: Sequence[int]) -> dict[str, Value]:
    folder = logs.folder
    _write_rows(logs, entries)
    channel, ends = channel_of(logs), [FILES]
    start_ms = cpu_ms(channel.state)
    taken = []
    for number in range(LOOKS):
        logs.append()
        (logs.channel / logs.newest).write_bytes(_parquet(1))
        taken.append(cpu_ms(partial(look, [channel], ends, trim=number % 2 == 0)))
    flows = {"flow": FlowRecord("table", "table", "", stateful=False)}
    shelf = TableShelf(
        folder, unowned(folder), PipelineRecord({"flow": ("flow",)}, flows), folder, folder / "manifests"
    )
    first_ms, again_ms = cpu_ms(shelf.tables), cpu_ms(shelf.tables)
    (table,) = shelf.tables()
    logged = sum(file.stat().st_size for log in logs.lines for file in log.iterdir())
    return {
        "table": what,
        "files": len(entries) + LOOKS,
        "rows": table.rows,
        "MB_of_rows": sum(file.stat().st_size for file in logs.channel.glob("*.parquet")) / 1e6,
        "MB_of_logs": logged / 1e6,
        "look_ms": statistics.median(taken),
        "start_ms": start_ms,
        "tables_first_ms": first_ms,
        "tables_again_ms": again_ms,
    }


def _write_rows(logs: Logs, entries: Sequence[int]) -> None:
    """Into the files that the log names: as many rows as the batches they stand for had."""
    contents = {items: _parquet(items) for items in set(entries)}
    sink_lines = logs.lines[logs.channel / "_spark_metadata"]
    for line, items in zip(sink_lines, entries, strict=True):
        (logs.channel / Path(json.loads(line)["path"]).name).write_bytes(contents[items])


def _parquet(items: int) -> bytes:
    count = items * ROWS_PER_FILE
    table = pyarrow.table({"n": range(count), "text": [f"row {n % 977}" for n in range(count)]})
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(table, buffer, compression="snappy")
    return buffer.getvalue()


def _first_batch_cpu_s(logs: Logs, site: EmbeddedSite, session: SparkSession) -> float:
    reader = session.readStream.schema("n long, text string").option("maxFilesPerTrigger", FILES_PER_BATCH)
    writer = reader.parquet(f"file://{logs.channel}").writeStream.format("noop")
    before_s = cpu_s(site)
    query = writer.option("checkpointLocation", f"file://{logs.folder / 'added'}").start()
    try:
        while query.lastProgress is None:
            if (failure := query.exception()) is not None:
                raise RuntimeError(str(failure))
            time.sleep(0.3)  # asking costs the site CPU
        return cpu_s(site) - before_s
    finally:
        query.stop()


def ways(folder: Path) -> ResultTable:
    rows: list[dict[str, Value]] = []
    with running_site(folder) as (site, session):
        for name, way in WAYS.items():
            for part, batches in (("warm", WARM_BATCHES), ("counted", BATCHES)):
                place = folder / name.replace(" ", "_") / part
                _feed(place / "input", batches)
                before_s = cpu_s(site)
                way(session, place)
            rows.append({"way": name, "CPU_s_per_batch": (cpu_s(site) - before_s) / BATCHES})
    return ResultTable.of(f"CPU per batch of a table that one flow reads, {BATCHES} batches", rows)


def _feed(folder: Path, batches: int) -> None:
    folder.mkdir(parents=True)
    for number in range(batches):
        lines = [json.dumps({"n": n, "text": f"row {n}"}) for n in range(ROWS_PER_FILE)]
        (folder / f"{number:03d}.json").write_text("\n".join(lines))


def _source(session: SparkSession, place: Path) -> DataFrame:
    reader = session.readStream.schema("n long, text string").option("maxFilesPerTrigger", 1)
    return reader.json(f"file://{place / 'input'}").filter("n >= 0")


def _next(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("n * 2 AS n", "upper(text) AS text")


def _run(frame: DataFrame, place: Path, name: str) -> None:
    writer = frame.writeStream.option("path", f"file://{place / name}")
    _to_the_end(writer.option("checkpointLocation", f"file://{place / name}-checkpoint"))


def _to_the_end(writer: Any) -> None:
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    if (failure := query.exception()) is not None:
        raise RuntimeError(str(failure))


def _alone(session: SparkSession, place: Path) -> None:
    _run(_next(_source(session, place)), place, "next")


def _chain(session: SparkSession, place: Path) -> None:
    _run(_source(session, place), place, "table")
    reader = session.readStream.schema("n long, text string").option("maxFilesPerTrigger", 1)
    _run(_next(reader.parquet(f"file://{place / 'table'}")), place, "next")


def _two_queries(session: SparkSession, place: Path) -> None:
    _run(_source(session, place), place, "table")
    _run(_next(_source(session, place)), place, "next")


def _two_outputs(session: SparkSession, place: Path) -> None:
    table, other = f"file://{place / 'table'}", f"file://{place / 'next'}"

    def write(rows: DataFrame, batch: int) -> None:
        rows.persist()
        rows.write.mode("append").parquet(table)
        rows.selectExpr("n * 2 AS n", "upper(text) AS text").write.mode("append").parquet(other)
        rows.unpersist()

    writer = _source(session, place).writeStream.foreachBatch(write)
    _to_the_end(writer.option("checkpointLocation", f"file://{place / 'checkpoint'}"))


WAYS: dict[str, Callable[[SparkSession, Path], None]] = {
    "not kept": _alone,
    "chain": _chain,
    "two queries over the source": _two_queries,
    "one query, two outputs": _two_outputs,
}
PARTS: dict[str, Callable[[Path], ResultTable]] = {"million": million, "readers": readers, "ways": ways}


def measure(words: Sequence[str]) -> Iterator[ResultTable]:
    for part in chosen_parts(words, PARTS):
        with tempfile.TemporaryDirectory() as folder:
            yield PARTS[part](Path(folder))


KEPT_TABLES = Measurement("spark_kept_tables", "What keeping a table costs", prose_of(__doc__), measure)

if __name__ == "__main__":
    carry_out(KEPT_TABLES, sys.argv[1:])
