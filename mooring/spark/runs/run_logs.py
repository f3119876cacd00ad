"""The log files of a project: of its run, its embedded sites and its agents. An existing endpoint has its log
on its own machine."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from mooring.agents.project_members import AGENTS_FOLDER_NAME
from mooring.spark.runs.run_lock import STANDBY_LOG
from mooring.spark.runs.spark_run import PROBLEM_FILE_NAME
from mooring.spark.sites.file_name import file_name

MOST_TAIL_BYTES = 256_000
_SECRET = re.compile(r"\btoken=[^\s&;,'\"]+")
Kind = Literal["run", "standby", "site", "agent"]


@dataclass(frozen=True)
class RunLog:
    kind: Kind
    site: str | None
    """Whose it is, for sites and agents."""
    file: Path

    @property
    def name(self) -> str:
        """
        >>> RunLog("site", "oslo", Path("server.log")).name, RunLog("run", None, Path("run.log")).name
        ('site oslo', 'run')
        """
        return self.kind if self.site is None else f"{self.kind} {self.site}"

    def as_json(self) -> dict[str, object]:
        found = self.file.stat()
        return {
            "name": self.name,
            "kind": self.kind,
            "site": self.site,
            "path": str(self.file),
            "bytes": found.st_size,
            "changed_s": found.st_mtime,
        }

    def tail(self, lines: int) -> list[str]:
        """The last lines, of at most `MOST_TAIL_BYTES`."""
        with self.file.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(0, size - MOST_TAIL_BYTES))
            text = log.read().decode(errors="replace")
        found = text.splitlines()
        return [_shown(line) for line in (found[1:] if size > MOST_TAIL_BYTES else found)[-lines:]]


def find_logs(work_folder: Path) -> list[RunLog]:
    """Those that exist: the run's first, then by site."""
    found = [RunLog("run", None, work_folder / "run.log"), RunLog("standby", None, work_folder / STANDBY_LOG)]
    names = {file_name(name): name for name in _site_names(work_folder)}
    newest: dict[str, Path] = {}
    for file in sorted(work_folder.glob("sites*/*/server.log"), key=_changed_s):
        newest[names.get(file.parent.name, file.parent.name)] = file
    found += [RunLog("site", site, file) for site, file in sorted(newest.items())]
    agents = sorted(work_folder.glob(f"{AGENTS_FOLDER_NAME}/*/agent.log"))
    found += [RunLog("agent", unquote(file.parent.name), file) for file in agents]
    return [log for log in found if log.file.is_file()]


def _changed_s(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _site_names(work_folder: Path) -> Collection[str]:
    """Of the last run that planned anything."""
    try:
        sites: dict[str, object] = json.loads((work_folder / PROBLEM_FILE_NAME).read_text())["sites"]
    except (OSError, ValueError, KeyError):
        return ()
    return sites


@dataclass
class Followed:
    """What comes to a log from now on, also after it was emptied or replaced."""

    log: RunLog
    _inode: int = field(init=False)
    _read_to: int = field(init=False)
    _rest: bytes = field(init=False, default=b"")

    def __post_init__(self) -> None:
        found = self.log.file.stat()
        self._inode, self._read_to = found.st_ino, found.st_size

    def lines(self) -> Iterator[str]:
        """Those that are complete and were not given before."""
        try:
            with self.log.file.open("rb") as file:
                found = os.fstat(file.fileno())
                if found.st_ino != self._inode or found.st_size < self._read_to:
                    self._inode, self._read_to, self._rest = found.st_ino, 0, b""
                file.seek(self._read_to)
                content = file.read()
        except FileNotFoundError:  # between two files of this name
            return
        self._read_to += len(content)
        *whole, self._rest = (self._rest + content).split(b"\n")
        yield from (_shown(line.decode(errors="replace")) for line in whole)


def _shown(line: str) -> str:
    """Logs are passed on to others, tokens are not.

    >>> _shown("page: http://127.0.0.1:8080/#token=secret")
    'page: http://127.0.0.1:8080/#token=...'
    """
    return _SECRET.sub("token=...", line)
