"""Does Mooring cost throughput? The demo's pipeline on one site, by Mooring and as plain streaming queries.

    python -m benchmarks.spark_throughput [SECONDS] [ROUNDS]

Both sides have the same ten fragments, the same site settings, trigger and batch limits, and drain the same
backlog; the plain side is written by hand with Spark's own file sink and source. Rounds alternate. Compared
are the rows that all fragments read in the measured time, by the clock and per CPU second of the site and of
this process.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mooring.spark.embedded_site import EmbeddedSite
from mooring.spark.endpoint import close_session, open_session
from mooring.spark.java import find_java
from mooring.spark.meters import FragmentMeter
from mooring.spark.project import load_project
from mooring.spark.project_run import prepared_run
from mooring.spark.run_report import RunRecord
from mooring.spark.watching import watch

EXAMPLE = Path(__file__).parent.parent / "examples" / "network_monitoring"
sys.path.insert(0, str(EXAMPLE))

from feed import Feeder  # noqa: E402
from truth import SITES, Traffic, demo_traffic  # noqa: E402

TRIGGER_S = 1.0
COPIES = 40
WARM_UP_S = 20.0
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
trigger_s: 1
"""


def make_backlog(folder: Path) -> None:
    """The trace again and again, each time ten minutes later: an hours-long backlog."""
    base = demo_traffic()
    for copy in range(COPIES):
        shifted = Traffic(
            base.at_us + copy * 600_000_000, base.source, base.destination, base.size_bytes, base.part
        )
        feeder = Feeder(shifted, folder / "landing", speed=float("inf"))
        for number, chosen in enumerate(np.array_split(np.arange(shifted.at_us.size), 4)):
            inside = np.zeros(shifted.at_us.size, dtype=bool)
            inside[chosen] = True
            for part in range(len(SITES)):
                feeder._write(part, f"{copy:03d}-{number}", shifted.of(inside & (shifted.part == part)))


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
            "rows_per_s": rows / seconds,
            "rows_per_cpu_s": rows / (site + own),
            "site_cores": site / seconds,
            "own_cores": own / seconds,
        }


def by_mooring(folder: Path, seconds: float) -> dict[str, float]:
    (folder / "mooring.yml").write_text(SETTINGS)
    with prepared_run(load_project(folder), fresh=True) as run, run.engine() as engine:
        placement = {operator.name: "one" for operator in run.problem.operators}
        run.deploy(engine, placement)
        record = RunRecord("bench", "none", placement, [], {}, {})
        embedded = run.sites["one"].embedded
        assert embedded is not None
        watch(engine, record, run.files, over=lambda passed: passed >= WARM_UP_S, show=lambda s: None)
        before, cpu, began = sum(m.rows_in for m in engine.meters.values()), Cpu(embedded), time.monotonic()
        watch(engine, record, run.files, over=lambda passed: passed >= seconds, show=lambda s: None)
        engine.snapshot()
        rows = sum(m.rows_in for m in engine.meters.values()) - before
        return cpu.used(rows, time.monotonic() - began)


def by_hand(folder: Path, seconds: float) -> dict[str, float]:
    site = EmbeddedSite("hand", folder / "hand", find_java(), capacity=2)
    site.start()
    try:
        session = open_session(site.wait_ready())
        session.conf.set("spark.sql.streaming.numRecentProgressUpdates", "100")
        queries = {
            name: plain_query(session, folder, name, frame) for name, frame in plain_flows(session, folder)
        }
        meters = {name: FragmentMeter() for name in queries}
        poll(queries, meters, WARM_UP_S)
        before, cpu, began = sum(m.rows_in for m in meters.values()), Cpu(site), time.monotonic()
        poll(queries, meters, seconds)
        rows = sum(m.rows_in for m in meters.values()) - before
        result = cpu.used(rows, time.monotonic() - began)
        for query in queries.values():
            query.stop()
        close_session(session)
        return result
    finally:
        site.stop()
        shutil.rmtree(folder / "hand-data", ignore_errors=True)


def poll(queries, meters: dict[str, FragmentMeter], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(5.0)
        for name, query in queries.items():
            meters[name].take([json.loads(report.json) for report in query.recentProgress])


def plain_query(session: SparkSession, folder: Path, name: str, frame: DataFrame):
    return (
        frame.writeStream.format("parquet")
        .option("path", str(folder / "hand-data" / name))
        .option("checkpointLocation", str(folder / "hand-data" / f"{name}-checkpoint"))
        .trigger(processingTime=f"{TRIGGER_S:g} seconds")
        .start()
    )


def plain_flows(session: SparkSession, folder: Path):
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

    def counted(frame: DataFrame, window, *keys: str) -> DataFrame:
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


def main(seconds: float = 60.0, rounds: int = 2) -> None:
    root = Path(tempfile.mkdtemp(prefix="mooring-throughput-"))
    folder = root / "project"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", ".mooring", "landing"))
    try:
        make_backlog(folder)
        results: dict[str, list[dict[str, float]]] = {"hand": [], "mooring": []}
        for _ in range(rounds):
            for side, run in (("mooring", by_mooring), ("hand", by_hand)):
                results[side].append(run(folder, seconds))
                print(side, json.dumps(results[side][-1]), flush=True)
        for measure in ("rows_per_s", "rows_per_cpu_s"):
            means = {side: sum(r[measure] for r in found) / len(found) for side, found in results.items()}
            print(f"{measure}: mooring / by hand = {means['mooring'] / means['hand']:.3f}")
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main(*(kind(word) for kind, word in zip((float, int), sys.argv[1:], strict=False)))
