"""How long a fragment stands still when it moves, beside Spark's own stop-and-restart; and which store moves
a large state quickest.

    python -m lab.benchmarks spark_moves[:pauses,stores,batches]

`pauses`: a stateless or a windowed fragment moved between two sites under steady input, and in turn the same
query, written by hand, stopped and started again where it is. A move counts from the fence until the first
new commit, the restart from the request to stop (`moving.halt`, `moving.first_batch`). The sites are held to
a CPU quota of 1 and of 0.35 cores; loaded, each also runs two windowed queries of somebody else. What both
read comes over a channel that a third site fills. The first move of each is counted by itself: its target
has run nothing of the kind before.
`stores`: the same with 10^6 keys of state, per state store. `batches`: CPU of the site per micro-batch, per
store, with little state.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow
import pyarrow.parquet
from pyspark.sql import functions as F

from lab.benchmarks._adapting_run import weigh_more
from lab.benchmarks._machine import load_average
from lab.benchmarks._record import Measurement, carry_out, chosen_parts, prose_of
from mooring.cli.output.result_table import ResultTable, Value
from mooring.spark.engine.engine import SparkEngine
from mooring.spark.engine.moving import first_batch, halt
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs.project_run import read_layout
from mooring.spark.sites.embedded_site import EmbeddedOptions, EmbeddedSite
from mooring.spark.sites.endpoint import close_session, open_session
from mooring.spark.sites.java import find_java
from mooring.spark.sites.sites import SiteHandle, SiteHandles

ROUNDS = 6
QUOTAS_CORES = (1.0, 0.35)
NEIGHBOURS = 2
"""Windowed queries of somebody else at each of two loaded sites."""
KEYS = 1_000_000
BATCHES = 40
TRIGGER_S = 2.0
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
sites: {{a: {{capacity: 1}}, b: {{capacity: 1}}, c: {{capacity: 1}}}}
streams: {{rows: {{site: c, rate: 100}}}}
trigger_s: {TRIGGER_S}
"""
CODE = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

@dp.table
def rows():
    return spark.readStream.schema("n long, at timestamp").parquet("{folder}/input")

@dp.table
def passed():
    return spark.readStream.table("rows").filter("n % 2 = 0")

@dp.table
def counted():
    rows = spark.readStream.table("rows").withWatermark("at", "1 hour")
    windows = rows.groupBy(F.window("at", "1 minute"), "n")
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
def running(
    configuration: dict[str, str], heap_mb: int = 512, *, durable: bool = True, quota_cores: float = 1.0
) -> Iterator[SparkEngine]:
    with tempfile.TemporaryDirectory(prefix="mooring-moves-") as name:
        folder = Path(name)
        for part in ("transformations", "input"):
            (folder / part).mkdir()
        spec = SPEC.format(folder=folder, configuration=json.dumps(configuration))
        (folder / "spark-pipeline.yml").write_text(spec)
        (folder / "mooring.yml").write_text(SETTINGS)
        (folder / "transformations" / "code.py").write_text(CODE.format(folder=folder))
        options, java = EmbeddedOptions(heap_mb=heap_mb, durable=durable), find_java()
        capacities = {"a": quota_cores, "b": quota_cores, "c": 1.0}
        servers = [
            EmbeddedSite(name, folder / name, java, capacity=cores, options=options)
            for name, cores in capacities.items()
        ]
        try:
            for server in servers:
                server.start()
            sites = SiteHandles(SiteHandle(s.name, capacities[s.name], s.wait_ready(), s) for s in servers)
            engine = SparkEngine(read_layout(load_project(folder), sites["c"]), sites, {})
            engine.start("rows", "c")
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
    return engine.progress.meters[fragment].count


class PlainQuery:
    """The same query by hand, with a checkpoint and an output of its own, at one site."""

    def __init__(self, engine: SparkEngine, kind: str, site: str, name: str = "plain") -> None:
        self._session = open_session(engine.sites[site].endpoint)
        source = self._session.readStream.schema("n long, at timestamp")
        frame = source.parquet(engine.layout.address(engine.layout.channels["rows"].link))
        if kind == "passed":
            frame = frame.filter("n % 2 = 0")
        else:
            windows = frame.withWatermark("at", "1 hour").groupBy(F.window("at", "1 minute"), "n")
            frame = windows.agg(F.count("*").alias("rows"))
        folder = engine.layout.root / "plain" / f"{name}-{site}"
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


def pause_row(what: str, pauses_s: Sequence[float]) -> dict[str, Value]:
    return {
        "fragment": what,
        "median_s": statistics.median(pauses_s),
        "shortest_s": min(pauses_s),
        "longest_s": max(pauses_s),
        "times": len(pauses_s),
        "load_average": load_average(),
    }


def pauses() -> ResultTable:
    rows: list[dict[str, Value]] = []
    for quota_cores in QUOTAS_CORES:
        for loaded in (False, True):
            for kind, name in (("counted", "windowed"), ("passed", "stateless")):
                what = f"{name}, quota {quota_cores:g}{', loaded' if loaded else ''}"
                rows += paused(kind, what, quota_cores, loaded=loaded)
                print(*rows[-3:], sep="\n", file=sys.stderr, flush=True)
    return ResultTable.of("Pause of a move, and of Spark's own restart, in turn", rows)


def paused(kind: str, what: str, quota_cores: float, *, loaded: bool) -> list[dict[str, Value]]:
    with (
        running({}, quota_cores=quota_cores) as engine,
        steady_input(engine.layout.project.folder / "input"),
    ):
        wait_until(engine, lambda: batches(engine, "rows") >= 2)
        engine.start(kind, "a")
        plain = PlainQuery(engine, kind, "a")
        others = [
            PlainQuery(engine, "counted", site, f"other{number}")
            for site in ("ab" if loaded else "")
            for number in range(NEIGHBOURS)
        ]
        wait_until(engine, lambda: batches(engine, kind) >= 5)
        engine.settled()
        for server in (engine.sites[site].embedded for site in "abc"):
            if server is not None and server._server_pid is not None:
                weigh_more(server.name, server._server_pid)
        time.sleep(3 * TRIGGER_S)
        first = [engine.move(kind, "b").pause_s]
        moved, restarted = list[float](), list[float]()
        for number in range(ROUNDS + 1):
            time.sleep(1.5 * TRIGGER_S)
            restarted.append(plain.restart_s())
            time.sleep(1.5 * TRIGGER_S)
            moved.append(engine.move(kind, "ab"[number % 2]).pause_s)
            engine.snapshot()
        for query in (plain, *others):
            query.close()
    middle = statistics.median(restarted[1:])
    return [
        {**pause_row(f"{what}: first move", first), "to_the_restart": first[0] / middle},
        {**pause_row(f"{what}: moved", moved[1:]), "to_the_restart": statistics.median(moved[1:]) / middle},
        pause_row(f"{what}: Spark's own stop and restart", restarted[1:]),
    ]


def stores() -> ResultTable:
    rows: list[dict[str, Value]] = []
    for name, configuration in STORES.items():
        with running(configuration, heap_mb=1500) as engine:
            folder = engine.layout.project.folder / "input"
            engine.start("counted", "a")
            for part in range(10):
                write_rows(folder, f"k{part}", range(part * KEYS // 10, (part + 1) * KEYS // 10))

            def full(engine: SparkEngine = engine) -> bool:
                engine.snapshot()
                seen = engine.progress.meters["counted"].batches
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
            rows.append({**pause_row(name, [r.pause_s for r in reports]), "state_MB": round(size_mb)})
    return ResultTable.of(f"Pause with {KEYS:,} keys of state, heap 1.5 GB, per state store", rows)


def per_batch() -> ResultTable:
    rows: list[dict[str, Value]] = []
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
            rows.append(
                {
                    "store": name,
                    "CPU_s_per_batch": (after.cpu_s - before.cpu_s) / done,
                    "load_average": load_average(),
                }
            )
    return ResultTable.of(f"A windowed fragment with 20 keys, {BATCHES} batches, every store twice", rows)


PARTS: dict[str, Callable[[], ResultTable]] = {"pauses": pauses, "stores": stores, "batches": per_batch}


def measure(words: Sequence[str]) -> Iterator[ResultTable]:
    for part in chosen_parts(words, PARTS):
        yield PARTS[part]()


SPARK_MOVES = Measurement(
    "spark_moves",
    "How long a fragment stands still when it moves, beside Spark's own restart",
    prose_of(__doc__),
    measure,
)

if __name__ == "__main__":
    carry_out(SPARK_MOVES, sys.argv[1:])
