"""What it costs to survive power cuts: the same work with every file synced and without, in turn.

    python -m lab.benchmarks spark_durability[:disk,batches,throughput,moves]

`disk`: how long this disk takes to sync a small new file, its folder after a rename, and again.
`batches`: a stateless and a windowed query over steady input at a trigger of 1 s, at a durable site and at
one with `durability: fast`, both up all the time; each runs for some batches, then the other. Time of a batch
as Spark reports it; CPU of the site's processes; syncs, the time spent in them, and the time that anything
waited for them, as the class counts them.
`throughput`: a backlog of files read and written, in turn. `moves`: a fragment moved to and fro between two
warm sites, in turn; the pause from the request to stop until the first new commit.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from lab.benchmarks._machine import load_average
from lab.benchmarks._record import Measurement, carry_out, chosen_parts, prose_of
from lab.benchmarks.spark_moves import batches as batches_of
from lab.benchmarks.spark_moves import running, steady_input, wait_until, write_rows
from mooring.cli.output.result_table import ResultTable, Value
from mooring.spark.engine.engine import SparkEngine
from mooring.spark.sites.embedded_site import EmbeddedOptions, EmbeddedSite
from mooring.spark.sites.endpoint import close_session, open_session
from mooring.spark.sites.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ROUNDS, BATCHES = 6, 10
SYNCS = 200
FILES, ROWS = 60, 20_000
MOVES = 6
COUNTED = ("synced", "syncedNs", "waitedNs")
WAYS = {"durable": True, "fast": False}


class Site:
    """One embedded site, with a session and queries of its own."""

    def __init__(self, name: str, folder: Path, *, durable: bool) -> None:
        self.folder = folder / name
        self.folder.mkdir()
        self.server = EmbeddedSite(
            name, self.folder / "site", find_java(), capacity=2, options=EmbeddedOptions(durable=durable)
        )
        self.server.start()

    def open(self) -> None:
        self.session: SparkSession = open_session(self.server.wait_ready())

    def close(self) -> None:
        close_session(self.session)
        self.server.stop()

    def start(self, kind: str, source: Path, **trigger: Any) -> StreamingQuery:
        frame = self.session.readStream.schema("n long, at timestamp").option("maxFilesPerTrigger", 4)
        rows = frame.parquet(str(source))
        if kind == "windowed":
            windows = rows.withWatermark("at", "1 hour").groupBy(F.window("at", "1 minute"), "n")
            rows = windows.agg(F.count("*").alias("rows"))
        writer = rows.writeStream.format("parquet").option("path", str(self.folder / kind / source.name))
        checkpoint = str(self.folder / f"{kind}-{source.name}-checkpoint")
        return writer.option("checkpointLocation", checkpoint).trigger(**trigger).start()

    def counted(self) -> tuple[float, int, float, float]:
        """CPU seconds, syncs, milliseconds in them and in waiting for them so far."""
        usage = self.server.usage()
        assert usage is not None
        asked = ", ".join(f"reflect('mooring.LocalFiles', '{name}')" for name in COUNTED)
        ((count, took_ns, waited_ns),) = self.session.sql(f"SELECT {asked}").collect()
        return usage.cpu_s, int(count), int(took_ns) / 1e6, int(waited_ns) / 1e6


@contextmanager
def both_sites(folder: Path) -> Iterator[dict[str, Site]]:
    with ExitStack() as stack:
        sites = {name: Site(name, folder, durable=durable) for name, durable in WAYS.items()}
        for site in sites.values():
            stack.callback(site.close)
            site.open()
        yield sites


def disk(folder: Path) -> Iterator[ResultTable]:
    taken: dict[str, list[float]] = {"a new file": [], "its folder, after a rename": [], "again": []}
    handle = os.open(folder, os.O_RDONLY)
    for number in range(SYNCS):
        hidden = folder / f".{number}"
        file = os.open(hidden, os.O_CREAT | os.O_WRONLY)
        os.write(file, bytes(300))
        for what, sync in zip(taken, (file, handle, handle), strict=True):
            if what == "its folder, after a rename":
                hidden.rename(folder / str(number))
            began = time.perf_counter()
            os.fsync(sync)
            taken[what].append(1e3 * (time.perf_counter() - began))
        os.close(file)
    os.close(handle)
    rows: list[dict[str, Value]] = [
        {"synced": what, "p50_ms": statistics.median(each), "p99_ms": statistics.quantiles(each, n=100)[98]}
        for what, each in taken.items()
    ]
    yield ResultTable.of(f"Latency of {SYNCS} syncs on this disk", rows)


def batches(folder: Path) -> Iterator[ResultTable | str]:
    source = folder / "steady"
    source.mkdir()
    rows: list[dict[str, Value]] = []
    with both_sites(folder) as sites, steady_input(source):
        for kind in ("stateless", "windowed"):
            found: dict[str, list[tuple[float, ...]]] = {name: [] for name in WAYS}
            for number in range(ROUNDS + 1):
                for name in WAYS if number % 2 else reversed(WAYS):
                    measured = some_batches(sites[name], kind, source)
                    if number:  # the first one loads and compiles
                        found[name] += measured
            for name, measured in found.items():
                rows.append({"query": kind, "durability": name, **row_of(measured)})
            ratio = float(str(rows[-2]["time_ms"])) / float(str(rows[-1]["time_ms"]))
            rows[-2]["time_to_fast"] = ratio
    yield ResultTable.of(f"Per batch at a trigger of 1 s, {ROUNDS} rounds of {BATCHES} batches each", rows)


def row_of(measured: Sequence[tuple[float, ...]]) -> dict[str, Value]:
    """Medians; the sums over a round's batches are means already."""
    times, cpus, syncs, syncing, waiting = zip(*measured, strict=True)
    return {
        "time_ms": statistics.median(times),
        "mean_time_ms": statistics.mean(times),
        "CPU_ms": statistics.median(cpus),
        "syncs": statistics.median(syncs),
        "ms_in_syncs": statistics.median(syncing),
        "ms_waited": statistics.median(waiting),
        "load_average": load_average(),
    }


def some_batches(site: Site, kind: str, source: Path) -> list[tuple[float, ...]]:
    """Time of each batch in ms, with the means of its round: CPU ms, syncs, ms in them, ms waited."""
    query = site.start(kind, source, processingTime="1 second")
    try:
        first = wait_for(query, 3)
        before = site.counted()
        last = wait_for(query, first + BATCHES)
        after = site.counted()
        done = {
            each["batchId"]: each["durationMs"]["triggerExecution"]
            for each in query.recentProgress
            if first < each["batchId"] <= last and each.numInputRows
        }
    finally:
        query.stop()
    cpu_s, *syncs = ((now - then) / max(1, len(done)) for now, then in zip(after, before, strict=True))
    return [(float(took), 1e3 * cpu_s, *syncs) for took in done.values()]


def wait_for(query: StreamingQuery, count: int, patience_s: float = 300.0) -> int:
    """Until so many batches more were reported since it started, or up to that batch; its number."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        seen = [each["batchId"] for each in query.recentProgress if each.numInputRows]
        if seen and (seen[-1] >= count if count > 3 else len(seen) >= count):
            return int(seen[-1])
        if (failure := query.exception()) is not None:
            raise failure
        time.sleep(0.2)
    raise TimeoutError(f"no {count} batches within {patience_s:g} s: {query.lastProgress}")


def throughput(folder: Path) -> Iterator[ResultTable]:
    source = folder / "backlog"
    source.mkdir()
    for number in range(FILES):
        write_rows(source, f"{number:04d}", range(ROWS))
    found: dict[str, list[float]] = {name: [] for name in WAYS}
    with both_sites(folder) as sites:
        for number in range(ROUNDS + 1):
            for name in WAYS if number % 2 else reversed(WAYS):
                shutil.rmtree(sites[name].folder / "stateless-backlog-checkpoint", ignore_errors=True)
                shutil.rmtree(sites[name].folder / "stateless", ignore_errors=True)
                began = time.monotonic()
                sites[name].start("stateless", source, availableNow=True).awaitTermination(300)
                if number:
                    found[name].append(FILES * ROWS / (time.monotonic() - began))
    rows: list[dict[str, Value]] = [
        {"durability": name, "rows_per_s": statistics.median(each), "least": min(each), "most": max(each)}
        for name, each in found.items()
    ]
    yield ResultTable.of(f"{FILES * ROWS:,} rows in {FILES // 4} batches, {ROUNDS} times", rows)


def moves(folder: Path) -> Iterator[ResultTable]:
    rows: list[dict[str, Value]] = []
    for kind in ("passed", "counted"):
        with ExitStack() as stack:
            engines: dict[str, SparkEngine] = {}
            for name, durable in WAYS.items():
                engine = stack.enter_context(running({}, durable=durable))
                stack.enter_context(steady_input(engine.layout.project.folder / "input"))
                engine.start(kind, "a")
                engines[name] = engine
            paused: dict[str, list[float]] = {name: [] for name in WAYS}
            for engine in engines.values():
                wait_until(engine, lambda: batches_of(engine, kind) >= 3)  # noqa: B023
                for site in "baba":
                    engine.move(kind, site)
            for number in range(MOVES):
                for name in WAYS if number % 2 else reversed(WAYS):
                    time.sleep(1.0)
                    paused[name].append(engines[name].move(kind, "ba"[number % 2]).pause_s)
        what = "stateless" if kind == "passed" else "windowed"
        rows += [
            {
                "fragment": what,
                "durability": name,
                "median_pause_s": statistics.median(each),
                "shortest_s": min(each),
                "longest_s": max(each),
            }
            for name, each in paused.items()
        ]
    yield ResultTable.of(f"Pause of a move to a warm site, {MOVES} moves each", rows)


PARTS: dict[str, Callable[[Path], Iterator[ResultTable | str]]] = {
    "disk": disk,
    "batches": batches,
    "throughput": throughput,
    "moves": moves,
}


def measure(words: Sequence[str]) -> Iterator[ResultTable | str]:
    if os.sched_getscheduler(0) != os.SCHED_OTHER:
        yield "At real-time priority: what else runs on the machine does not lengthen waits for a core."
    for part in chosen_parts(words, PARTS):
        with tempfile.TemporaryDirectory(prefix="mooring-durability-") as folder:
            yield from PARTS[part](Path(folder))


SPARK_DURABILITY = Measurement(
    "spark_durability", "What it costs to survive power cuts", prose_of(__doc__), measure
)

if __name__ == "__main__":
    carry_out(SPARK_DURABILITY, sys.argv[1:])
