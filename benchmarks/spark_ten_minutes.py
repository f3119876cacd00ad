"""Does a long run stay flat? The demo's pipeline for ten minutes at the trace's own speed, disk and memory
watched.

    python -m benchmarks.spark_ten_minutes [SECONDS]

Prints every minute: what the trimmed channels store, what the whole storage root holds without results, the
memory of each site and of this process, and what was live in each site's Java heap after the last full
collection; then whether every delivered row equals the truth.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

from mooring.spark.pipeline.project import load_project
from mooring.spark.running.project_run import prepared_run
from mooring.spark.running.run_report import RunRecord
from mooring.spark.running.snapshot import Snapshot
from mooring.spark.running.watching import watch
from mooring.spark.sites.embedded_site import EmbeddedOptions
from mooring.spark.sites.process_tree import tree_usage

EXAMPLE = Path(__file__).parent.parent / "examples" / "network_monitoring"
sys.path.insert(0, str(EXAMPLE))

from compare import KEYS, compare  # noqa: E402
from feed import Feeder  # noqa: E402
from truth import demo_traffic, expected_rows  # noqa: E402

SETTLING_S = 120.0
_FULL_COLLECTION = re.compile(r"Pause Full.* \d+M->(\d+)M\(")


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
    """Per site: the heap in use right after the last full collection, so without garbage."""
    found = {}
    for log in sorted(sites.glob("*/scratch/gc.log")):
        after = _FULL_COLLECTION.findall(log.read_text())
        found[log.parent.parent.name] = int(after[-1]) if after else None
    return found


def sizes(storage: Path, snapshot: Snapshot, own_pid: int) -> dict[str, object]:
    results = sum(folder_bytes(storage / "channels" / name) for name in KEYS)
    own = tree_usage(own_pid)
    return {
        "at_s": round(snapshot.since_start_s),
        "trimmed_channels_kb": round(
            sum(c.stored_bytes for n, c in snapshot.channels.items() if n not in KEYS) / 1e3, 1
        ),
        "storage_without_results_kb": round((folder_bytes(storage) - results) / 1e3, 1),
        "results_kb": round(results / 1e3, 1),
        "sites_mb": {name: round(site.resident_mb or 0) for name, site in snapshot.sites.items()},
        "live_heaps_mb": live_heaps_mb(storage.parent / "sites"),
        "sites_cores": {name: round(site.load_cores or 0, 2) for name, site in snapshot.sites.items()},
        "mooring_and_keepers_and_sites_mb": round(own.resident_mb) if own else None,
    }


def main(seconds: float = 600.0) -> None:
    root = Path(tempfile.mkdtemp(prefix="mooring-ten-minutes-"))
    folder = root / "project"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", ".mooring", "landing"))
    traffic = demo_traffic(min(seconds, 600.0))
    expected = expected_rows(traffic)
    options = EmbeddedOptions(jvm_flags=("-Xlog:gc:file=gc.log",))
    try:
        with prepared_run(load_project(folder), options=options) as run, run.engine() as engine:
            from mooring.run import plan

            placement = plan(run.problem, "rod").placement.as_dict()
            run.deploy(engine, placement)
            record = RunRecord("ten minutes", "rod", placement, [], {}, {})
            storage = run.layout.root
            next_note = 60.0

            def show(snapshot: Snapshot) -> None:
                nonlocal next_note
                if snapshot.since_start_s >= next_note:
                    next_note += 60.0
                    print(json.dumps(sizes(storage, snapshot, os.getpid())), flush=True)

            feeder = Feeder(traffic, folder / "landing", speed=1.0)
            feeder.start()

            def over(passed: float) -> bool:
                late = passed > seconds + SETTLING_S
                return late or (not feeder.is_alive() and all(v.exact for v in compare(storage, expected)))

            began = time.monotonic()
            watch(engine, record, run.files, over=over, show=show)
            print(
                f"{time.monotonic() - began:.0f} s; exact: {all(v.exact for v in compare(storage, expected))}"
            )
            feeder.halt()
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]))
