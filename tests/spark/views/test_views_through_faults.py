"""Views over growing tables, through moves and a killed site: readers see consistent snapshots only, and a
stream of a view delivers every version once.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

import pyarrow
import pyarrow.parquet

from mooring.controller.initial_placement import Wish
from mooring.controller.session import RunSession, SessionOptions
from mooring.spark.engine.engine import EngineOptions, SparkEngine
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs.project_run import prepared_run
from mooring.spark.runs.results import read_stored
from mooring.spark.runs.spark_run import SparkRun
from mooring.spark.storage.storage_root import local_path
from mooring.spark.storage.stream_logs import read_lines
from mooring.spark.storage.views.versions import ViewVersion
from tests.spark.runs.test_faults import server_of

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker

PATIENCE_S = 240
SETTINGS = """\
sites: {a: {capacity: 2}, b: {capacity: 2}}
streams: {numbers: {site: a, rate: 100}}
trigger_s: 1
refresh_s: 1
"""
FLOWS = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

@dp.table
def kept():
    return spark.readStream.table("numbers").filter("n % 2 = 0").select("n")

@dp.materialized_view
def sums():
    return spark.read.table("numbers").agg(F.count("*").alias("rows"), F.sum("n").alias("n"))

@dp.materialized_view
def over():
    return spark.read.table("sums").crossJoin(spark.read.table("both")).withColumnRenamed("n", "sum")

@dp.table
def history():
    return spark.readStream.table("sums")
"""
BOTH = """
CREATE MATERIALIZED VIEW both AS
SELECT (SELECT count(*) FROM numbers) AS numbers, (SELECT count(*) FROM kept) AS kept,
  (SELECT count(*) FROM kept LEFT ANTI JOIN numbers ON kept.n = numbers.n) AS orphans
"""
VIEWS = ("sums", "both", "over")
Row = dict[str, int]


class Feed(threading.Thread):
    """Ten numbers in a file, again and again, until halted."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder, self.upto, self.over = folder / "input", 0, threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.3):
            lines = [
                json.dumps({"n": n, "at": "2020-01-01T00:00:00Z"}) for n in range(self.upto, self.upto + 10)
            ]
            hidden = self.folder / f".{self.upto}"
            hidden.write_text("\n".join(lines))
            hidden.rename(self.folder / f"{self.upto:06d}.json")
            self.upto += 10


@dataclass
class Reader(threading.Thread):
    """Reads every version it sees at once, as somebody outside would."""

    layout: Layout
    seen: dict[str, dict[str, tuple[ViewVersion, Row]]] = field(
        default_factory=lambda: {v: {} for v in VIEWS}
    )
    failure: BaseException | None = None

    def __post_init__(self) -> None:
        super().__init__(daemon=True)
        self.over = threading.Event()

    def run(self) -> None:
        try:
            while not self.over.wait(0.05):
                for view in VIEWS:
                    self.look(view)
        except BaseException as failure:
            self.failure = failure

    def look(self, view: str) -> None:
        versions = self.layout.views[view]
        found = versions.current()
        if found is not None and found.folder not in self.seen[view]:
            files = [versions.path(found) / name for name in found.files]
            table = pyarrow.concat_tables([pyarrow.parquet.ParquetFile(file).read() for file in files])
            (row,) = table.to_pylist()
            self.seen[view][found.folder] = found, row

    def last(self, view: str) -> Row:
        return list(self.seen[view].values())[-1][1] if self.seen[view] else {}

    def __hash__(self) -> int:
        return id(self)


def numbers_upto(layout: Layout, table: str, batch: int) -> list[int]:
    """What the flow had committed with that batch, read off what Spark noted batch by batch."""
    log, found = layout.channels[table].sink_log, list[int]()
    for number in range(batch + 1):
        file = log / str(number)
        assert file.exists() or number % 10 == 9, "a compacted file repeats those before it"
        lines = read_lines(file if file.exists() else log / f"{number}.compact")
        known = {local_path(line.path, log) for line in lines}
        if not file.exists():
            found = []
        for path in known:
            found += pyarrow.parquet.ParquetFile(path).read()["n"].to_pylist()
    return found


def expected(layout: Layout, reader: Reader, view: str, version: ViewVersion) -> Row:
    """Of a version, by what it says that it was made of."""
    rows = {flow: numbers_upto(layout, flow, batch) for flow, batch in version.reads.batches.items()}
    if view == "sums":
        return {"rows": len(rows["numbers"]), "n": sum(rows["numbers"]) if rows["numbers"] else None}  # type: ignore[dict-item]
    if view == "both":
        return {"numbers": len(rows["numbers"]), "kept": len(rows["kept"]), "orphans": 0}
    made_of = {name: reader.seen[name][folder][1] for name, folder in version.reads.versions.items()}
    sums = {("sum" if name == "n" else name): value for name, value in made_of["sums"].items()}
    return {**sums, **made_of["both"]}


def script(engine: SparkEngine, reader: Reader, feed: Feed, told: list[str]) -> Iterator[Callable[[], bool]]:
    """What happens, each step once the one before has come true."""

    def newer(than: dict[str, int]) -> bool:
        return all(len(reader.seen[view]) > than[view] for view in VIEWS)

    def counts() -> dict[str, int]:
        return {view: len(reader.seen[view]) for view in VIEWS}

    yield lambda: all(reader.last(view) for view in VIEWS) and (reader.last("sums")["rows"] > 0)
    for name in ("sums", "history", "over"):
        engine.move(name, "b" if engine.homes()[name] == "a" else "a")
    before = counts()
    yield lambda: newer(before)
    engine.move("both", "b") if engine.homes()["both"] == "a" else None
    os.kill(server_of(engine.layout.project.folder, "b"), signal.SIGKILL)
    yield lambda: any("the site b is lost" in line for line in told)
    after = counts()
    yield lambda: newer(after)
    feed.over.set()
    feed.join()
    truth = {"sum": sum(range(feed.upto)), "rows": feed.upto, "numbers": feed.upto, "kept": feed.upto // 2}
    yield lambda: reader.last("over") == {**truth, "orphans": 0}
    yield lambda: feed.upto in [row["rows"] for row in read_stored(engine.layout.root, "history").to_pylist()]


@pytest.mark.spark
def test_every_version_that_a_reader_saw_was_a_consistent_snapshot_and_was_delivered_once(
    make_project: ProjectMaker,
) -> None:
    folder = make_project(settings=SETTINGS, flows_py=FLOWS, both_sql=BOTH)
    with (folder / "spark-pipeline.yml").open("a") as spec:  # so that every batch can be read off afterwards
        spec.write('configuration: {spark.sql.streaming.fileSink.log.cleanupDelay: "1h"}\n')
    told: list[str] = []
    with prepared_run(load_project(folder)) as prepared:
        run = SparkRun(prepared, Wish("llf"), say=told.append)
        feed, reader = Feed(folder), Reader(prepared.layout)
        with run.started(EngineOptions(silence_s=20.0), SessionOptions(look_s=1.0)) as (session, book):
            feed.start()
            reader.start()
            _follow(session, script(book.engine, reader, feed, told), reader, told)
        reader.over.set()
        reader.join()
        run.end("over")
        assert reader.failure is None, reader.failure
        for view in VIEWS:
            for version, row in reader.seen[view].values():
                assert row == expected(prepared.layout, reader, view, version), (view, version)
        history = [row["rows"] for row in read_stored(prepared.layout.root, "history").to_pylist()]
        assert len(set(history)) == len(history), "every version differs from those before"
        assert {row["rows"] for _, row in reader.seen["sums"].values()} <= set(history)


def _follow(
    session: RunSession, steps: Iterator[Callable[[], bool]], reader: Reader, told: list[str]
) -> None:
    """Run until all steps have come true, one after the other."""
    deadline = time.monotonic() + PATIENCE_S
    for happened in steps:

        def over(passed_s: float, done: Callable[[], bool] = happened) -> bool:
            assert reader.failure is None, reader.failure
            seen = {view: reader.last(view) for view in VIEWS}
            assert time.monotonic() < deadline, "\n".join(["waited too long", str(seen), *told])
            return done()

        session.run(over)
