"""CPU and memory of a process and all its descendants: a site's load is that of its whole tree."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_LISTENS = "0A"


@dataclass(frozen=True)
class TreeUsage:
    """What a process tree has used so far (CPU, including ended children it waited for) and holds now
    (memory).
    """

    cpu_s: float
    resident_mb: float
    processes: int


def can_see_processes() -> bool:
    """False where there is no /proc (macOS): loads are then estimates, and must be called so."""
    return (_PROC / "self" / "stat").exists()


def tree_usage(root_pid: int) -> TreeUsage | None:
    """Usage of the tree under `root_pid`, or None if that process is gone or cannot be seen."""
    tree = list(_tree(root_pid).values())
    if not tree:
        return None
    ticks_per_s, page_mb = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE") / 2**20
    return TreeUsage(
        cpu_s=sum(stat.cpu_ticks for stat in tree) / ticks_per_s,
        resident_mb=sum(stat.resident_pages for stat in tree) * page_mb,
        processes=len(tree),
    )


def thread_waits_s(root_pid: int) -> dict[int, float]:
    """Thread of the tree -> how long it was ready to run and waited for a CPU; empty where that is not
    counted.
    """
    found = {}
    for pid in _tree(root_pid):
        with contextlib.suppress(OSError):
            for thread in os.listdir(_PROC / str(pid) / "task"):
                with contextlib.suppress(OSError, ValueError, IndexError):
                    counts = (_PROC / str(pid) / "task" / thread / "schedstat").read_text().split()
                    found[int(thread)] = int(counts[1]) / 1e9
    return found


def listening_pid(port: int) -> int | None:
    """The process that listens at a TCP port of this machine; None if there is none, or it cannot be seen."""
    sockets = set()
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (_PROC / "net" / name).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                    sockets.add(f"socket:[{fields[9]}]")
    for pid in _pids() if sockets else ():
        with contextlib.suppress(OSError):
            for handle in os.listdir(_PROC / str(pid) / "fd"):
                with contextlib.suppress(OSError):
                    if os.readlink(_PROC / str(pid) / "fd" / handle) in sockets:
                        return pid
    return None


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended but was not waited for does not."""
    if can_see_processes():
        stat = _stat(pid)
        return stat is not None and stat.state != "Z"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def holds_lock(pid: int, file: Path) -> bool:
    """Whether that process has a file open and locked; True where that cannot be seen at all.

    A number in a file says little: whoever can write there can write another one, and numbers are given out
    again. What a process has locked the kernel says.
    """
    if not can_see_processes():
        return True
    try:
        wanted = os.stat(file)
        handles = os.listdir(_PROC / str(pid) / "fd")
    except OSError:
        return False
    for handle in handles:
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(_PROC / str(pid) / "fd" / handle), wanted):
                told = (_PROC / str(pid) / "fdinfo" / handle).read_text()
                if any(line.startswith("lock:") for line in told.splitlines()):
                    return True
    return False


@contextlib.contextmanager
def process_handle(pid: int) -> Iterator[Callable[[int], None]]:
    """What sends a signal to that very process: not to another one that has its number by then.
    `ProcessLookupError` if there is none.
    """
    if not hasattr(os, "pidfd_open"):
        yield lambda sent: os.kill(pid, sent)
        return
    handle = os.pidfd_open(pid)
    try:
        yield lambda sent: signal.pidfd_send_signal(handle, sent)
    finally:
        os.close(handle)


@dataclass(frozen=True)
class _Stat:
    state: str
    parent: int
    cpu_ticks: int
    resident_pages: int


def _tree(root_pid: int) -> dict[int, _Stat]:
    """A process and all its descendants; empty if it is gone or cannot be seen."""
    stats = {pid: stat for pid in _pids() if (stat := _stat(pid)) is not None}
    if root_pid not in stats:
        return {}
    children: dict[int, list[int]] = {}
    for pid, stat in stats.items():
        children.setdefault(stat.parent, []).append(pid)
    tree, frontier = dict[int, _Stat](), [root_pid]
    while frontier:
        pid = frontier.pop()
        tree[pid] = stats[pid]
        frontier += children.get(pid, [])
    return tree


def _pids() -> list[int]:
    return [int(entry) for entry in os.listdir(_PROC) if entry.isdigit()] if _PROC.exists() else []


def _stat(pid: int) -> _Stat | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The command name, in parentheses, may hold spaces; the fields after it are numbered from 3 in proc(5).
    fields = text[text.rindex(")") + 2 :].split()
    return _Stat(
        state=fields[0],
        parent=int(fields[1]),
        cpu_ticks=sum(int(fields[at]) for at in (11, 12, 13, 14)),
        resident_pages=int(fields[21]),
    )
