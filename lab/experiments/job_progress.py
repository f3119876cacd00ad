"""How far a Spark job is, told while it runs. Only Connect sessions tell; others stay silent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from mooring.progress import Report


@contextmanager
def job_progress(session: SparkSession, report: Report, things: str, total: int) -> Iterator[None]:
    """Report the tasks done of the stage with `total` tasks, in a bar that never goes back."""
    done_before = 0.0

    def handler(stages: Any, inflight_tasks: int, operation_id: str, done: bool) -> None:
        nonlocal done_before
        completed = max((s.num_completed_tasks for s in stages if s.num_tasks == total), default=0)
        done_before = max(done_before, completed / total)
        report(done_before, f"{completed} of {total} {things}, {inflight_tasks} running")

    if not type(session).__module__.startswith("pyspark.sql.connect"):
        yield
        return
    session.registerProgressHandler(handler)
    try:
        yield
    finally:
        session.removeProgressHandler(handler)
