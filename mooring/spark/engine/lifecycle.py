"""Starting and ending fragments at the sites of a run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pyspark.errors import PySparkException

from mooring.errors import SiteLostError
from mooring.model.placement.placement import FragmentSites
from mooring.spark.engine.fragment_query import PreparedFragment, RunningFragment, prepare_fragment
from mooring.spark.engine.fragment_registry import OpenSession, Roster
from mooring.spark.engine.progress import Progress
from mooring.spark.engine.warm_up import Warmth
from mooring.spark.pipeline.cut_changes import interrupted
from mooring.spark.pipeline.layout import Layout
from mooring.spark.sites.endpoint import close_session, is_session_gone
from mooring.spark.sites.site_calls import SiteCalls
from mooring.spark.sites.sites import SiteHandles
from mooring.spark.views.refresh import Refresher
from mooring.spark.views.refresh_loop import RefreshLoop
from mooring.spark.views.schedule import ViewSchedule

START_PATIENCE_S = 120.0
"""A first query on a cold, busy site takes this long at worst."""
LAST_PATIENCE_S = 5.0
"""How long the end of a run waits for a site at which something was left behind."""
_POLL_S = 0.05


@dataclass(frozen=True)
class Lifecycle:
    layout: Layout
    sites: SiteHandles
    calls: SiteCalls
    roster: Roster
    progress: Progress
    warmth: Warmth
    accept_edits: bool
    schedule: ViewSchedule
    """Of materialized views."""
    to_the_end: bool = False
    """Fragments end by themselves once they have read what there is."""
    fencing: AbstractContextManager[object] = field(default_factory=contextlib.nullcontext)
    """Held while a checkpoint changes its folder."""

    def start(self, fragment: str, site: str) -> None:
        """Run a fragment at a site, from where it last committed."""
        self.roster.refuse_running(fragment)
        prepared = self.prepare(fragment, site)
        # Fenced here rather than by the site's lane: a call that comes back late must not fence what was
        # started elsewhere in the meantime.
        self.fence(prepared)
        self.roster.add(self.launch(prepared))
        self.warmth.note(site, self.sites.of(site).endpoint, fragment, stateful=self.is_stateful(fragment))
        self.progress.restarted(fragment)

    def start_all(self, sites: FragmentSites) -> None:
        """All sites side by side, the fragments of one site one after the other."""
        per_site: dict[str, list[str]] = {}
        for fragment, site in sites.items():
            per_site.setdefault(site, []).append(fragment)
        # Definition files are guarded in the main thread only, so it must be the one that reads the graph.
        with ThreadPoolExecutor(max_workers=max(1, len(per_site))) as pool:
            waiting = [pool.submit(self._start_at, site, names) for site, names in per_site.items()]
            for outcome in waiting:
                outcome.result()

    def _start_at(self, site: str, fragments: Sequence[str]) -> None:
        for fragment in fragments:
            self.start(fragment, site)

    def prepare(self, fragment: str, site: str) -> PreparedFragment:
        """Have a site analyse a fragment; its query may run elsewhere meanwhile."""
        handle = self.sites.of(site)
        prepared = self.calls.ask(
            site,
            lambda: prepare_fragment(
                self.layout,
                self.layout.fragments[fragment],
                site,
                handle.endpoint,
                accept_edits=self.accept_edits,
                to_the_end=self.to_the_end,
            ),
            START_PATIENCE_S,
            late=lambda prepared: prepared.discard(),  # or its session would stay open for good
            jobs=True,
        )
        if self.layout.pipeline.is_view(fragment):
            prepared.starter = partial(start_refreshing, self.schedule)
        return prepared

    def fence(self, prepared: PreparedFragment) -> None:
        """From now on no query of the fragment that was started before commits anything."""
        with self.fencing:
            prepared.fence()

    def launch(self, prepared: PreparedFragment) -> RunningFragment:
        """Start a query, after the fence; one that starts too late is ended with its session."""
        fragment, session_id = prepared.fragment.name, prepared.session_id
        self.roster.opened(OpenSession(prepared.site, fragment, session_id))
        try:
            return self.calls.ask(
                prepared.site, prepared.launch, START_PATIENCE_S, late=self._ended, jobs=True
            )
        except Exception:
            if prepared.closed:
                self.roster.closed(session_id)
            raise

    def stop_all(self, fragments: Sequence[str], patience_s: float) -> None:
        """End fragments, each as soon as it is between two micro-batches, or after `patience_s`."""
        left = [self.roster[name] for name in fragments if name in self.roster]
        deadline = time.monotonic() + patience_s
        while left:
            for fragment in list(left):
                if self._stopped(fragment, force=time.monotonic() > deadline):
                    left.remove(fragment)
                    self.roster.remove(fragment.name)
            if left:
                time.sleep(_POLL_S)

    def _stopped(self, fragment: RunningFragment, *, force: bool) -> bool:
        """Stop a fragment if it is between two micro-batches, or in any case; True once it need not be asked
        again. A site that does not answer is left to the fence: its query never commits again once the
        fragment has been started anew.
        """

        def stop() -> bool:
            query = fragment.query
            active = query.isActive
            if not force and active and query.status["isTriggerActive"]:
                return False
            if active:
                query.stop()
            self.progress.take(fragment)
            close_session(fragment.session)
            return True

        try:
            stopped = self.calls.ask(fragment.site, stop)
        except (PySparkException, SiteLostError):
            self.roster.leave_behind(fragment)
            return True
        if stopped:
            self.roster.closed(fragment.session_id)
        return stopped

    def let_go(self, stopped: RunningFragment) -> None:
        """Read the last progress of a query that was stopped, and close its session; a site that does not
        answer is cleared later.
        """

        def close() -> bool:
            self.progress.take(stopped)
            return close_session(stopped.session)

        try:
            if self.calls.ask(stopped.site, close):
                self.roster.closed(stopped.session_id)
                return
        except Exception:  # whatever it was: it has stopped or is behind the fence, and is ended later
            pass
        self.roster.leave_behind(stopped)

    def released_at_end(self, fragment: RunningFragment) -> bool:
        """Whether a fragment has ended by itself, as it should, and was let go of. How it is otherwise, or
        whether its site is lost, is for others to find out.
        """

        def released() -> bool:
            query = fragment.query
            if query.isActive or query.exception() is not None or interrupted(self.layout, fragment.name):
                return False
            self.progress.take(fragment)
            close_session(fragment.session)
            return True

        try:
            over = self.calls.ask(fragment.site, released)
        except (PySparkException, SiteLostError):
            return False
        if over:
            self.roster.remove(fragment.name)
            self.roster.closed(fragment.session_id)
        return over

    def forget(self, fragment: str) -> None:
        """Let go of a fragment that failed, or whose site is lost; it can then be started anew."""
        if (left := self.roster.remove_unless_moving(fragment)) is not None:
            self.roster.leave_behind(left)

    def clear_leftovers(self, site: str, patience_s: float | None = None) -> int:
        """Stop what was left behind at a site that answers again; returns how much of it still ran. What the
        site does not answer for stays left behind.
        """
        ended, silent = 0, False
        for left in self.roster.take_leftovers(site):
            try:
                if not silent:
                    ended += self.calls.ask(site, partial(self._ended, left), patience_s)
                    continue
            except PySparkException as failure:
                # An embedded site that answers is another server than the one that held the session.
                if is_session_gone(failure) or self.sites.of(site).embedded is not None:
                    self.roster.closed(left.session_id)
                    continue
            except SiteLostError:
                silent = True
            self.roster.leave_behind(left)
        return ended

    def clear_all_leftovers(self) -> None:
        """At the end of a run: what cannot be ended now stays noted for the next one."""
        for site in self.roster.sites_of_leftovers():
            if self.sites.of(site).embedded is None:  # others end with the run
                self.clear_leftovers(site, LAST_PATIENCE_S)

    def _ended(self, left: RunningFragment) -> bool:
        """Stop a query, and close its session; whether it still ran."""
        active = bool(left.query.isActive)
        if active:
            left.query.stop()
        if close_session(left.session) or active:
            self.roster.closed(left.session_id)
        return active

    def is_stateful(self, fragment: str) -> bool:
        flows = self.layout.pipeline.flows
        return any(flows[name].stateful for name in self.layout.fragments[fragment].operators)


def start_refreshing(schedule: ViewSchedule, prepared: PreparedFragment, checkpoint: Path) -> RefreshLoop:
    """Under the epoch of that checkpoint, where a refresh that was given up may have left something."""
    with contextlib.suppress(OSError):  # what stays is never read
        prepared.layout.disk.delete(checkpoint / "reads")
    flow = prepared.layout.pipeline.flows[prepared.fragment.name]
    refresher = Refresher(prepared.layout, flow, prepared.definitions, prepared.session, checkpoint)
    refresher.hand_over()
    return RefreshLoop(refresher, schedule, prepared.site, once=prepared.to_the_end)
