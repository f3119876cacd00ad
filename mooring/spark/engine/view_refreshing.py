"""What a prepared materialized view starts: a loop of refreshes in the place of a streaming query."""

from __future__ import annotations

import contextlib
from pathlib import Path

from mooring.spark.engine.fragment_query import PreparedFragment
from mooring.spark.views.refresh import Refresher
from mooring.spark.views.refresh_loop import RefreshLoop
from mooring.spark.views.schedule import ViewSchedule


def start_refreshing(schedule: ViewSchedule, prepared: PreparedFragment, checkpoint: Path) -> RefreshLoop:
    """Under the epoch of that checkpoint, where a refresh that was given up may have left something."""
    with contextlib.suppress(OSError):  # what stays is never read
        prepared.layout.disk.delete(checkpoint / "reads")
    flow = prepared.layout.pipeline.flows[prepared.fragment.name]
    refresher = Refresher(prepared.layout, flow, prepared.definitions, prepared.session, checkpoint)
    refresher.hand_over()
    return RefreshLoop(refresher, schedule, prepared.site, once=prepared.to_the_end)
