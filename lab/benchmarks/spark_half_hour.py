"""Does a run grow? The demo's pipeline for half an hour, memory and open files of Mooring and of every site.

    python -m lab.benchmarks.spark_half_hour [--minutes 30] [--seed 0]

The pipeline (three sites, ten fragments, windows, channels between sites) runs in the background as a user
runs it, under packets at the trace's own speed; feeding and comparing is another process. Every minute a
drawn fragment is moved, and the next minute back, so that every second minute has the same placement.

Every two seconds we read from /proc the resident memory (VmRSS) and the number of open files of the runner's
process and of each site's Java with what it started. A minute's memory is the median of its
readings. A minute's open files are the least of them: files that a batch opens and closes come and go, and
what is never closed stays in the least.

Compared are four minutes after the tenth and the last four: of memory the median, of open files the least.
A Java heap grows to its working size in the first minutes and is collected every minute, so single readings
go up and down by tens of megabytes: that is why medians are compared, and why not from the beginning. Even
then it grows in steps of tens of megabytes, up to its limit of 512 MB, whenever a batch needs more room for a
moment; so what is live in it after a full collection, which every site makes once a minute, stands beside.
Memory that the kernel could take back at once (pages of libraries) is in the figures.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.benchmarks._demo_project import (
    FRAGMENTS,
    SITES,
    Feeder,
    compare,
    copy_example,
    expected_rows,
    traffic,
)
from lab.benchmarks._live_heap import live_heap_mb
from lab.benchmarks._record import Measurement, carry_out, prose_of
from lab.benchmarks._user_run import UserRun
from mooring.cli.output.result_table import ResultTable, Value
from mooring.spark.sites.process_tree import tree_usage

READ_EVERY_S = 2.0
WARM_MIN = 10
COMPARED_MIN = 4
MOORING = "Mooring"


@dataclass(frozen=True)
class Reading:
    minute: int
    resident_mb: float
    handles: int
    threads: int
    live_mb: int | None
    """In a site's Java heap after its last full collection, which it makes every minute."""


class Watch(threading.Thread):
    """Reads /proc until told to stop."""

    def __init__(self, pids: Mapping[str, int], gc_logs: Path) -> None:
        super().__init__(daemon=True)
        self.pids, self._gc_logs = pids, gc_logs
        self.readings: dict[str, list[Reading]] = {name: [] for name in pids}
        self.gone: set[str] = set()
        self._over = threading.Event()

    def run(self) -> None:
        began = time.monotonic()
        while not self._over.wait(READ_EVERY_S):
            minute = int((time.monotonic() - began) // 60)
            for name, pid in self.pids.items():
                reading = read(minute, pid, self._gc_logs / f"{pid}.log", alone=name == MOORING)
                if reading is None:
                    self.gone.add(name)
                else:
                    self.readings[name].append(reading)

    def halt(self) -> None:
        self._over.set()
        self.join()


def read(minute: int, pid: int, gc_log: Path, *, alone: bool) -> Reading | None:
    """Of one process, or of a site's Java and its children; None if it is gone."""
    try:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        handles = len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None
    usage = None if alone else tree_usage(pid)
    own_mb = int(status["VmRSS"].split()[0]) / 1024
    resident_mb = usage.resident_mb if usage else own_mb
    return Reading(minute, resident_mb, handles, int(status["Threads"]), live_heap_mb(gc_log))


@dataclass(frozen=True)
class Span:
    """Some minutes: the median memory and live heap, the least open files and threads."""

    resident_mb: float
    handles: int
    threads: int
    live_mb: float | None

    @classmethod
    def of(cls, readings: Sequence[Reading], minutes: range) -> Span:
        inside = [reading for reading in readings if reading.minute in minutes]
        live = [reading.live_mb for reading in inside if reading.live_mb is not None]
        return cls(
            statistics.median(reading.resident_mb for reading in inside),
            min(reading.handles for reading in inside),
            min(reading.threads for reading in inside),
            statistics.median(live) if live else None,
        )


def minute_rows(watch: Watch, minutes: int) -> list[dict[str, Value]]:
    rows: list[dict[str, Value]] = []
    for minute in range(minutes):
        row: dict[str, Value] = {"minute": minute}
        for name, readings in watch.readings.items():
            if any(reading.minute == minute for reading in readings):
                found = Span.of(readings, range(minute, minute + 1))
                row[f"{name} MB"], row[f"{name} open files"] = round(found.resident_mb), found.handles
        rows.append(row)
    return rows


def growth_rows(watch: Watch, minutes: int) -> list[dict[str, Value]]:
    """After ten minutes (half of a shorter run) against the end, each over a few minutes."""
    warm = min(WARM_MIN, minutes // 2)
    span = min(COMPARED_MIN, minutes - warm)
    rows: list[dict[str, Value]] = []
    for name, readings in watch.readings.items():
        before = Span.of(readings, range(warm, warm + span))
        after = Span.of(readings, range(minutes - span, minutes))
        rows.append(
            {
                "of": name,
                "MB before": round(before.resident_mb, 1),
                "MB at the end": round(after.resident_mb, 1),
                "growth": f"{after.resident_mb / before.resident_mb - 1:+.1%}",
                "live heap before, MB": before.live_mb,
                "live heap at the end, MB": after.live_mb,
                "open files before": before.handles,
                "open files at the end": after.handles,
                "threads before": before.threads,
                "threads at the end": after.threads,
            }
        )
    return rows


def moves_now_and_then(run: UserRun, draw: random.Random, minutes: int) -> tuple[int, int]:
    """One a minute, there and back; returns how many were carried out and how many refused."""
    began, home = time.monotonic(), dict(run.status()["placement"])
    done = refused = 0
    for minute in range(minutes):
        time.sleep(max(0.0, began + 60 * minute + 20 - time.monotonic()))
        wanted = dict(home)
        if minute % 2 == 0:
            name = draw.choice(sorted(name for name in home if not name.endswith(":ingest")))
            wanted[name] = draw.choice(sorted(set(SITES) - {home[name]}))
        try:
            done += len(run.moved(wanted))
        except RuntimeError as why:
            refused += 1
            print(f"  {str(why).splitlines()[0]}", file=sys.stderr, flush=True)
    time.sleep(max(0.0, began + 60 * minutes - time.monotonic()))
    return done, refused


def watched(root: Path, arguments: argparse.Namespace) -> Iterator[ResultTable | str]:
    storage, landing = root / "storage", root / "landing"
    gc_logs = root / "gc"
    gc_logs.mkdir()
    run = UserRun(root / "project", {"JAVA_TOOL_OPTIONS": f"-Xlog:gc:file={gc_logs}/%p.log"})
    copy_example(run.folder, landing, storage)
    packets = traffic(arguments.minutes)
    feeder = Feeder(packets, landing, speed=1.0)
    with contextlib.ExitStack() as stack:
        run.start(FRAGMENTS)
        stack.callback(run.stop)
        stack.callback(feeder.halt)
        feeder.start()
        watch = Watch({MOORING: run.pid()} | {site: run.server_of(site) for site in SITES}, gc_logs)
        watch.start()
        stack.callback(watch.halt)
        done, refused = moves_now_and_then(run, random.Random(arguments.seed), arguments.minutes)
        watch.halt()
        troubles = run.status()["troubles"]
        feeder.hurry()
        feeder.join()
        feeder.close("99999-again")  # a moved query waits for a row of each input before its clock goes on
        expected = expected_rows(packets)
        with contextlib.suppress(RuntimeError):
            run.wait(lambda: all(v.exact for v in compare(storage, expected)), "all rows", every_s=3.0)
        exact = all(verdict.exact for verdict in compare(storage, expected))
    yield ResultTable.of("Every minute", minute_rows(watch, arguments.minutes))
    yield ResultTable.of("After ten minutes, and at the end", growth_rows(watch, arguments.minutes))
    ended = f" Ended meanwhile: {', '.join(sorted(watch.gone))}." if watch.gone else ""
    said = json.dumps(troubles) if troubles else "none"
    yield (
        f"{done} moves were carried out, {refused} refused. Troubles at the end: {said}.{ended} "
        f"What was delivered {'equals' if exact else 'does NOT equal'} the truth."
    )


def measure(words: Sequence[str]) -> Iterator[ResultTable | str]:
    arguments = parser().parse_args(words)
    root = Path(tempfile.mkdtemp(prefix="mooring-half-hour-"))
    try:
        yield from watched(root, arguments)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    return parser


SPARK_HALF_HOUR = Measurement(
    "spark_half_hour", "Do Mooring and its sites grow while they run?", prose_of(__doc__), measure
)

if __name__ == "__main__":
    carry_out(SPARK_HALF_HOUR, sys.argv[1:])
