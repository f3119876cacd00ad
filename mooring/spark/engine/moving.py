"""Moving one fragment: everything slow is done at the target before the source stops.

A query is overtaken rather than stopped first: when it has just committed a batch, the fence goes up, the
target starts, and the source is stopped beside. From the fence on the source can plan no batch, and what it
has not planned it cannot write. Only where the fence finds a batch that was planned and not committed does
the target wait until the source has ended, since both would write that batch.

The pause is what readers of the fragment notice: from the fence until the target has committed its first
batch, or, where nothing waits to be read, has looked and found nothing. Loading the state is part of it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from pyspark.errors import PySparkException

from mooring.contracts.engine import MoveReport
from mooring.controller.move_list import Carrier, InBackground
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
_QUICK_POLL_S = 0.005
"""A source that cannot keep up plans its next batch a moment after it has committed one."""
_ASK_S = 0.2
"""Looking at a folder is free; asking a site costs it some milliseconds."""
LONGEST_WAIT_S = 120.0
"""For the end of a batch at the source. It is no pause: the source works on."""
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
    wait_s: Callable[[float], None] = time.sleep
    beside: Carrier = field(default_factory=InBackground)
    """How a source is ended while its target starts."""

    def move(self, name: str, to_site: str, reached: Reached = ignored) -> MoveReport:
        """A target that cannot be prepared changes nothing; from then on whatever fails, a journal that
        cannot be written included, hands the fragment back to its source.
        """
        run, stages = self.lifecycle, Stages(reached)
        stateful = run.is_stateful(name)
        with run.roster.in_hand(name) as old:
            prepared = run.prepare(name, to_site)
            kind, batch_s = run.layout.moves_as(name), run.progress.batch_s(name)
            source = _Source(self, old)
            try:
                self._make_ready(prepared, batch_s, stateful=stateful)
                stages.reach("prepared")
                pause_began_s = self._fenced(source, prepared, stages, batch_s)
                run.roster.add(self._started(prepared, stages))
            except MooringError as failure:
                self._failed(stages, prepared, source, failure)
            except Exception as failure:  # whatever it was, the fragment runs again where it was
                self._failed(stages, prepared, source, EngineError(described(failure)))
            pause_s = self.now_s() - pause_began_s
            # It is done: nothing from here on may say that it is not.
            source.end()
            state_bytes: float | None = 0.0
            try:
                run.warmth.note(to_site, run.sites.of(to_site).endpoint, name, stateful=stateful)
                state_bytes = run.progress.state_bytes(name) if stateful else 0.0
            except Exception:
                state_bytes = None
            return MoveReport(
                *(name, old.site, to_site, pause_s, state_bytes),
                moved_as=kind,
                batch_s=None if kind == "view" else batch_s,
            )

    def _make_ready(self, prepared: PreparedFragment, batch_s: float | None, *, stateful: bool) -> None:
        """Have the target load and compile what the fragment needs."""
        run, name, site = self.lifecycle, prepared.fragment.name, prepared.site
        handle = run.sites.of(site)
        state_bytes = run.progress.state_bytes(name) if stateful else 0.0
        run.calls.ask(
            site,
            lambda: run.warmth.ensure(
                prepared,
                handle.endpoint,
                stateful=stateful,
                state_bytes=state_bytes,
                batch_s=batch_s,
                slots=handle.slots,
            ),
            START_PATIENCE_S,
            jobs=True,
        )

    def _fenced(
        self, source: _Source, prepared: PreparedFragment, stages: Stages, batch_s: float | None
    ) -> float:
        """Shut the source out; when that began. On return nothing that it may still do counts."""
        run, name = self.lifecycle, prepared.fragment.name
        stages.reach("stopped")
        if prepared.starter is not None:  # what refreshes a view plans nothing in a checkpoint
            began_s = source.halted()
            run.roster.remove(name)
            run.fence(prepared)
        else:
            source.await_commit(min(LONGEST_WAIT_S, max(self.patience_s, 2.0 * (batch_s or 0.0))))
            began_s = self.now_s()
            run.roster.remove(name)
            run.fence(prepared)
            source.end_beside()
            if in_doubt(run.layout.checkpoint(name), run.layout.disk):
                source.end()
        stages.reach("fenced")
        return began_s

    def _started(self, prepared: PreparedFragment, stages: Stages) -> RunningFragment:
        """The fragment at the target, past its first batch."""
        run, name = self.lifecycle, prepared.fragment.name
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
        self, stages: Stages, prepared: PreparedFragment, source: _Source, failure: MooringError
    ) -> NoReturn:
        """Close the session at the target, and with it a query that had started; the fence is up in any case.
        Then do what the table of stages says.
        """
        run, name, old = self.lifecycle, source.query.name, source.query
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
        source.end()
        run.roster.remove(name)
        run.start(name, old.site)
        raise EngineError(
            f"the fragment {name!r} could not start at {prepared.site!r} and runs at {old.site!r} again: "
            f"{failure.message}",
            remedy=failure.remedy,
        ) from failure


class _Source:
    """The query that a move takes over from. A site that does not answer cannot be asked: the fence is what
    holds its query back.
    """

    def __init__(self, mover: Mover, query: RunningFragment) -> None:
        self.query = query
        self._mover, self._run = mover, mover.lifecycle
        self._ending: Future[None] | None = None
        self._stopped = False

    def await_commit(self, patience_s: float) -> None:
        """Until it is between two batches, as its logs tell; for no longer than `patience_s`."""
        run, now_s = self._run, self._mover.now_s
        checkpoint, disk = run.layout.checkpoint(self.query.name), run.layout.disk
        now = ask = now_s()
        deadline = now + patience_s
        while now < deadline and in_doubt(checkpoint, disk):
            if now >= ask:
                ask = now + _ASK_S
                try:
                    if not run.calls.ask(self.query.site, lambda: self.query.query.isActive):
                        return
                except (PySparkException, SiteLostError):
                    return
            self._mover.wait_s(_QUICK_POLL_S)
            now = now_s()

    def halted(self) -> float:
        """End it between two batches; when it was asked to."""
        run, mover = self._run, self._mover

        def halt_it() -> float:
            run.progress.take(self.query)  # what a stopped query may no longer tell
            commits = run.layout.checkpoint(self.query.name) / "commits"
            return halt(self.query.query, mover.patience_s, commits, run.layout.disk, mover.now_s)

        self._stopped = True
        try:
            return run.calls.ask(self.query.site, halt_it, mover.patience_s + run.calls.silence_s)
        except SiteLostError:
            return mover.now_s()

    def end_beside(self) -> None:
        """Have it stopped and its session closed, while the target starts."""
        if self._ending is None:
            self._ending = self._mover.beside.begin(self._end)

    def end(self) -> None:
        """On return it has ended, or is left behind."""
        self.end_beside()
        assert self._ending is not None
        self._ending.exception()

    def _end(self) -> None:
        if not self._stopped:
            with contextlib.suppress(Exception):  # it is behind the fence, and its session is closed next
                self._run.calls.ask(self.query.site, self.query.query.stop)
        self._run.let_go(self.query)


def in_doubt(checkpoint: Path, disk: Disk = DISK) -> bool:
    """Whether a batch is planned and not committed."""
    planned = stream_logs.last_batch(checkpoint / "offsets", disk)
    return planned > stream_logs.last_batch(checkpoint / "commits", disk)


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
