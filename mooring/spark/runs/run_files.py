"""The files one run keeps in `.mooring/`: which process runs the project from here, and how it is doing.

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
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import urlsplit

from mooring.atomic_files import read_private, write_whole
from mooring.errors import EngineError
from mooring.model.placement.placement import FragmentSites
from mooring.spark.ownership.owner import OwnerRecord, look, owner_lock
from mooring.spark.runs.known_root import KnownRoot
from mooring.spark.sites.process_tree import holds_lock, is_alive, process_handle


class RunFiles:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "run.log"
        """What a run in the background prints."""
        self._lock = folder / "lock"
        self._status = folder / "status.json"
        self._page, self._page_lock = folder / "page.json", folder / "page.lock"
        self._token = folder / "token"
        self.known = KnownRoot(folder)
        self._held: TextIO | None = None
        self._status_copy: Path | None = None

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the project's folder for the length of the block."""
        if not self.hold():
            raise EngineError(
                f"the project already runs as process {self._owner()}",
                remedy="see `mooring status`, or end it with `mooring stop`",
            )
        try:
            yield
        finally:
            self.let_go()

    def hold(self) -> bool:
        """Hold the project's folder from now on, if nobody else does."""
        if self._held is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = self._lock.open("a+")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.close()
                return False
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            self._held = lock
        return True

    def let_go(self) -> None:
        """Nothing happens if it is not held."""
        if self._held is not None:
            self._held.truncate(0)
            self._held.close()
            self._held = None

    def running_pid(self) -> int | None:
        """The process that runs the project from this folder now, or None. Of those that are written down,
        one that holds a lock of the run comes first.
        """
        noted = self._noted_pids()
        return next((pid for pid in noted if self._holds(pid)), next(iter(noted), None))

    def _noted_pids(self) -> list[int]:
        noted = []
        if (root := self.known.path()) is not None:
            owner = look(root)
            if owner.state == "here" and owner.record is not None and self._is_of(owner.record):
                noted.append(owner.record.pid)
        with contextlib.suppress(FileNotFoundError), self._lock.open("r") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                if (pid := self._owner()) is not None:
                    noted.append(pid)
        return noted

    def _locks(self) -> list[Path]:
        """What only the process that runs the project holds."""
        root = self.known.path()
        own = None if root is None else owner_lock(root)
        return [self._lock] if own is None else [self._lock, own]

    def _holds(self, pid: int) -> bool:
        return any(holds_lock(pid, lock) for lock in self._locks())

    def stop_runner(
        self, patience_s: float, waiting: Callable[[Mapping[str, Any]], None] = lambda under_way: None
    ) -> bool:
        """Ask the running process to end cleanly; False if none runs. `waiting` is called again and again
        with the list of moves that it sees to an end first.
        """
        pid = self.running_pid()
        if pid is None:
            return False
        if not self._end(pid):
            return False
        deadline = time.monotonic() + patience_s
        while self.running_pid() == pid or is_alive(pid):
            if time.monotonic() > deadline:
                raise EngineError(
                    f"process {pid} did not end within {patience_s:g} s",
                    remedy="read its log, then kill it",
                )
            if under_way := (self.read_status() or {}).get("list"):
                waiting(under_way)
            time.sleep(0.1)
        return True

    def _end(self, pid: int) -> bool:
        """Ask a process to end, if it is the run; False if there is no such process any more."""
        try:
            with process_handle(pid) as send:
                if not self._holds(pid):
                    locks = " and ".join(map(str, self._locks()))
                    raise EngineError(
                        f"process {pid} is recorded as the run but does not hold {locks}, so it was not "
                        "signalled",
                        remedy="check that process; the run itself ends on SIGTERM",
                    )
                send(signal.SIGTERM)
        except ProcessLookupError:
            return False
        return True

    def copy_status_to(self, folder: Path) -> None:
        """From now on whoever sees that folder can tell how the run is doing."""
        self._status_copy = folder / self._status.name

    def write_status(self, status: dict[str, Any]) -> None:
        content = json.dumps(status)
        write_whole(self._status, content)
        if self._status_copy is not None:
            with contextlib.suppress(OSError):  # the storage may be full, which others notice
                write_whole(self._status_copy, content)

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

    @contextlib.contextmanager
    def serving_page(self, url: str) -> Iterator[None]:
        """For as long as the block lasts this process serves the page there, so that others can tell where.
        Of several that serve it, the first is told of.
        """
        with self._page_lock.open("a") as lock:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                write_whole(self._page, json.dumps({"url": url}))
            yield

    def page(self) -> str | None:
        """The address of the page that is served now, with the token where this user may read it."""
        try:
            with self._page_lock.open("r") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
        except FileNotFoundError:
            return None
        except BlockingIOError:
            url = self._last_page()
        token = b""
        with contextlib.suppress(OSError):
            token = read_private(self._token) or b""
        return f"{url}#token={token.decode().strip()}" if url and token else url

    def last_page_port(self) -> int | None:
        """Where the page was served last: a bookmark stays valid where it is served there again."""
        url = self._last_page()
        return None if url is None else urlsplit(url).port

    def _last_page(self) -> str | None:
        try:
            return str(json.loads(self._page.read_text())["url"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def forget_status(self) -> None:
        self._status.unlink(missing_ok=True)

    def _is_of(self, owner: OwnerRecord) -> bool:
        return Path(owner.project) == self.folder.parent

    def _owner(self) -> int | None:
        text = self._lock.read_text().strip()
        return int(text) if text.isdigit() else None
