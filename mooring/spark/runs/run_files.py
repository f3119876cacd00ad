"""The files one run keeps in `.mooring/`: who runs the project, how it is doing, and its open sessions.

One process at a time runs a project, held by a lock that the system releases when the process ends, however
it ends. `mooring status` and `mooring stop` look here.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mooring.errors import EngineError
from mooring.placement.placement import FragmentSites
from mooring.spark.running.fragment_query import RunningFragment
from mooring.spark.runs.run_report import RunRecord
from mooring.spark.sites.endpoint import Endpoint, close_session, open_session
from mooring.spark.sites.process_tree import is_alive
from mooring.spark.sites.sites import SiteHandle
from mooring.whole_files import write_whole


class RunFiles:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "run.log"
        """What a run in the background prints."""
        self._lock = folder / "lock"
        self._status = folder / "status.json"
        self._sessions = folder / "sessions.json"
        self._statistics = folder / "statistics.json"
        self._unreached: list[dict[str, str]] = []
        """Sessions of earlier runs whose site could not be asked."""

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Own the project for the length of the block."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._lock.open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise EngineError(
                    f"the project already runs, as process {self._owner()}",
                    remedy="see `mooring status`, or end it with `mooring stop`",
                ) from None
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            try:
                yield
            finally:
                lock.truncate(0)

    def running_pid(self) -> int | None:
        """The process that runs the project now, or None."""
        try:
            with self._lock.open("r") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return self._owner()
        except FileNotFoundError:
            return None
        return None

    def stop_runner(
        self, patience_s: float, waiting: Callable[[Mapping[str, Any]], None] = lambda under_way: None
    ) -> bool:
        """Ask the running process to end cleanly; False if none runs. `waiting` is called again and again
        with the list of moves that it sees to an end first.
        """
        pid = self.running_pid()
        if pid is None:
            return False
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + patience_s
        while self.running_pid() == pid or is_alive(pid):
            if time.monotonic() > deadline:
                raise EngineError(
                    f"process {pid} did not end within {patience_s:g} s",
                    remedy="look at its log, then kill it",
                )
            if under_way := (self.read_status() or {}).get("list"):
                waiting(under_way)
            time.sleep(0.1)
        return True

    def write_status(self, status: dict[str, Any]) -> None:
        write_whole(self._status, json.dumps(status))

    def read_status(self) -> dict[str, Any] | None:
        try:
            status: dict[str, Any] = json.loads(self._status.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        return status

    def amend_status(
        self,
        homes: FragmentSites,
        troubles: Mapping[str, str],
        under_way: Mapping[str, object] | None = None,
    ) -> None:
        """Between two looks: what of the last one no longer runs where it did, what is wrong now, and how far
        a list of moves is.
        """
        if (status := self.read_status()) is None:
            return
        fragments = {name: at for name, at in status["fragments"].items() if homes.get(name) == at["site"]}
        with contextlib.suppress(OSError):  # the disk may be full, which the next look says
            self.write_status(
                {**status, "fragments": fragments, "troubles": dict(troubles), "list": under_way}
            )

    def note_statistics(self, record: RunRecord) -> dict[str, object]:
        """Keep what the run has measured so far where the next plan can find it; returns it too."""
        found = {} if record.operation is None else record.operation.as_json()
        if found:
            write_whole(self._statistics, json.dumps({"version": 1, "fragments": found}, indent=1))
        return found

    def read_statistics(self) -> dict[str, Any]:
        """Figures per fragment of the last run that measured any; empty if none did."""
        try:
            data = json.loads(self._statistics.read_text())
        except (OSError, ValueError):
            return {}
        found = data.get("fragments") if isinstance(data, dict) else None
        return found if isinstance(found, dict) else {}

    def forget_status(self) -> None:
        self._status.unlink(missing_ok=True)

    def note_sessions(self, running: Sequence[RunningFragment], sites: Mapping[str, SiteHandle]) -> None:
        """Remember sessions at sites that outlive us, so that the next run can end what they left running."""
        lasting: list[dict[str, str]] = [
            {"site": fragment.site, "fragment": fragment.name, "session": fragment.session_id}
            for fragment in running
            if sites[fragment.site].embedded is None
        ]
        write_whole(self._sessions, json.dumps([*self._unreached, *lasting]), on_disk=True)

    def end_leftovers(self, sites: Mapping[str, SiteHandle]) -> list[str]:
        """Stop queries that a killed run left at existing sites; returns their fragments.

        Those of a site that is gone or does not answer stay noted: the fence holds them back until it can be
        asked.
        """
        ended, left = [], []
        for entry in self._noted_sessions():
            site = sites.get(entry["site"])
            outcome = None if site is None else _end_queries(site.endpoint, entry["session"])
            if outcome is None:
                left.append(entry)
            elif outcome:
                ended.append(entry["fragment"])
        self._unreached = left
        write_whole(self._sessions, json.dumps(left), on_disk=True)
        return ended

    def leftovers(self) -> list[str]:
        """Sites at which queries of an earlier run may still be active."""
        return sorted({entry["site"] for entry in self._noted_sessions()})

    def _noted_sessions(self) -> list[dict[str, str]]:
        try:
            noted = json.loads(self._sessions.read_text())
            return [{key: str(entry[key]) for key in ("site", "fragment", "session")} for entry in noted]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError) as damage:
            raise EngineError(
                f"{self._sessions} cannot be read: {damage}",
                remedy="end what an earlier run left at existing endpoints, then remove the file",
            ) from damage

    def _owner(self) -> int | None:
        text = self._lock.read_text().strip()
        return int(text) if text.isdigit() else None


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
