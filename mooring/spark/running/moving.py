"""Moving one fragment: everything slow is done at the target before the source stops.

The pause is what readers of the fragment notice: from the request to stop (made between two micro-batches)
until the target has committed its first batch, or, where nothing waits to be read, has looked and found
nothing. Loading the state is part of it. Spark's own stop-and-restart is measured by the same function.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql.streaming import StreamingQuery

from mooring.deployment.engine import MoveReport
from mooring.errors import EngineError, MooringError, SiteLostError
from mooring.spark.running.fragment_query import (
    PreparedFragment,
    RunningFragment,
    flow_failure,
    prepare_fragment,
)
from mooring.spark.storage import stream_logs

if TYPE_CHECKING:
    from mooring.spark.running.engine import SparkEngine

_POLL_S = 0.02
_ASK_S = 0.2
"""Looking at a folder is free; asking a site costs it some milliseconds."""
START_PATIENCE_S = 120.0
"""A first query on a cold, busy site takes this long at worst."""
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
    engine.ask(
        to_site,
        lambda: engine.warmth.ensure(to_site, handle.endpoint, stateful=stateful),
        START_PATIENCE_S,
    )
    prepared = engine.ask(
        to_site,
        lambda: prepare_fragment(
            engine.layout, fragment, to_site, handle.endpoint, accept_edits=engine.accept_edits
        ),
        START_PATIENCE_S,
    )
    try:
        reached("prepared")
    except MooringError:
        _discard(engine, prepared)
        raise
    stopped_s = _halted(engine, old, patience_s)
    del engine.running[name]
    engine.running[name] = _started(engine, prepared, old, reached)
    pause_s = time.monotonic() - stopped_s
    engine.let_go(old)
    engine.warmth.note(to_site, handle.endpoint, stateful=stateful)
    return MoveReport(name, old.site, to_site, pause_s, engine.state_bytes(name) if stateful else 0.0)


def _started(
    engine: SparkEngine, prepared: PreparedFragment, old: RunningFragment, reached: Callable[[str], None]
) -> RunningFragment:
    """The fragment at the target, past its first batch; whatever fails on the way, it is handed back."""
    layout, name = engine.layout, old.name
    try:
        reached("stopped")
        prepared.fence()
        reached("fenced")
        made = engine.ask(prepared.site, prepared.launch, START_PATIENCE_S)
        commits = layout.checkpoint(name) / "commits"
        failure = engine.ask(
            prepared.site,
            lambda: first_batch(made.query, commits),
            FIRST_BATCH_PATIENCE_S + engine.silence_s,
        )
        if failure is not None:
            raise flow_failure(layout, name, prepared.site, failure)
        reached("started")
    except MooringError as failure:
        _discard(engine, prepared)
        engine.let_go(old)
        engine.start(name, old.site)
        raise EngineError(
            f"the fragment {name!r} could not start at {prepared.site!r} and runs at {old.site!r} again: "
            f"{failure.message}",
            remedy=failure.remedy,
        ) from failure
    return made


def _discard(engine: SparkEngine, prepared: PreparedFragment) -> None:
    """Close the session at the target, and with it a query that had started; the fence is up in any case."""
    with contextlib.suppress(SiteLostError):
        engine.ask(prepared.site, prepared.discard, engine.silence_s)


def _halted(engine: SparkEngine, old: RunningFragment, patience_s: float) -> float:
    """When the fragment was told to stop. A site that does not answer cannot be told: the fence is what
    holds its query back.
    """

    def halt_old() -> float:
        engine.take_progress(old.name, old.query)  # its last words, which a stopped query may no longer say
        return halt(old.query, patience_s)

    try:
        return engine.ask(old.site, halt_old, patience_s + engine.silence_s)
    except SiteLostError:
        return time.monotonic()


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
