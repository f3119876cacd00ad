"""How long a fragment stands still when it moves, beside Spark's own stop-and-restart; and which store moves
a large state quickest.

    python -m benchmarks.spark_moves [pauses] [stores] [batches]

`pauses`: a stateless and a windowed fragment moved to and fro between two warm sites under steady input, and
in turn the same query, written by hand, stopped and started again where it is. Both are measured by the same
two functions (`moving.halt`, `moving.first_batch`): from the request to stop until the first new commit.
`stores`: the same with 10^6 keys of state, per state store. `batches`: CPU of the site per micro-batch, per
store, with little state.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow
import pyarrow.parquet
from pyspark.sql import functions as F

from mooring.spark.pipeline.project import load_project
from mooring.spark.running.engine import SparkEngine
from mooring.spark.running.moving import first_batch, halt
from mooring.spark.running.project_run import read_layout
from mooring.spark.sites.embedded_site import EmbeddedOptions, EmbeddedSite
from mooring.spark.sites.endpoint import close_session, open_session
from mooring.spark.sites.java import find_java
from mooring.spark.sites.sites import SiteHandle

ROUNDS = 5
KEYS = 1_000_000
BATCHES = 40
TRIGGER_S = 0.5
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
MAPS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
STORES = {
    "default (maps)": {PROVIDER: MAPS},
    "RocksDB": {PROVIDER: ROCKSDB, CHANGELOG: "false"},
    "RocksDB, changelog": {PROVIDER: ROCKSDB, CHANGELOG: "true"},
}
SPEC = """\
name: moves
storage: file://{folder}/pipelines-storage
configuration: {configuration}
libraries:
  - glob:
      include: transformations/**
"""
SETTINGS = f"""\
sites: {{a: {{capacity: 1}}, b: {{capacity: 1}}}}
streams: {{passed: {{site: a, rate: 100}}, counted: {{site: a, rate: 100}}}}
trigger_s: {TRIGGER_S}
"""
CODE = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

def rows():
    return spark.readStream.schema("n long, at timestamp").parquet("{folder}/input")

@dp.table
def passed():
    return rows().filter("n % 2 = 0")

@dp.table
def counted():
    windows = rows().withWatermark("at", "1 hour").groupBy(F.window("at", "1 minute"), "n")
    return windows.agg(F.count("*").alias("rows"))
"""


def write_rows(folder: Path, name: str, numbers: range) -> None:
    moment = pyarrow.scalar(1_600_000_000_000_000, pyarrow.timestamp("us", "UTC"))
    at = pyarrow.array([moment.as_py()] * len(numbers), pyarrow.timestamp("us", "UTC"))
    hidden = folder / f".{name}"
    pyarrow.parquet.write_table(pyarrow.table({"n": pyarrow.array(numbers), "at": at}), hidden)
    hidden.rename(folder / f"{name}.parquet")


@contextmanager
def steady_input(folder: Path) -> Iterator[None]:
    """A small file more often than the trigger, so that every batch finds something."""
    over = threading.Event()

    def give() -> None:
        while not over.wait(0.4):
            write_rows(folder, f"s{time.time_ns()}", range(20))

    thread = threading.Thread(target=give)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def running(configuration: dict[str, str], heap_mb: int = 512) -> Iterator[SparkEngine]:
    with tempfile.TemporaryDirectory(prefix="mooring-moves-") as name:
        folder = Path(name)
        for part in ("transformations", "input"):
            (folder / part).mkdir()
        spec = SPEC.format(folder=folder, configuration=json.dumps(configuration))
        (folder / "spark-pipeline.yml").write_text(spec)
        (folder / "mooring.yml").write_text(SETTINGS)
        (folder / "transformations" / "code.py").write_text(CODE.format(folder=folder))
        options, java = EmbeddedOptions(heap_mb=heap_mb), find_java()
        servers = [EmbeddedSite(s, folder / s, java, capacity=1, options=options) for s in ("a", "b")]
        try:
            for server in servers:
                server.start()
            sites = {s.name: SiteHandle(s.name, 1.0, s.wait_ready(), s) for s in servers}
            engine = SparkEngine(read_layout(load_project(folder), sites["a"]), sites, {})
            yield engine
            engine.stop_all(patience_s=5.0)
        finally:
            for server in servers:
                server.stop()


def wait_until(engine: SparkEngine, happened: Callable[[], bool], patience_s: float = 300.0) -> None:
    deadline = time.monotonic() + patience_s
    while not happened():
        engine.check()
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.2)


def batches(engine: SparkEngine, fragment: str) -> int:
    engine.snapshot()
    return engine.meters[fragment].count


class PlainQuery:
    """The same query by hand, with a checkpoint and an output of its own, at one site."""

    def __init__(self, engine: SparkEngine, kind: str, site: str, configuration: dict[str, str]) -> None:
        self._session = open_session(engine.sites[site].endpoint)
        for name, value in configuration.items():
            self._session.conf.set(name, value)
        source = self._session.readStream.schema("n long, at timestamp")
        frame = source.parquet(str(engine.layout.project.folder / "input"))
        if kind == "passed":
            frame = frame.filter("n % 2 = 0")
        else:
            windows = frame.withWatermark("at", "1 hour").groupBy(F.window("at", "1 minute"), "n")
            frame = windows.agg(F.count("*").alias("rows"))
        folder = engine.layout.root / "plain" / kind
        self._commits = folder / "checkpoint" / "commits"
        self._writer = (
            frame.writeStream.format("parquet")
            .option("path", str(folder / "out"))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .outputMode("append")
            .trigger(processingTime=f"{round(TRIGGER_S * 1000)} milliseconds")
        )
        self._query = self._writer.start()
        first_batch(self._query, self._commits)

    def restart_s(self) -> float:
        stopped = halt(self._query, 30.0)
        self._query = self._writer.start()
        failed = first_batch(self._query, self._commits)
        assert failed is None, failed
        return time.monotonic() - stopped

    def close(self) -> None:
        self._query.stop()
        close_session(self._session)


def line(what: str, pauses: list[float]) -> str:
    return f"  {what:34} median {statistics.median(pauses):5.2f} s, {min(pauses):.2f} to {max(pauses):.2f}"


def load() -> str:
    return f"load average {os.getloadavg()[0]:.1f}"


def pauses() -> None:
    print(f"pause of a move to a warm target, and of Spark's own restart; {ROUNDS} each, in turn; {load()}")
    for kind, name in (("passed", "stateless"), ("counted", "windowed")):
        with running({}) as engine, steady_input(engine.layout.project.folder / "input"):
            engine.start(kind, "a")
            wait_until(engine, lambda: batches(engine, kind) >= 3)  # noqa: B023
            plain = PlainQuery(engine, kind, "b", {})
            for site in "bab":  # both have seen both kinds of change before anything counts
                engine.move(kind, site)
                plain.restart_s()
            moved, restarted = [], []
            for number in range(ROUNDS):
                time.sleep(1.0)
                moved.append(engine.move(kind, "ab"[number % 2]).pause_s)
                time.sleep(1.0)
                restarted.append(plain.restart_s())
            plain.close()
            print(line(f"{name}: move", moved))
            print(line(f"{name}: Spark's stop and restart", restarted))
            ratio = statistics.median(moved) / statistics.median(restarted)
            print(f"  {name}: ratio of medians {ratio:.2f}; {load()}", flush=True)


def stores() -> None:
    print(f"{KEYS} keys of state, heap 1.5 GB; {load()}")
    for name, configuration in STORES.items():
        with running(configuration, heap_mb=1500) as engine:
            folder = engine.layout.project.folder / "input"
            engine.start("counted", "a")
            for part in range(10):
                write_rows(folder, f"k{part}", range(part * KEYS // 10, (part + 1) * KEYS // 10))

            def full(engine: SparkEngine = engine) -> bool:
                engine.snapshot()
                seen = engine.meters["counted"].batches
                return bool(seen) and seen[-1].state_rows >= KEYS

            wait_until(engine, full)
            with steady_input(folder):
                time.sleep(3)
                engine.move("counted", "b")
                engine.move("counted", "a")
                reports = []
                for number in range(4):
                    time.sleep(2)
                    reports.append(engine.move("counted", "ba"[number % 2]))
            size_mb = (reports[-1].state_bytes or 0) / 1e6
            print(
                line(f"{name} ({size_mb:.0f} MB)", [r.pause_s for r in reports]) + f"; {load()}", flush=True
            )


def per_batch() -> None:
    print(f"CPU of the site per micro-batch of a windowed fragment with 20 keys, {BATCHES} batches; {load()}")
    for name, configuration in [*STORES.items(), *STORES.items()]:
        with running(configuration) as engine, steady_input(engine.layout.project.folder / "input"):
            engine.start("counted", "a")
            wait_until(engine, lambda: batches(engine, "counted") >= 15)
            site, first = engine.sites["a"], batches(engine, "counted")
            before = site.usage()
            wait_until(engine, lambda: batches(engine, "counted") >= first + BATCHES)  # noqa: B023
            after, done = site.usage(), batches(engine, "counted") - first
            assert before is not None
            assert after is not None
            print(f"  {name:24} {(after.cpu_s - before.cpu_s) / done:.3f} CPU s; {load()}", flush=True)


PARTS = {"pauses": pauses, "stores": stores, "batches": per_batch}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
