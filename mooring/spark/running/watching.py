"""Watching a run: a look every few seconds, channels trimmed, trouble noticed, the status file kept fresh."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from mooring.errors import EngineError
from mooring.spark.running.engine import SparkEngine
from mooring.spark.running.fragment_query import LOOK_S
from mooring.spark.running.run_files import RunFiles
from mooring.spark.running.run_report import RunRecord
from mooring.spark.running.snapshot import Snapshot

_TICK_S = 0.2


@dataclass(frozen=True)
class WatchOptions:
    look_s: float = LOOK_S
    """Seconds between two looks. A look asks every fragment whether it runs and how far it is, and every such
    question costs its site some milliseconds of CPU."""
    trim_s: float = 10.0
    """Seconds between two trimmings of the channels."""


Remarks = Callable[[Snapshot], Mapping[str, object]]
"""What else belongs into the status file."""


class Carer(Protocol):
    """Who sees to it that a run goes on. Times are those of `time.monotonic`."""

    def tick(self, now_s: float) -> None:
        """Called several times a second."""
        ...

    def look(self, now_s: float) -> None:
        """Called before every look."""
        ...

    def failed(self, what: str, failure: Exception, now_s: float) -> None:
        """A chore of the watcher's own failed; it will be tried again."""
        ...

    def troubles(self) -> dict[str, str]:
        """What is not as it should be, in words."""
        ...


@dataclass(frozen=True)
class _Strict:
    """Cares for nothing: what goes wrong is raised."""

    engine: SparkEngine

    def tick(self, now_s: float) -> None:
        return

    def look(self, now_s: float) -> None:
        self.engine.check()

    def failed(self, what: str, failure: Exception, now_s: float) -> None:
        raise failure

    def troubles(self) -> dict[str, str]:
        return {}


def watch(
    engine: SparkEngine,
    record: RunRecord,
    files: RunFiles,
    *,
    over: Callable[[float], bool],
    show: Callable[[Snapshot], None],
    carer: Carer | None = None,
    options: WatchOptions | None = None,
    serve: Callable[[], bool] = lambda: False,
    remarks: Remarks = lambda snapshot: {},
) -> None:
    """Look on until `over` (given the seconds so far) says so. Without a carer any trouble ends it.

    `serve` answers a request, if one waits, and says whether that may have changed anything.
    """
    chosen = options or WatchOptions()
    carer = carer or _Strict(engine)
    began = time.monotonic()
    next_look = next_trim = began
    while not over(time.monotonic() - began):
        if serve():
            next_look = time.monotonic()
        now = time.monotonic()
        carer.tick(now)
        if now >= next_look:
            carer.look(now)
            try:
                look(engine, record, files, show, carer.troubles(), remarks)
            except (OSError, EngineError) as failure:
                carer.failed("looking at the run", failure, now)
            next_look = now + chosen.look_s
        if now >= next_trim:
            try:
                engine.trim()
            except (OSError, EngineError) as failure:
                carer.failed("trimming the channels", failure, now)
            next_trim = now + chosen.trim_s
        time.sleep(_TICK_S)


def look(
    engine: SparkEngine,
    record: RunRecord,
    files: RunFiles,
    show: Callable[[Snapshot], None],
    troubles: Mapping[str, str],
    remarks: Remarks = lambda snapshot: {},
) -> None:
    snapshot = engine.snapshot(troubles)
    record.add(snapshot)
    files.write_status(
        {
            "version": 1,
            "pipeline": record.pipeline,
            "policy": record.policy,
            "placement": record.placement,
            "statistics": files.note_statistics(record),
            **snapshot.as_json(),
            **remarks(snapshot),
        }
    )
    show(snapshot)
