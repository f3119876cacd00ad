"""Moving one fragment: everything slow is done at the target before the source stops.

The pause is what readers of the fragment notice: from the request to stop (made between two micro-batches)
until the target has committed its first batch, or, where nothing waits to be read, has looked and found
nothing. Loading the state is part of it. Spark's own stop-and-restart is measured by the same function.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from pyspark.errors import PySparkException

from mooring.contracts.engine import MoveReport
from mooring.disk import DISK, Disk
from mooring.errors import EngineError, MooringError, SiteLostError, described
from mooring.model.deployment.move_stages import Reached, Stages, ignored
from mooring.spark.engine.fragment_query import (
    PreparedFragment,
    RunningFragment,
    RunningQuery,
    flow_failure,
)
from mooring.spark.engine.lifecycle import START_PATIENCE_S, Lifecycle
from mooring.spark.storage import stream_logs

_POLL_S = 0.02
_ASK_S = 0.2
"""Looking at a folder is free; asking a site costs it some milliseconds."""
FIRST_BATCH_PATIENCE_S = 60.0
"""A first batch that takes longer is a backlog, not a pause: the move is over, the batch goes on."""


@dataclass(frozen=True)
class Mover:
    """Moves fragments of a run, one call each; its stages are those of `model/deployment/move_stages.py`."""

    lifecycle: Lifecycle
    patience_s: float = 30.0
    """How long a source may take to come between two micro-batches before it is stopped inside one."""
    now_s: Callable[[], float] = time.monotonic
    """What pauses are measured by."""

    def move(self, name: str, to_site: str, reached: Reached = ignored) -> MoveReport:
        """A target that cannot be prepared changes nothing; from then on whatever fails, a journal that
        cannot be written included, hands the fragment back to its source.
        """
        run, stages = self.lifecycle, Stages(reached)
        handle, stateful = run.sites.of(to_site), run.is_stateful(name)
        with run.roster.in_hand(name) as old:
            run.calls.ask(
                to_site,
                lambda: run.warmth.ensure(to_site, handle.endpoint, stateful=stateful, slots=handle.slots),
                START_PATIENCE_S,
                jobs=True,
            )
            prepared = run.prepare(name, to_site)
            kind, batch_s = run.layout.moves_as(name), run.progress.batch_s(name)
            try:
                stages.reach("prepared")
                stopped_s = self._halted(old)
                run.roster.remove(name)
                run.roster.add(self._started(prepared, stages))
            except MooringError as failure:
                self._failed(stages, prepared, old, failure)
            except Exception as failure:  # whatever it was, the fragment runs again where it was
                self._failed(stages, prepared, old, EngineError(described(failure)))
            pause_s = self.now_s() - stopped_s
            # It is done: nothing from here on may say that it is not.
            run.let_go(old)
            state_bytes: float | None = 0.0
            try:
                run.warmth.note(to_site, handle.endpoint, stateful=stateful)
                state_bytes = run.progress.state_bytes(name) if stateful else 0.0
            except Exception:
                state_bytes = None
            return MoveReport(
                *(name, old.site, to_site, pause_s, state_bytes),
                moved_as=kind,
                batch_s=None if kind == "view" else batch_s,
            )

    def _started(self, prepared: PreparedFragment, stages: Stages) -> RunningFragment:
        """The fragment at the target, past its first batch."""
        run, name = self.lifecycle, prepared.fragment.name
        stages.reach("stopped")
        run.fence(prepared)
        stages.reach("fenced")
        made = run.launch(prepared)
        commits, disk = run.layout.checkpoint(name) / "commits", run.layout.disk
        try:
            failure = run.calls.ask(
                prepared.site,
                lambda: first_batch(made.query, commits, disk=disk, may_end=prepared.to_the_end),
                FIRST_BATCH_PATIENCE_S + run.calls.silence_s,
            )
        except SiteLostError:
            run.roster.leave_behind(made)  # to be ended once the site answers
            raise
        if failure is not None:
            raise flow_failure(run.layout, name, prepared.site, failure)
        stages.reach("started")
        return made

    def _failed(
        self, stages: Stages, prepared: PreparedFragment, old: RunningFragment, failure: MooringError
    ) -> NoReturn:
        """Close the session at the target, and with it a query that had started; the fence is up in any case.
        Then do what the table of stages says.
        """
        run, name = self.lifecycle, old.name
        try:
            run.calls.ask(prepared.site, prepared.discard)
        except SiteLostError:
            pass
        except EngineError:  # the run is over, and this is the last that is asked of the site
            prepared.discard()
        except Exception:  # its query is behind the fence, and its session ends with the site or this run
            pass
        if prepared.closed:
            run.roster.closed(prepared.session_id)
        if stages.on_failure == "changes nothing":
            raise failure
        run.let_go(old)
        run.roster.remove(name)
        run.start(name, old.site)
        raise EngineError(
            f"the fragment {name!r} could not start at {prepared.site!r} and runs at {old.site!r} again: "
            f"{failure.message}",
            remedy=failure.remedy,
        ) from failure

    def _halted(self, old: RunningFragment) -> float:
        """When the fragment was asked to stop. A site that does not answer cannot be asked: the fence is what
        holds its query back.
        """
        run = self.lifecycle

        def halt_old() -> float:
            run.progress.take(old)  # what a stopped query may no longer tell
            commits = run.layout.checkpoint(old.name) / "commits"
            return halt(old.query, self.patience_s, commits, run.layout.disk, self.now_s)

        try:
            return run.calls.ask(old.site, halt_old, self.patience_s + run.calls.silence_s)
        except SiteLostError:
            return self.now_s()


def halt(
    query: RunningQuery,
    patience_s: float,
    commits: Path | None = None,
    disk: Disk = DISK,
    now_s: Callable[[], float] = time.monotonic,
) -> float:
    """End a query between two micro-batches, or inside one after `patience_s`; returns when it was told to.

    A query that cannot keep up is never between two: where its `commits` are given, it is ended when it has
    just committed one, so that little of the next is done twice. A site that no longer answers cannot be
    told; the fence is what holds its query back.
    """
    deadline = time.monotonic() + patience_s
    before = None if commits is None else stream_logs.last_batch(commits, disk)
    try:
        while time.monotonic() < deadline and query.isActive and query.status["isTriggerActive"]:
            if commits is not None and before is not None and stream_logs.last_batch(commits, disk) > before:
                break
            time.sleep(_POLL_S)
        told = now_s()
        query.stop()
    except PySparkException:
        return now_s()
    return told


def first_batch(
    query: RunningQuery,
    commits: Path,
    patience_s: float = FIRST_BATCH_PATIENCE_S,
    disk: Disk = DISK,
    *,
    may_end: bool = False,
) -> str | None:
    """Wait until a query just started has committed a batch, or found nothing to do; what failed, or None.
    One that `may_end` by itself has then found nothing more to do.
    """
    before = stream_logs.last_batch(commits, disk)
    now = began = time.monotonic()
    ask = began
    while now - began < patience_s and stream_logs.last_batch(commits, disk) <= before:
        if now >= ask:
            ask = now + _ASK_S
            try:
                if not query.isActive:
                    failure = query.exception()
                    return None if failure is None and may_end else str(failure or "it ended at once")
                status = query.status
            except PySparkException as lost:
                return str(lost)
            idle = not status["isTriggerActive"] and not status["isDataAvailable"]
            if idle and status["message"].startswith("Waiting"):
                return None
        time.sleep(_POLL_S)
        now = time.monotonic()
    return None
