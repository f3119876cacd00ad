"""Sessions at sites that outlive a run: noted while it runs, so that the next one can end what they left.

A query outlives the client that started it, and only a session with the same id finds it again. The note lies
in the storage root, where whoever runs the project next, on whichever machine, sees it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from mooring.errors import EngineError
from mooring.spark.running.fragment_query import RunningFragment
from mooring.spark.sites.endpoint import Endpoint, close_session, open_session
from mooring.spark.sites.sites import SiteHandle
from mooring.whole_files import write_whole

FILE_NAME = "sessions.json"


class LeftSessions:
    def __init__(self, folder: Path) -> None:
        self.file = folder / FILE_NAME
        self._unreached: list[dict[str, str]] = []
        """Sessions of earlier runs whose site could not be asked."""

    def note(self, running: Sequence[RunningFragment], sites: Mapping[str, SiteHandle]) -> None:
        """Remember sessions at sites that outlive us, so that the next run can end what they left running."""
        lasting: list[dict[str, str]] = [
            {"site": fragment.site, "fragment": fragment.name, "session": fragment.session_id}
            for fragment in running
            if sites[fragment.site].embedded is None
        ]
        write_whole(self.file, json.dumps([*self._unreached, *lasting]), on_disk=True)

    def end_all(self, sites: Mapping[str, SiteHandle]) -> list[str]:
        """Stop queries that a killed run left at existing sites; returns their fragments.

        Those of a site that is gone or does not answer stay noted: the fence holds them back until it can be
        asked.
        """
        ended, left = [], []
        for entry in self._noted():
            site = sites.get(entry["site"])
            outcome = None if site is None else _end_queries(site.endpoint, entry["session"])
            if outcome is None:
                left.append(entry)
            elif outcome:
                ended.append(entry["fragment"])
        self._unreached = left
        write_whole(self.file, json.dumps(left), on_disk=True)
        return ended

    def sites(self) -> list[str]:
        """Sites at which queries of an earlier run may still be active."""
        return sorted({entry["site"] for entry in self._noted()})

    def _noted(self) -> list[dict[str, str]]:
        try:
            noted = json.loads(self.file.read_text())
            return [{key: str(entry[key]) for key in ("site", "fragment", "session")} for entry in noted]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError) as damage:
            raise EngineError(
                f"{self.file} cannot be read: {damage}",
                remedy="end what an earlier run left at existing endpoints, then remove the file",
            ) from damage


def _end_queries(endpoint: Endpoint, session_id: str) -> bool | None:
    """Whether queries of that session still ran, and have been stopped; None if the site does not answer."""
    try:
        close_session(open_session(endpoint))
    except EngineError:
        return None
    try:
        session = open_session(endpoint, session_id)
    except EngineError:  # the server closed that session, and so its queries
        return False
    try:
        active = session.streams.active
        for query in active:
            query.stop()
        return bool(active)
    finally:
        close_session(session)
