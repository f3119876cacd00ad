"""What a run that is over has left behind: processes, sockets, threads, control groups and files."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import time
from collections.abc import Iterator
from pathlib import Path

from mooring.cli.output.result_table import Value

MARK = "MOORING_BENCHMARK"
"""The variable of the environment by which everything that a run starts is known."""
EXPECTED = (
    "lock",
    "run.log",
    "run.log.*",
    "status.json",
    "report.json",
    "report.html",
    "problem.json",
    "sessions.json",
    "journal*",
    "requests",
    "matplotlib*",
    "sites",
    "sites/*",
    "sites/*/server.log",
    "sites/*/server.log.*",
    "sites/*/log4j2.properties",
    "sites/*/*.jar",
    "storage.path",
    "tables",
    "tables/*.json",
    "storage",
    "storage/*",
)
"""In `.mooring/`, what is there to be read after a run; of the storage see `TEMPORARY`."""
TEMPORARY = (".*.new", "*.tmp", ".*.tmp.crc", "*.inprogress", "_temporary")
"""Names of what is being written, which nobody may leave in the storage."""
_SETTLING_S = 5.0
"""The kernel takes a moment to take down what a killed process had."""


@contextlib.contextmanager
def marked(mark: str, temporary: Path) -> Iterator[None]:
    """What this process starts carries the mark and has a temporary folder of its own."""
    given = {MARK: mark, "TMPDIR": str(temporary)}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


class Leavings:
    """Made before a start, asked after the stop."""

    def __init__(self, project: Path, temporary: Path, mark: str, *, own: bool = False) -> None:
        self._project = project
        self._temporary = temporary
        self._mark = f"{MARK}={mark}".encode()
        self._own = own
        """Whether the run is part of this process, whose threads and open files then count."""
        self._files = _files(project) | _files(temporary)
        self._groups = _control_groups()
        self._sockets: set[str] = set()
        self._threads = _threads()
        self._handles = _handles("self")

    def note_sockets(self) -> None:
        """While it runs: what its processes hold (and in this process, what it opened) must be gone later."""
        pids: list[str] = [str(pid) for pid in self._processes()]
        held = {socket for pid in pids for socket in _sockets(pid)}
        self._sockets = held | (_sockets("self") - _sockets_of(self._handles) if self._own else set())

    def found(self) -> dict[str, Value]:
        """How many of each kind are left, and which."""
        deadline = time.monotonic() + _SETTLING_S
        while (left := self._left()) and time.monotonic() < deadline:
            time.sleep(0.2)
        kinds = ("processes", "sockets", "threads", "handles", "control groups", "files")
        counts: dict[str, Value] = {kind: len(left.get(kind, ())) for kind in kinds if self._counts(kind)}
        said = "; ".join(f"{kind}: {', '.join(sorted(what)[:5])}" for kind, what in left.items())
        return {**counts, "folders in the storage": self._folders(), "left": said}

    def _counts(self, kind: str) -> bool:
        return self._own or kind not in ("threads", "handles")

    def _left(self) -> dict[str, set[str]]:
        alive = {socket for family in ("tcp", "tcp6", "unix", "udp", "udp6") for socket in _known(family)}
        found = {
            "processes": {f"{pid} {_words(pid)}" for pid in self._processes()},
            "sockets": self._sockets & alive,
            "control groups": _control_groups_of(self._groups),
            "files": self._new_files(),
        }
        if self._own:
            new = {f"{task} {name}" for task, name in _threads().items() if task not in self._threads}
            # Those of gRPC and Arrow come and go; only a process that has more of them has some left.
            found["threads"] = new if len(_threads()) > len(self._threads) else set()
            opened = set(_handles("self").values()) - set(self._handles.values())
            found["handles"] = {os.path.basename(what) for what in opened}
        return {kind: what for kind, what in found.items() if what}

    def _processes(self) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and self._mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return found

    def _new_files(self) -> set[str]:
        work, new = self._project / ".mooring", set()
        for path in (_files(self._project) | _files(self._temporary)) - self._files:
            inside = os.path.relpath(path, work)
            in_storage = inside.startswith("storage/")
            temporary = any(fnmatch.fnmatch(os.path.basename(path), name) for name in TEMPORARY)
            expected = any(fnmatch.fnmatch(inside, name) for name in EXPECTED)
            if (inside != "." and not expected) or (in_storage and temporary):
                new.add(os.path.relpath(path, self._project.parent))
        return new

    def _folders(self) -> int:
        return sum(len(folders) for _, folders, _ in os.walk(self._project / ".mooring" / "storage"))


def _files(folder: Path) -> set[str]:
    """Files and folders below it, links not followed."""
    found = set()
    for parent, folders, files in os.walk(folder):
        found |= {os.path.join(parent, name) for name in (*folders, *files)}
    return found


def _handles(pid: str) -> dict[str, str]:
    """What each open file of a process is."""
    found = {}
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found[name] = os.readlink(f"/proc/{pid}/fd/{name}")
    return found


def _threads() -> dict[str, str]:
    """The kernel's number and name of every thread of this process."""
    found = {}
    for entry in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            found[entry.name] = (entry / "comm").read_text().strip()
    return found


def _sockets_of(handles: dict[str, str]) -> set[str]:
    """The kernel's numbers of those handles that are sockets."""
    return {what[len("socket:[") : -1] for what in handles.values() if what.startswith("socket:[")}


def _sockets(pid: str) -> set[str]:
    return _sockets_of(_handles(pid))


def _known(family: str) -> set[str]:
    """Numbers of all sockets there are; those that only wait for late packets have none."""
    try:
        lines = Path(f"/proc/net/{family}").read_text().splitlines()[1:]
    except OSError:
        return set()
    column = 6 if family == "unix" else 9
    return {line.split()[column] for line in lines} - {"0"}


def _control_groups() -> set[str]:
    return {str(path) for path in Path("/sys/fs/cgroup").glob("**/mooring-*")}


def _control_groups_of(before: set[str]) -> set[str]:
    """New ones that nothing runs in: other runs on this machine have theirs."""
    return {group for group in _control_groups() - before if not _members(group)}


def _members(group: str) -> str:
    try:
        return Path(group, "cgroup.procs").read_text()
    except OSError:
        return "gone"


def _words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:120]
    except OSError:
        return "gone"
