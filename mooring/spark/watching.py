"""Watching a run: a look every few seconds, channels trimmed, trouble noticed, the status file kept fresh."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from mooring.spark.engine import SparkEngine
from mooring.spark.run_files import RunFiles
from mooring.spark.run_report import RunRecord
from mooring.spark.snapshot import Snapshot

_TICK_S = 0.2


@dataclass(frozen=True)
class WatchOptions:
    look_s: float = 5.0
    """Seconds between two looks. A look asks every fragment whether it runs and how far it is, and every such
    question costs its site some milliseconds of CPU."""
    trim_s: float = 10.0
    """Seconds between two trimmings of the channels."""


def watch(
    engine: SparkEngine,
    record: RunRecord,
    files: RunFiles,
    *,
    over: Callable[[float], bool],
    show: Callable[[Snapshot], None],
    options: WatchOptions | None = None,
) -> None:
    """Look on until `over` (given the seconds so far) says so; an engine error ends it at once."""
    chosen = options or WatchOptions()
    began = time.monotonic()
    next_look = next_trim = began
    while not over(time.monotonic() - began):
        now = time.monotonic()
        if now >= next_look:
            engine.check()
            look(engine, record, files, show)
            next_look = now + chosen.look_s
        if now >= next_trim:
            engine.trim()
            next_trim = now + chosen.trim_s
        time.sleep(_TICK_S)


def look(engine: SparkEngine, record: RunRecord, files: RunFiles, show: Callable[[Snapshot], None]) -> None:
    snapshot = engine.snapshot()
    record.add(snapshot)
    files.write_status(
        {
            "version": 1,
            "pipeline": record.pipeline,
            "policy": record.policy,
            "placement": record.placement,
            "statistics": files.note_statistics(record),
            **snapshot.as_json(),
        }
    )
    show(snapshot)
