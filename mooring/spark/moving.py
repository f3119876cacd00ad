"""Moving one fragment: everything slow is done at the target before the source stops.

The pause is what readers of the fragment notice: from the request to stop (made between two micro-batches)
until the target has committed its first batch, or, where nothing waits to be read, has looked and found
nothing. Loading the state is part of it. Spark's own stop-and-restart is measured by the same function.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql.streaming import StreamingQuery

from mooring.deployment.engine import MoveReport
from mooring.errors import EngineError, MooringError
from mooring.spark import stream_logs
from mooring.spark.endpoint import close_session
from mooring.spark.fragment_query import (
    PreparedFragment,
    RunningFragment,
    flow_failure,
    prepare_fragment,
    start_fragment,
)

if TYPE_CHECKING:
    from mooring.spark.engine import SparkEngine

_POLL_S = 0.02
_ASK_S = 0.2
"""Looking at a folder is free; asking a site costs it some milliseconds."""
FIRST_BATCH_PATIENCE_S = 60.0
"""A first batch that takes longer is a backlog, not a pause: the move is over, the batch goes on."""


def move_fragment(
    engine: SparkEngine, name: str, to_site: str, reached: Callable[[str], None], *, patience_s: float = 30.0
) -> MoveReport:
    """`reached` hears "prepared", "stopped", "fenced" and "started", each once it holds.

    A target that cannot be prepared changes nothing; from then on whatever fails, a journal that cannot be
    written included, hands the fragment back to its source.
    """
    old, fragment, handle = engine.running[name], engine.layout.fragments[name], engine.sites[to_site]
    stateful = engine.is_stateful(name)
    engine.warmth.ensure(to_site, handle.endpoint, stateful=stateful)
    prepared = prepare_fragment(
        engine.layout, fragment, to_site, handle.endpoint, accept_edits=engine.accept_edits
    )
    try:
        reached("prepared")
    except MooringError:
        prepared.discard()
        raise
    engine.take_progress(name, old.query)
    stopped_s = halt(old.query, patience_s)
    del engine.running[name]
    engine.running[name] = _started(engine, prepared, old, reached)
    pause_s = time.monotonic() - stopped_s
    engine.take_progress(name, old.query)
    close_session(old.session)
    engine.warmth.note(to_site, handle.endpoint, stateful=stateful)
    return MoveReport(name, old.site, to_site, pause_s, engine.state_bytes(name) if stateful else 0.0)


def _started(
    engine: SparkEngine, prepared: PreparedFragment, old: RunningFragment, reached: Callable[[str], None]
) -> RunningFragment:
    """The fragment at the target, past its first batch; whatever fails on the way, it is handed back."""
    layout, name = engine.layout, old.name
    try:
        reached("stopped")
        made = prepared.start(reached)
        commits = layout.checkpoint(name) / "commits"
        if (failure := first_batch(made.query, commits)) is not None:
            raise flow_failure(layout, name, prepared.site, failure)
        reached("started")
    except MooringError as failure:
        prepared.discard()
        back = engine.sites[old.site].endpoint
        engine.running[name] = start_fragment(
            layout, layout.fragments[name], old.site, back, accept_edits=engine.accept_edits
        )
        close_session(old.session)
        raise EngineError(
            f"the fragment {name!r} could not start at {prepared.site!r} and runs at {old.site!r} again: "
            f"{failure.message}",
            remedy=failure.remedy,
        ) from failure
    return made


def halt(query: StreamingQuery, patience_s: float) -> float:
    """End a query between two micro-batches, or inside one after `patience_s`; returns when it was told to.

    A site that no longer answers cannot be told; the fence is what holds its query back.
    """
    deadline = time.monotonic() + patience_s
    try:
        while time.monotonic() < deadline and query.isActive and query.status["isTriggerActive"]:
            time.sleep(_POLL_S)
        told = time.monotonic()
        query.stop()
    except PySparkException:
        return time.monotonic()
    return told


def first_batch(
    query: StreamingQuery, commits: Path, patience_s: float = FIRST_BATCH_PATIENCE_S
) -> str | None:
    """Wait until a query just started has committed a batch, or found nothing to do; what failed, or None."""
    before = stream_logs.last_batch(commits)
    now = began = time.monotonic()
    ask = began
    while now - began < patience_s and stream_logs.last_batch(commits) <= before:
        if now >= ask:
            ask = now + _ASK_S
            try:
                if not query.isActive:
                    return str(query.exception() or "it ended at once")
                status = query.status
            except PySparkException as lost:
                return str(lost)
            idle = not status["isTriggerActive"] and not status["isDataAvailable"]
            if idle and status["message"].startswith("Waiting"):
                return None
        time.sleep(_POLL_S)
        now = time.monotonic()
    return None
