"""The schedule of refreshes: which materialized views are due, in the order of the graph.

A view is due when what it reads has changed since its last version, its own query was edited, or it reads
something outside the pipeline, whose changes cannot be observed; and not before its interval is over. Where a
view that it reads is due or being refreshed as well, it waits for that one's version rather than be computed
twice; but only for one, or a view that takes longer than its interval would keep those behind it waiting for
good.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mooring.disk import is_folder
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.pipeline import FlowNode
from mooring.spark.storage.views.versions import ReadsOf
from mooring.spark.views.snapshot_reads import marks_now


class ViewSchedule:
    """Of one engine: knows which views are looked after, and lets a site refresh one at a time."""

    def __init__(
        self,
        layout: Layout,
        now_s: Callable[[], float] = time.time,
        marks: Callable[[Layout, FlowNode], ReadsOf] = marks_now,
    ) -> None:
        self._layout, self._now_s, self._marks = layout, now_s, marks
        self._lock = threading.Lock()
        self._turns: dict[str, threading.Lock] = {}
        self._refreshing: set[str] = set()
        self._looked_after: dict[str, object] = {}

    def begin(self, view: str, by: object) -> None:
        """Somebody refreshes it whenever it is due, whoever did before."""
        with self._lock:
            self._looked_after[view] = by

    def end(self, view: str, by: object) -> None:
        """They do no longer; unless somebody else does by now, those that read it wait for it no more."""
        with self._lock:
            if self._looked_after.get(view) is by:
                del self._looked_after[view]

    def is_due(self, view: str) -> bool:
        return self._wants(view) and not self._waits(view)

    @contextmanager
    def turn(self, view: str, site: str) -> Iterator[None]:
        """The site refreshes one view at a time: two would only wait for each other's tasks."""
        with self._lock:
            lock = self._turns.setdefault(site, threading.Lock())
        with lock:
            with self._lock:
                self._refreshing.add(view)
            try:
                yield
            finally:
                with self._lock:
                    self._refreshing.discard(view)

    def _wants(self, view: str) -> bool:
        """Whether it is due as far as the view itself goes."""
        flow, last = self._flow(view), self._layout.views[view].current()
        if last is None or last.fingerprint != flow.fingerprint:
            return True
        if not is_folder(self._layout.disk, self._layout.views[view].path(last)):  # whoever removed it
            return True
        since_s = self._now_s() - last.began_s
        # A clock that was set back would otherwise keep it waiting for as long.
        if 0 <= since_s < self._layout.refresh_s(view):
            return False
        return flow.unobserved or last.reads != self._marks(self._layout, flow)

    def _waits(self, view: str) -> bool:
        """For a version of a view that it reads: for the first one of its present query, or for a newer one
        than it has seen, if that is about to come.
        """
        last = self._layout.views[view].current()
        for other in self._views_read(view):
            found = self._layout.views[other].current()
            if found is None or found.fingerprint != self._flow(other).fingerprint:
                return True
            seen = last is not None and last.reads.versions.get(other) == found.folder
            if seen and self._is_coming(other):
                return True
        return False

    def _is_coming(self, view: str) -> bool:
        """Whether a version of it is being made, or will be as soon as those it reads have theirs."""
        with self._lock:
            looked_after, refreshing = view in self._looked_after, view in self._refreshing
        if not looked_after:
            return False
        return refreshing or self._wants(view) or any(map(self._is_coming, self._views_read(view)))

    def _views_read(self, view: str) -> list[str]:
        return [name for name in self._flow(view).static if name in self._layout.views]

    def _flow(self, view: str) -> FlowNode:
        return self._layout.pipeline.writers(view)[0]
