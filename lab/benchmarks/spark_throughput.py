"""Does Mooring cost throughput? The demo's pipeline on one site, by Mooring and as plain streaming queries.

    python -m lab.benchmarks spark_throughput[:ROUNDS,COPIES,together]

Both sides have the same ten fragments, site settings, trigger and batch limits; the plain side is written by
hand with Spark's own file sink and source. Each runs until it has drained a first small load, so that it is
warm; then a backlog of more than a minute lands, and what counts is how fast it is drained: by the clock, and
per CPU second of the site and of this process. The side that goes first alternates from round to round.

On a machine that others keep busy, two drains one after the other meet different company. With `together`
both sides drain at once, each its own copy, so that they meet the same; on an otherwise idle machine this
would flatter the slower side, which has the machine for itself in the end.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from lab.benchmarks._record import Measurement, carry_out, prose_of
from mooring.cli.output.result_table import ResultTable, Value
from mooring.contracts.engine import LOOK_S
from mooring.controller.initial_placement import Wish
from mooring.controller.session import SessionOptions
from mooring.spark.engine.meters import FragmentMeter
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs.project_run import prepared_run
from mooring.spark.runs.spark_run import SparkRun
from mooring.spark.sites.embedded_site import EmbeddedSite
from mooring.spark.sites.endpoint import close_session, open_session
from mooring.spark.sites.java import find_java

EXAMPLE = Path(__file__).parents[2] / "examples" / "network_monitoring"
sys.path.insert(0, str(EXAMPLE))

from feed import Feeder  # noqa: E402
from truth import SITES, Traffic, demo_traffic  # noqa: E402

DEFAULT_SIZES = (3, 48)
"""Rounds, and copies of the trace."""
TRIGGER_S = 1.0
SCHEMA = "at TIMESTAMP, source INT, destination INT, size_bytes INT"
COUNTED = "since TIMESTAMP, source INT, packets BIGINT, bytes BIGINT, mean_bytes DOUBLE"
SETTINGS = """\
sites: {one: {capacity: 2}}
streams:
  packets_berlin: {site: one, rate: 10000}
  packets_oslo: {site: one, rate: 10000}
  packets_porto: {site: one, rate: 10000}
queries:
  source_seconds: {site: one}
  busy_sources: {site: one}
  pair_seconds: {site: one}
  source_sliding: {site: one}
  source_minutes: {site: one}
  pair_minutes: {site: one}
  totals: {site: one}
tables:
  packets_berlin: {keep: read}
  packets_oslo: {keep: read}
  packets_porto: {keep: read}
trigger_s: 1
"""


@dataclass(frozen=True)
class Backlog:
    copies: int
    """Of the ten minutes of trace; 20 were drained in 51 s by half of two cores."""
    packets: dict[str, int]
    """Per sub-stream."""

    @property
    def rows_measured(self) -> int:
        """Rows that the fragments read together after the first copy, which only warms up."""
        return round(sum(reads(self.packets).values()) * (1 - 1 / self.copies))


def make_backlog(folder: Path, copies: int) -> Backlog:
    """The trace again and again, each time ten minutes later."""
    base = demo_traffic()
    for copy in range(copies):
        shifted = Traffic(
            base.at_us + copy * 600_000_000, base.source, base.destination, base.size_bytes, base.part
        )
        feeder = Feeder(shifted, folder / "backlog", speed=float("inf"))
        for number, chosen in enumerate(np.array_split(np.arange(shifted.at_us.size), 4)):
            inside = np.zeros(shifted.at_us.size, dtype=bool)
            inside[chosen] = True
            for part in range(len(SITES)):
                feeder._write(part, f"{copy:03d}-{number}", shifted.of(inside & (shifted.part == part)))
    packets = {site: copies * int((base.part == part).sum()) for part, site in enumerate(SITES)}
    return Backlog(copies, packets)


def drain_together(folder: Path, backlog: Backlog) -> dict[str, dict[str, float]]:
    """Both at once, from the same instant on; CPU of this process cannot be told apart and counts twice."""
    beside, barrier = folder.with_name("beside"), threading.Barrier(2)
    shutil.copytree(folder, beside, copy_function=os.link)
    try:
        with ThreadPoolExecutor(1) as pool:
            hand = pool.submit(by_hand, beside, backlog, barrier.wait)
            mooring = by_mooring(folder, backlog, barrier.wait)
            return {"hand": hand.result(), "mooring": mooring}
    finally:
        shutil.rmtree(beside)


def drain_in_turn(folder: Path, backlog: Backlog, *, hand_first: bool) -> dict[str, dict[str, float]]:
    found = {}
    sides = [("hand", by_hand), ("mooring", by_mooring)]
    for side, run in sides if hand_first else sides[::-1]:
        found[side] = run(folder, backlog)
        shutil.rmtree(folder / "landing")
    return found


def land(folder: Path, first: int, last: int) -> None:
    """Let some copies of the backlog land; links, so that every round has them."""
    for site in SITES:
        (folder / "landing" / site).mkdir(parents=True, exist_ok=True)
        for file in sorted((folder / "backlog" / site).iterdir()):
            if first <= int(file.name[:3]) < last:
                os.link(file, folder / "landing" / site / file.name)


def reads(packets: dict[str, int]) -> dict[str, int]:
    """Rows each fragment has to read; busy_sources reads what windows give, so it is not counted."""
    whole = sum(packets.values())
    return {
        **{f"packets_{site}": count for site, count in packets.items()},
        "source_seconds": packets["berlin"],
        "pair_seconds": packets["oslo"],
        "source_sliding": packets["porto"],
        **dict.fromkeys(("source_minutes", "pair_minutes", "totals"), whole),
    }


def drained(meters: Mapping[str, FragmentMeter], share: float, backlog: Backlog) -> bool:
    return all(meters[name].rows_in >= share * rows for name, rows in reads(backlog.packets).items())


def drained_s(meters: Mapping[str, FragmentMeter]) -> float:
    """When the last batch with rows ended, in seconds since 1970: finer than the looks that learn of it."""
    return max(batch.end_s for meter in meters.values() for batch in meter.batches if batch.rows_in > 0)


class Cpu:
    """CPU seconds of a site's process tree and of this process."""

    def __init__(self, site: EmbeddedSite) -> None:
        self._site = site
        self._start = self._now()

    def _now(self) -> tuple[float, float]:
        usage, own = self._site.usage(), os.times()
        assert usage is not None
        return usage.cpu_s, own.user + own.system

    def used(self, rows: int, seconds: float) -> dict[str, float]:
        site, own = (now - start for now, start in zip(self._now(), self._start, strict=True))
        return {
            "seconds": seconds,
            "load_average": os.getloadavg()[0],
            "rows_per_s": rows / seconds,
            "rows_per_cpu_s": rows / (site + own),
            "rows_per_site_cpu_s": rows / site,
            "site_cores": site / seconds,
            "own_cores": own / seconds,
        }


def by_mooring(
    folder: Path, backlog: Backlog, ready: Callable[[], object] = lambda: None
) -> dict[str, float]:
    (folder / "mooring.yml").write_text(SETTINGS)
    land(folder, 0, 1)
    with (
        prepared_run(load_project(folder), fresh=True) as prepared,
        SparkRun(prepared, Wish("rod")).started(pace=SessionOptions(look_s=LOOK_S)) as (session, book),
    ):
        meters = book.engine.progress.meters
        embedded = prepared.sites["one"].embedded
        assert embedded is not None

        def until(share: float) -> None:
            session.run(lambda passed: bool(meters) and drained(meters, share, backlog))
            book.engine.check()

        until(1 / backlog.copies)
        ready()
        cpu, began = Cpu(embedded), time.time()
        land(folder, 1, backlog.copies)
        until(1.0)
        return cpu.used(backlog.rows_measured, drained_s(meters) - began)


def by_hand(folder: Path, backlog: Backlog, ready: Callable[[], object] = lambda: None) -> dict[str, float]:
    site = EmbeddedSite("hand", folder / "hand", find_java(), capacity=2)
    site.start()
    try:
        session = open_session(site.wait_ready())
        session.conf.set("spark.sql.streaming.numRecentProgressUpdates", "100")
        land(folder, 0, 1)
        queries = {
            name: plain_query(session, folder, name, frame) for name, frame in plain_flows(session, folder)
        }
        meters = {name: FragmentMeter() for name in queries}

        def until(share: float) -> None:
            while not drained(meters, share, backlog):
                time.sleep(LOOK_S)
                for name, query in queries.items():
                    meters[name].take([json.loads(report.json) for report in query.recentProgress])

        until(1 / backlog.copies)
        ready()
        cpu, began = Cpu(site), time.time()
        land(folder, 1, backlog.copies)
        until(1.0)
        result = cpu.used(backlog.rows_measured, drained_s(meters) - began)
        for query in queries.values():
            query.stop()
        close_session(session)
        return result
    finally:
        site.stop()
        shutil.rmtree(folder / "hand-data", ignore_errors=True)


def plain_query(session: SparkSession, folder: Path, name: str, frame: DataFrame) -> StreamingQuery:
    return (
        frame.writeStream.format("parquet")
        .option("path", str(folder / "hand-data" / name))
        .option("checkpointLocation", str(folder / "hand-data" / f"{name}-checkpoint"))
        .trigger(processingTime=f"{TRIGGER_S:g} seconds")
        .start()
    )


def plain_flows(session: SparkSession, folder: Path) -> Iterator[tuple[str, DataFrame]]:
    """The demo's flows as anybody would write them without Mooring, each from files to files."""
    data = folder / "hand-data"

    def written(name: str, schema: str) -> DataFrame:
        (data / name).mkdir(parents=True, exist_ok=True)
        return session.readStream.schema(schema).option("maxFilesPerTrigger", 200).parquet(str(data / name))

    def timed(*parts: str) -> DataFrame:
        frames = [written(f"packets_{part}", SCHEMA).withWatermark("at", "5 seconds") for part in parts]
        whole = frames[0]
        for frame in frames[1:]:
            whole = whole.union(frame)
        return whole

    def counted(frame: DataFrame, window: Column, *keys: str) -> DataFrame:
        sums = frame.groupBy(window.alias("span"), *keys).agg(
            F.count("*").alias("packets"), F.sum("size_bytes").alias("bytes")
        )
        mean = (F.col("bytes") / F.col("packets")).alias("mean_bytes")
        return sums.select(F.col("span.start").alias("since"), *keys, "packets", "bytes", mean)

    for part in SITES:
        landed = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 30)
        yield f"packets_{part}", landed.parquet(str(folder / "landing" / part))
    second, minute = F.window("at", "1 second"), F.window("at", "1 minute")
    yield "source_seconds", counted(timed("berlin"), second, "source")
    yield "busy_sources", written("source_seconds", COUNTED).filter("packets >= 20")
    yield "pair_seconds", counted(timed("oslo"), second, "source", "destination")
    yield "source_sliding", counted(timed("porto"), F.window("at", "60 seconds", "10 seconds"), "source")
    yield "source_minutes", counted(timed(*SITES), minute, "source")
    yield "pair_minutes", counted(timed(*SITES), minute, "source", "destination")
    yield "totals", counted(timed(*SITES), second)


def measure(words: Sequence[str]) -> Iterator[ResultTable]:
    together = "together" in words
    sizes = [int(word) for word in words if word != "together"]
    rounds, copies = [*sizes, *DEFAULT_SIZES[len(sizes) :]]
    root = Path(tempfile.mkdtemp(prefix="mooring-throughput-"))
    folder = root / "project"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", ".mooring", "landing"))
    results: dict[str, list[dict[str, float]]] = {"hand": [], "mooring": []}
    try:
        backlog = make_backlog(folder, copies)
        for number in range(rounds):
            if together:
                found = drain_together(folder, backlog)
                shutil.rmtree(folder / "landing")
            else:
                found = drain_in_turn(folder, backlog, hand_first=number % 2 == 0)
            for side, result in found.items():
                results[side].append(result)
                print(side, json.dumps(result), file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(root)
    yield ResultTable.of(
        f"{copies} copies of the trace drained, {'both at once' if together else 'one after the other'}",
        [{"by": side, "round": n, **row} for side, own in results.items() for n, row in enumerate(own)],
    )
    yield ratio_table(results)


def ratio_table(results: dict[str, list[dict[str, float]]]) -> ResultTable:
    """Mooring over by hand: of the medians, and round by round."""
    rows: list[dict[str, Value]] = []
    for what in ("rows_per_s", "rows_per_cpu_s", "rows_per_site_cpu_s"):
        middle = {side: statistics.median(row[what] for row in own) for side, own in results.items()}
        pairs = [m[what] / h[what] for m, h in zip(results["mooring"], results["hand"], strict=True)]
        rows.append(
            {
                "what": what.replace("_", " "),
                "mooring_to_by_hand": middle["mooring"] / middle["hand"],
                "by_round": ", ".join(f"{pair:.2f}" for pair in pairs),
            }
        )
    return ResultTable.of("Ratio of the medians, and of each round", rows)


SPARK_THROUGHPUT = Measurement(
    "spark_throughput",
    "Does Mooring cost throughput? One site, by Mooring and as plain streaming queries",
    prose_of(__doc__),
    measure,
)

if __name__ == "__main__":
    carry_out(SPARK_THROUGHPUT, sys.argv[1:])
