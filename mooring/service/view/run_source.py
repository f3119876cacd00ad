"""A run as read from its files: status, problem and journal, read again when they have changed.

The service is a process of its own beside the run (decision 0060), so it never delays the run's loop, and it
can be started, ended and started again while the run goes on.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from mooring.contracts.clock import Clock
from mooring.controller.journal import FILE_NAME, Journal, Record
from mooring.errors import EngineError, MooringError
from mooring.model.problem.problem import Problem
from mooring.spark.definitions.pipeline_spec import load_spec, spec_file_of
from mooring.spark.runs.found_run import FoundRun, find_run
from mooring.spark.runs.run_client import MoveAsker
from mooring.spark.runs.run_logs import RunLog, find_logs
from mooring.spark.runs.spark_run import PROBLEM_FILE_NAME

Read = TypeVar("Read")
_FIND_S = 1.0
"""Seconds between two looks for who runs the project, which reads some files."""


class _Watched(Generic[Read]):
    """A file's content, read again only when the file is another one."""

    def __init__(self, read: Callable[[Path], Read], nothing: Read) -> None:
        self._read, self._nothing = read, nothing
        self._seen: tuple[Path, int, int, int] | None = None
        self.content = nothing

    def look(self, path: Path) -> bool:
        """Whether there is something new."""
        try:
            found = path.stat()
            seen = (path, found.st_mtime_ns, found.st_size, found.st_ino)
        except OSError:
            seen = None
        if seen == self._seen:
            return False
        try:
            self.content = self._nothing if seen is None else self._read(path)
        except (OSError, ValueError, MooringError):
            return False  # half a file, or none any more: the next look sees it whole
        self._seen = seen
        return True


class RunSource:
    """The run of a project, wherever on this machine it was started."""

    def __init__(self, project: Path, clock: Clock) -> None:
        self.project, self.clock = project, clock
        self._found: FoundRun | None = None
        self._found_s = 0.0
        self._name = ""
        self._status: _Watched[dict[str, Any] | None] = _Watched(_json, None)
        self._problem: _Watched[Problem | None] = _Watched(Problem.load, None)
        self._records: _Watched[list[Record]] = _Watched(
            lambda path: Journal(path.parent, clock.now_s).records(), []
        )

    def look(self) -> bool:
        """Look at the files again; whether anything has changed since the last time."""
        now_s, was = self.clock.monotonic_s(), self.runs
        if self._found is None or now_s >= self._found_s + _FIND_S:
            self._found, self._found_s = find_run(self.project, self.clock), now_s
        folder = self._found.files.folder
        changed = [
            self._status.look(folder / "status.json"),
            self._problem.look(folder / PROBLEM_FILE_NAME),
            self._records.look(self._found.record / FILE_NAME),
            was != self.runs,
        ]
        return any(changed)

    @property
    def runs(self) -> bool:
        return self._found is not None and self._found.runs

    @property
    def status(self) -> Mapping[str, Any] | None:
        """As of the run's last look; None before its first."""
        return self._status.content

    @property
    def pipeline(self) -> str:
        """Its name, by what runs, or else by its spec; empty where neither can be read."""
        if self.status is not None:
            self._name = str(self.status.get("pipeline") or self._name)
        if not self._name:
            with contextlib.suppress(MooringError, OSError):
                self._name = load_spec(spec_file_of(self.project)).name
        return self._name

    @property
    def problem(self) -> Problem | None:
        """As the run understands it; None where the project has never run."""
        return self._problem.content

    @property
    def records(self) -> list[Record]:
        """Of the journal, the oldest first."""
        return self._records.content

    def stop(self, asked_by: str) -> bool:
        """End the run; whether there was anything to end."""
        return self._found is not None and self._found.stop(asked_by)

    def logs(self) -> list[RunLog]:
        return [] if self._found is None else find_logs(self._found.files.folder)

    def asker(self, asked_by: str) -> MoveAsker:
        """To ask the run for something, on behalf of somebody."""
        if self._found is None or self.problem is None:
            raise EngineError("the project has never run", remedy="start it with `mooring run`")
        self._found.refuse_elsewhere("request it")
        journal = Journal(self._found.record, self.clock.now_s)
        return MoveAsker(self.problem, self._found.files, journal, self.clock, asked_by)


def _json(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content
