"""The run of a project: from this folder, from another checkout on this machine, or on another machine.

What runs is known by the owner of its storage root. On this machine its files can be read and its process
asked; on another one there is the copy of its status in the storage, and the counter of its lease.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mooring.contracts.clock import Clock
from mooring.controller.journal import Journal
from mooring.errors import EngineError
from mooring.spark.ownership.lease import LeaseWatch
from mooring.spark.ownership.owner import OwnerRecord, look
from mooring.spark.pipeline.project import load_project, work_folder_of
from mooring.spark.runs.mailbox import FileMailbox
from mooring.spark.runs.run_files import RunFiles
from mooring.spark.sites.process_tree import is_alive
from mooring.spark.storage.owned_folder import newest_owned

PATIENCE_S = 120.0
"""For a clean end."""
_LISTEN_S = 0.2
_LISTENED_SHARE = 0.3
"""Of a lease: three of the ten moments at which its counter is raised."""


@dataclass(frozen=True)
class FoundRun:
    files: RunFiles
    """Of the run, wherever it is; of the last one if there is none now."""
    record: Path
    """The folder with the journal of the run, or of the last one; the project's own if it never ran."""
    pid: int | None
    """On this machine; None if it runs elsewhere or not at all."""
    elsewhere: OwnerRecord | None = None
    """On another machine."""
    silent_s: float = 0.0
    """How long it gave no sign while its lease was watched; 0 once it did."""

    @property
    def runs(self) -> bool:
        return self.pid is not None or self.elsewhere is not None

    @property
    def page(self) -> str | None:
        """The address of the page that is served of it on this machine."""
        return self.files.page() if self.elsewhere is None else None

    def document(self) -> dict[str, Any]:
        """What `mooring status --json` prints."""
        return {
            "version": 1,
            "running": self.runs,
            "pid": self.pid,
            "elsewhere": None if self.elsewhere is None else str(self.elsewhere),
            "silent_s": self.silent_s,
            "page": self.page,
            "left_sites": Journal(self.record, lambda: 0.0).left_sites(),
            "last": self.files.read_status(),
        }

    def stop(self, asked_by: str, waiting: Callable[[Mapping[str, Any]], None] = lambda moves: None) -> bool:
        """End it cleanly; whether there was anything to end. `waiting` is called with the moves under way."""
        self.refuse_elsewhere("run `mooring stop`")
        mailbox, notice = FileMailbox(self.files.folder), None
        if self.runs:
            with contextlib.suppress(EngineError):  # a full disk keeps nobody from stopping a run
                notice = mailbox.announce_stop(asked_by)
        try:
            stopped = self.files.stop_runner(PATIENCE_S, waiting)
        finally:
            if notice is not None:
                mailbox.withdraw(notice)
        if not stopped and self.pid is not None and is_alive(self.pid):
            raise EngineError(
                f"process {self.pid} owns the storage but was started for another folder, so it was not "
                "signalled",
                remedy="run `mooring stop` in that folder",
            )
        return stopped

    def refuse_elsewhere(self, what: str) -> None:
        """`EngineError` if the run is on a machine whose processes cannot be reached from here."""
        if self.elsewhere is not None:
            raise EngineError(
                f"the project runs on another machine: {self.elsewhere}",
                remedy=f"{what} there, in that folder",
            )


def last_root(files: RunFiles, project: Path) -> Path:
    """The storage root of the last run from here, wherever `mooring.yml` has it now. `EngineError` if it is
    in neither place, unless the project runs from here on this machine.
    """
    last = files.known.path()
    if last is None:
        return load_project(project).settings.storage
    if (missing := files.known.missing(last)) is None or files.running_pid() is not None:
        return last
    now = load_project(project).settings.storage
    if now == last or files.known.missing(now) is not None:
        raise missing
    return now


def find_run(project: Path, clock: Clock) -> FoundRun:
    """Changes nothing, and takes some seconds only if the project runs on another machine."""
    files = RunFiles(work_folder_of(project))
    root = last_root(files, project)
    standing, owned = look(root), newest_owned(root)
    record = files.folder if owned is None else owned.folder
    if standing.record is None or not standing.is_taken:
        return FoundRun(files, record, files.running_pid())
    if standing.state == "here":
        there = RunFiles(Path(standing.record.project) / files.folder.name)
        if (
            there.known.path() == root
        ):  # its folder says so too: what lies in a storage is not to be taken for it
            return FoundRun(there, record, there.running_pid() or standing.record.pid)
        return FoundRun(files, record, files.running_pid() or standing.record.pid)
    watch, silent_s = LeaseWatch(), 0.0
    while not watch.moved and silent_s < _LISTENED_SHARE * standing.record.lease_s:
        before_s = clock.monotonic_s()
        silent_s = watch.stood_still_s(look(root), before_s)
        if not watch.moved:
            clock.sleep(_LISTEN_S)
    silent_s = 0.0 if watch.moved else silent_s
    return FoundRun(RunFiles(record), record, None, standing.record, silent_s)
