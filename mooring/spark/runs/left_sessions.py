"""Sessions at sites that outlive a run: noted before anything runs in them, until it is known to have ended.

A query outlives the client that started it, and only a session with the same id finds it again. The note lies
in the storage root, where the next run of the project finds it, on any machine. It says at which endpoint a
session is, since the site of that name may be another one by then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.errors import PySparkException

from mooring.checksum import checked, with_sum
from mooring.disk import DISK, Disk, read_if_there
from mooring.errors import EngineError, SiteLostError
from mooring.spark.engine.fragment_registry import OpenSession
from mooring.spark.sites.endpoint import Endpoint, close_session, is_session_gone, open_session
from mooring.spark.sites.site_calls import FIRST_PATIENCE_S, SiteCalls
from mooring.spark.sites.sites import SiteHandle

FILE_NAME = "sessions.json"
Entry = dict[str, str]
"""With `site`, `fragment`, `session`, and `endpoint` unless an older Mooring wrote it."""


class LeftSessions:
    def __init__(self, folder: Path, disk: Disk = DISK) -> None:
        self.file, self._disk = folder / FILE_NAME, disk
        self._unreached: list[Entry] = []
        """Sessions of earlier runs whose site could not be asked."""
        self._written: list[Entry] | None = None

    def note(self, sessions: Sequence[OpenSession], sites: Mapping[str, SiteHandle]) -> None:
        """Remember those at sites that outlive us, beside what earlier runs have left, so that the next run
        can end what is left of them.
        """
        lasting = [
            {
                "site": each.site,
                "fragment": each.fragment,
                "session": each.session_id,
                "endpoint": sites[each.site].endpoint.shown,
            }
            for each in sessions
            if sites[each.site].embedded is None
        ]
        self._write([*self._unreached, *lasting])

    def end_all(self, sites: Mapping[str, SiteHandle]) -> list[str]:
        """Stop queries that a killed run left at existing sites; returns their fragments.

        Those of a site that is gone or does not answer stay noted: the fence holds them back until it can be
        asked.
        """
        ended, left = [], []
        calls = SiteCalls(FIRST_PATIENCE_S)
        for entry in self._noted():
            outcome = _outcome(entry, sites, calls)
            if outcome is None:
                left.append(entry)
            elif outcome:
                ended.append(entry["fragment"])
        calls.close()
        self._unreached = left
        try:
            self._write(left)
        except OSError as failure:
            raise EngineError(
                f"the queries left by an earlier run cannot be noted in {self.file}: {failure}",
                remedy=(
                    "free space, or check that the storage root exists and is writable; nothing was started"
                ),
            ) from failure
        return ended

    def left(self) -> list[str]:
        """Where queries of an earlier run may still be active, in words, by endpoint."""
        found: dict[str, list[str]] = {}
        for entry in self._noted():
            found.setdefault(place_of(entry), []).append(f"{entry['fragment']} (session {entry['session']})")
        return [f"{', '.join(sorted(each))} at {at}" for at, each in sorted(found.items())]

    def _noted(self) -> list[Entry]:
        try:
            found = read_if_there(self._disk, self.file)
            return [] if found is None else read_entries(found)
        except (OSError, ValueError, KeyError, TypeError) as damage:
            raise EngineError(
                f"{self.file} cannot be read: {damage}",
                remedy="end the queries that an earlier run left at existing endpoints, then remove the file",
            ) from damage

    def _write(self, entries: list[Entry]) -> None:
        if entries != self._written:
            self._disk.replace(self.file, with_sum(json.dumps({"sessions": entries}).encode()))
            self._written = entries


def read_entries(content: bytes) -> list[Entry]:
    """`ValueError`, `KeyError` or `TypeError` where they are damaged. Without a checksum they were a list."""
    found = json.loads(checked(content))
    return [
        {key: str(entry[key]) for key in ("site", "fragment", "session")}
        | {key: str(entry[key]) for key in ("endpoint",) if key in entry}
        for entry in (found if isinstance(found, list) else found["sessions"])
    ]


def place_of(entry: Entry) -> str:
    """Site and endpoint, in words."""
    return entry["site"] + (f" ({entry['endpoint']})" if "endpoint" in entry else "")


def _outcome(entry: Entry, sites: Mapping[str, SiteHandle], calls: SiteCalls) -> bool | None:
    """Whether its queries still ran, and have been stopped; None if they cannot be asked about."""
    if (at := entry.get("endpoint")) is None:
        site = sites.get(entry["site"])
    else:
        site = next((s for s in sites.values() if s.embedded is None and s.endpoint.shown == at), None)
    if site is None:
        return None
    try:
        return calls.ask(site.name, lambda: _end_queries(site.endpoint, entry["session"]))
    except SiteLostError:
        return None


def _end_queries(endpoint: Endpoint, session_id: str) -> bool:
    """Whether queries of that session still ran, and have been stopped; `SiteLostError` if the site does not
    answer.
    """
    try:
        session = open_session(endpoint, session_id)
        try:
            active = session.streams.active
            for query in active:
                query.stop()
            return bool(active)
        finally:
            close_session(session)
    except (SiteLostError, PySparkException) as failure:
        if is_session_gone(failure.__cause__ or failure):  # the server closed it, and so its queries
            return False
        raise SiteLostError(str(failure)) from failure
