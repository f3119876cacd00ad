"""Bringing lost sites back, in the background: embedded ones are started again, others asked until they
answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from mooring.errors import EngineError, described
from mooring.spark.sites.endpoint import close_session, open_session
from mooring.spark.sites.sites import SiteHandle, SiteHandles


@dataclass(frozen=True)
class RevivalOptions:
    first_pause_s: float = 1.0
    longest_pause_s: float = 60.0


class SiteRevival:
    """One thread per lost site, until it is back or the run ends. Its handle in `sites` is replaced then."""

    def __init__(
        self,
        sites: SiteHandles,
        options: RevivalOptions | None = None,
        check: Callable[[SiteHandle], None] = lambda site: None,
    ) -> None:
        """`check` raises `EngineError` if a site answers but cannot be used yet."""
        self._sites, self._check = sites, check
        self._options = options or RevivalOptions()
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._at_work: set[str] = set()
        self._back: list[str] = []
        self._refusals: dict[str, str] = {}

    def look_after(self, site: str) -> None:
        """Begin to bring a site back; does nothing if that is under way."""
        with self._lock:
            if site in self._at_work or self._over.is_set():
                return
            self._at_work.add(site)
        threading.Thread(target=self._revive, args=(site,), name=f"revive {site}", daemon=True).start()

    def returned(self) -> list[str]:
        """Sites that came back since the last call."""
        with self._lock:
            back, self._back = self._back, []
        return back

    def refusals(self) -> dict[str, str]:
        """Site -> what it, or its start, last said."""
        with self._lock:
            return dict(self._refusals)

    def close(self) -> None:
        """Begin no further attempt."""
        with self._lock:
            self._over.set()

    def _revive(self, site: str) -> None:
        pause_s = self._options.first_pause_s
        while not self._over.is_set():
            try:
                handle = self._attempt(self._sites[site])
                with self._lock:
                    self._sites.replace(handle)
                    self._at_work.discard(site)
                    self._refusals.pop(site, None)
                    self._back.append(site)
            except Exception as failure:  # whatever it was, the site is tried again
                with self._lock:
                    self._refusals[site] = described(failure)
            else:
                return
            self._over.wait(pause_s)
            pause_s = min(2 * pause_s, self._options.longest_pause_s)

    def _attempt(self, handle: SiteHandle) -> SiteHandle:
        embedded = handle.embedded
        if embedded is not None and not embedded.is_alive():
            embedded.stop()
            with self._lock:  # so that nothing is started once the run is over
                if self._over.is_set():
                    raise EngineError("the run is over")
                embedded.start()
            handle = replace(handle, endpoint=embedded.wait_ready())
        close_session(open_session(handle.endpoint))  # it answers, and takes the token
        self._check(handle)
        return handle
