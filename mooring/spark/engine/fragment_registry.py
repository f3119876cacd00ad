"""Which fragments run where, which of them a move has in hand, and which queries could not be ended.

The only list of running fragments, for all parts that start, stop, move or watch them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mooring.errors import EngineError
from mooring.model.placement.placement import FragmentSites
from mooring.spark.engine.fragment_query import RunningFragment


@dataclass(frozen=True)
class OpenSession:
    """At a site, with a query of a fragment in it that is not known to have ended."""

    site: str
    fragment: str
    session_id: str


class Roster:
    def __init__(self, note: Callable[[Sequence[OpenSession]], None] = lambda sessions: None) -> None:
        """`note` is called with all open sessions before a query starts in another one, and when one has
        ended.
        """
        self._note = note
        self._open: dict[str, OpenSession] = {}
        self._lock = threading.Lock()  # fragments of different sites are started side by side
        self._noting = threading.Lock()  # so that what is noted last is the newest
        self._running: dict[str, RunningFragment] = {}
        self._moving: set[str] = set()
        self._left_behind: dict[str, list[RunningFragment]] = {}

    # What runs

    def __getitem__(self, fragment: str) -> RunningFragment:
        with self._lock:
            if fragment not in self._running:
                raise EngineError(f"the fragment {fragment!r} does not run")
            return self._running[fragment]

    def __contains__(self, fragment: object) -> bool:
        with self._lock:
            return fragment in self._running

    def homes(self) -> FragmentSites:
        """Fragment -> site, of those that run."""
        return FragmentSites({each.name: each.site for each in self.running()})

    def running(self) -> list[RunningFragment]:
        with self._lock:
            return list(self._running.values())

    def at(self, site: str) -> list[str]:
        """The fragments that run at a site."""
        return [each.name for each in self.running() if each.site == site]

    def refuse_running(self, fragment: str) -> None:
        """`EngineError` if it runs already."""
        if fragment in self:
            raise EngineError(f"the fragment {fragment!r} already runs at {self[fragment].site!r}")

    def add(self, started: RunningFragment) -> None:
        with self._lock:
            self._running[started.name] = started

    def remove(self, fragment: str) -> RunningFragment | None:
        """Take a fragment off the list; None if it is not on it."""
        with self._lock:
            return self._running.pop(fragment, None)

    def remove_unless_moving(self, fragment: str) -> RunningFragment | None:
        """The same, but what a move has in hand stays as it is, and None is returned."""
        with self._lock:
            return None if fragment in self._moving else self._running.pop(fragment, None)

    # Sessions, whose queries outlive this process at sites that do

    def opened(self, session: OpenSession) -> None:
        """A query is about to start in it: from now on until it is known to have ended, it is noted."""
        with self._lock:
            self._open[session.session_id] = session
        try:
            self._note_open()
        except OSError as failure:
            with self._lock:
                del self._open[session.session_id]
            raise EngineError(
                f"the list of open sessions cannot be written: {failure}",
                remedy="free space or repair the folder",
            ) from failure

    def closed(self, session_id: str) -> None:
        """Nothing runs in it any more. Nothing happens if it was never opened."""
        with self._lock:
            known = self._open.pop(session_id, None)
        if known is not None:
            with contextlib.suppress(OSError):  # the next run finds that it has ended
                self._note_open()

    def _note_open(self) -> None:
        with self._noting:
            with self._lock:
                sessions = list(self._open.values())
            self._note(sessions)

    # What a move has in hand

    @contextlib.contextmanager
    def in_hand(self, fragment: str) -> Iterator[RunningFragment]:
        """For the length of a move nothing else may start or stop the fragment."""
        with self._lock:
            if fragment in self._moving:
                raise EngineError(f"the fragment {fragment!r} is being moved already")
            if fragment not in self._running:
                raise EngineError(f"the fragment {fragment!r} does not run")
            running = self._running[fragment]
            self._moving.add(fragment)
        try:
            yield running
        finally:
            with self._lock:
                self._moving.discard(fragment)

    def in_move(self, fragment: str) -> bool:
        with self._lock:
            return fragment in self._moving

    def stands(self, seen: RunningFragment) -> bool:
        """Whether that very query is still the fragment's, and no move has it in hand."""
        with self._lock:
            return self._running.get(seen.name) is seen and seen.name not in self._moving

    def is_idle(self, fragment: str) -> bool:
        """Whether it neither runs nor is in a move."""
        with self._lock:
            return fragment not in self._running and fragment not in self._moving

    # What could not be ended

    def leave_behind(self, unstopped: RunningFragment) -> None:
        """Its site did not answer: the fence holds its query back, and it is ended when the site does."""
        with self._lock:
            self._left_behind.setdefault(unstopped.site, []).append(unstopped)

    def sites_of_leftovers(self) -> list[str]:
        with self._lock:
            return list(self._left_behind)

    def take_leftovers(self, site: str) -> list[RunningFragment]:
        with self._lock:
            return self._left_behind.pop(site, [])
