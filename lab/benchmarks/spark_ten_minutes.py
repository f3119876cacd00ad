"""Does a long run stay flat? The demo's pipeline for ten minutes at the trace's own speed, disk and memory
watched.

    python -m lab.benchmarks spark_ten_minutes[:SECONDS]

Shows every minute: what the trimmed channels store, what the whole storage root holds without results, the
memory of the sites and of everything together, and what was live in a site's Java heap after the last full
collection; then whether every delivered row equals the truth.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.benchmarks._live_heap import live_heap_mb
from lab.benchmarks._record import Measurement, carry_out, prose_of
from mooring.cli.output.result_table import ResultTable, Value
from mooring.controller.cycle import Look
from mooring.controller.initial_placement import Wish
from mooring.spark.engine.snapshot import Snapshot
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs.project_run import prepared_run
from mooring.spark.runs.spark_run import SparkRun
from mooring.spark.sites.embedded_site import EmbeddedOptions
from mooring.spark.sites.process_tree import tree_usage

EXAMPLE = Path(__file__).parents[2] / "examples" / "network_monitoring"
sys.path.insert(0, str(EXAMPLE))

from compare import KEYS, compare  # noqa: E402
from feed import Feeder  # noqa: E402
from truth import demo_traffic, expected_rows  # noqa: E402

SETTLING_S = 120.0


def folder_bytes(folder: Path) -> int:
    """Of what is there; files may go while we count."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total


def live_heaps_mb(sites: Path) -> dict[str, int | None]:
    """Of each site."""
    logs = sorted(sites.glob("*/scratch/gc.log"))
    return {log.parent.parent.name: live_heap_mb(log) for log in logs}


def sizes(storage: Path, snapshot: Snapshot, own_pid: int) -> dict[str, Value]:
    results = sum(folder_bytes(storage / "channels" / name) for name in KEYS)
    own = tree_usage(own_pid)
    sites = list(snapshot.sites.values())
    heaps = [mb for mb in live_heaps_mb(storage.parent / "sites").values() if mb is not None]
    trimmed = sum(channel.stored_bytes for name, channel in snapshot.channels.items() if name not in KEYS)
    return {
        "at_s": round(snapshot.since_start_s),
        "trimmed_channels_kB": round(trimmed / 1e3, 1),
        "storage_without_results_kB": round((folder_bytes(storage) - results) / 1e3, 1),
        "results_kB": round(results / 1e3, 1),
        "memory_of_a_site_MB": span([site.resident_mb or 0.0 for site in sites]),
        "live_heap_of_a_site_MB": span(heaps),
        "cores_of_all_sites": sum(site.load_cores or 0.0 for site in sites),
        "memory_of_all_MB": round(own.resident_mb) if own else None,
    }


def span(values: Sequence[float]) -> str:
    return f"{min(values):.0f} to {max(values):.0f}" if values else ""


def measure(words: Sequence[str]) -> Iterator[ResultTable | str]:
    seconds = float(words[0]) if words else 600.0
    root = Path(tempfile.mkdtemp(prefix="mooring-ten-minutes-"))
    folder = root / "project"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", ".mooring", "landing"))
    began = time.monotonic()
    try:
        rows, exact = watched(folder, seconds)
    finally:
        shutil.rmtree(root)
    yield ResultTable.of("Every minute; of several sites the least and the most", rows)
    rows_said = "equals" if exact else "does NOT equal"
    yield f"What was delivered in {time.monotonic() - began:.0f} s {rows_said} the truth."


def watched(folder: Path, seconds: float) -> tuple[list[dict[str, Value]], bool]:
    """The sizes of every minute, and whether all rows were delivered right."""
    traffic = demo_traffic(min(seconds, 600.0))
    expected = expected_rows(traffic)
    options = EmbeddedOptions(jvm_flags=("-Xlog:gc:file=gc.log",))
    rows: list[dict[str, Value]] = []
    with (
        prepared_run(load_project(folder), options=options) as prepared,
        SparkRun(prepared, Wish("rod")).started() as (session, book),
    ):
        storage = prepared.layout.root

        def show(look: Look) -> None:
            snapshot = book.engine.last_snapshot
            if snapshot.since_start_s >= 60.0 * (len(rows) + 1):
                rows.append(sizes(storage, snapshot, os.getpid()))
                print(json.dumps(rows[-1]), file=sys.stderr, flush=True)

        feeder = Feeder(traffic, folder / "landing", speed=1.0)
        feeder.start()

        def over(passed: float) -> bool:
            late = passed > seconds + SETTLING_S
            return late or (not feeder.is_alive() and all(v.exact for v in compare(storage, expected)))

        session.watchers.append(show)
        session.run(over)
        book.engine.check()
        feeder.halt()
        return rows, all(verdict.exact for verdict in compare(storage, expected))


SPARK_TEN_MINUTES = Measurement(
    "spark_ten_minutes", "Does a long run stay flat in disk and memory?", prose_of(__doc__), measure
)

if __name__ == "__main__":
    carry_out(SPARK_TEN_MINUTES, sys.argv[1:])
