"""Running one fragment batch by batch and reading what each costs its site.

One file per input is placed, the fragment takes it at its next trigger, and once the batch is committed the
CPU of the site's process tree is read: the difference to the last reading is that batch's, with all that it
left running. Waiting costs the site next to nothing, and what it does cost is measured and taken off.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql.streaming import StreamingQuery

from mooring.errors import EngineError
from mooring.spark.storage import stream_logs

_POLL_S = 0.02
_SETTLE_S = 0.08
"""After a commit: the progress report, and whatever else follows it at once."""
_BATCH_LIMIT_S = 120.0
_PROGRESS_EVERY = 12
"""Batches between two readings of Spark's progress reports, of which it keeps twenty."""


@dataclass(frozen=True)
class RunBatch:
    """One batch as it was asked for, and what the site's tree used for it."""

    number: int
    rows: int
    cpu_s: float
    until_s: float
    """When it was over, in seconds since 1970."""


@dataclass
class BatchRunner:
    query: StreamingQuery
    checkpoint: Path
    place: Callable[[int], int]
    """Feeds about so many rows; returns how many it were."""
    cpu_s: Callable[[], float]
    """What the site's tree has used so far."""
    idle_cores: float = 0.0
    done: list[RunBatch] = field(default_factory=list)
    progress: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Spark's own report per batch number."""

    def run(self, rows: int) -> RunBatch:
        """One more batch of about so many rows."""
        last = stream_logs.last_committed_batch(self.checkpoint)
        before_cpu_s, before_s = self.cpu_s(), time.monotonic()
        fed = self.place(rows)
        number = self._committed_after(-1 if last is None else last)
        time.sleep(_SETTLE_S)
        idle_s = self.idle_cores * (time.monotonic() - before_s)
        batch = RunBatch(number, fed, max(0.0, self.cpu_s() - before_cpu_s - idle_s), time.time())
        self.done.append(batch)
        if len(self.done) % _PROGRESS_EVERY == 0:
            self.read_progress()
        return batch

    def read_progress(self) -> None:
        for report in self.query.recentProgress:
            data = json.loads(report.json)
            if "addBatch" in (data.get("durationMs") or {}):
                self.progress[int(data["batchId"])] = data

    def _committed_after(self, last: int) -> int:
        deadline = time.monotonic() + _BATCH_LIMIT_S
        next_check = time.monotonic() + 2.0
        while (now := stream_logs.last_committed_batch(self.checkpoint)) is None or now <= last:
            if time.monotonic() > next_check:  # asking the site costs it CPU, so seldom
                next_check = time.monotonic() + 2.0
                if (failure := self.query.exception()) is not None:
                    raise failure
                if not self.query.isActive or time.monotonic() > deadline:
                    raise EngineError(f"no batch was committed within {_BATCH_LIMIT_S:g} s")
            time.sleep(_POLL_S)
        return now
