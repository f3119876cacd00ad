"""A tiny parent for one embedded site, so that the site never outlives Mooring.

Run as a script, with the standard library only. It starts the given command in a session of its own, appends
its output to a log, which it keeps short, and watches standard input: Mooring holds the other end of that
pipe and never writes, so the pipe ends exactly when Mooring closes it or is gone, even by kill -9. Then the
command's whole process group is asked to end, and after a grace period made to. Should the keeper itself be
killed, Linux ends the command for it (PR_SET_PDEATHSIG; elsewhere that last case is not covered).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import stat
import subprocess
import sys
import time
from typing import Any

_PR_SET_PDEATHSIG = 1
_POLL_S = 0.2
MOST_LOG_BYTES = 10_000_000
"""A log that is longer is begun anew; what it held is kept once more, under another name."""
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _die_with_parent(keeper: int) -> None:
    """Runs in the child, between fork and exec."""
    # An ignored signal stays ignored across exec, and a JVM then never hears SIGTERM.
    for ignored in _IGNORED:
        signal.signal(ignored, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:  # the keeper died before the call above took effect
            os._exit(1)


def _end_group(child: subprocess.Popen[bytes], grace_s: float) -> None:
    for sent, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, grace_s)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, sent)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(patience_s)
            break
    # Python workers of a dead JVM may linger for a moment in its group.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def keep_short(log: str, most_bytes: int = MOST_LOG_BYTES) -> bool:
    """Move what a log holds to `LOG.1` once it is too long; whether that was done.

    The file stays the same, since whoever writes to it has it open. It must be open for appending, or a hole
    would be left where the old lines were. Lines that come between copying and emptying are lost.
    """
    try:
        if os.path.getsize(log) <= most_bytes:
            return False
        with contextlib.suppress(OSError):  # on a full disk the old lines go
            _copy_for_the_same(log, f"{log}.1")
        os.truncate(log, 0)
    except OSError:
        return False
    return True


def _copy_for_the_same(log: str, kept: str) -> None:
    """Nobody can read the copy who cannot read the log, which may hold a token; not even for a moment."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(kept)
    with open(log, "rb") as lines:
        mode = stat.S_IMODE(os.fstat(lines.fileno()).st_mode)
        handle = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with open(handle, "wb") as copy:
            os.fchmod(handle, mode)
            shutil.copyfileobj(lines, copy)


def _clean_up(scratch: str, cgroups: list[str]) -> None:
    shutil.rmtree(scratch, ignore_errors=True)
    for group in cgroups:
        for _ in range(20):
            try:
                os.rmdir(group)
            except FileNotFoundError:
                break
            except OSError:  # the kernel has not noticed yet that the group is empty
                time.sleep(_POLL_S)


def keep(order: dict[str, Any]) -> int:
    """Run the ordered command until it ends or standard input does; returns its exit code."""
    for ignored in _IGNORED:
        signal.signal(ignored, signal.SIG_IGN)
    keeper = os.getpid()
    with open(order["log"], "ab", buffering=0) as log:
        child = subprocess.Popen(
            order["command"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=lambda: _die_with_parent(keeper),
        )
        sys.stdout.write(f"{child.pid}\n")
        sys.stdout.flush()
        while child.poll() is None:
            if select.select([sys.stdin], [], [], _POLL_S)[0]:
                break
            keep_short(order["log"], order.get("most_log_bytes", MOST_LOG_BYTES))
        _end_group(child, order["grace_s"])
    _clean_up(order["scratch"], order["cgroups"])
    return child.returncode if child.returncode is not None else 1


if __name__ == "__main__":
    sys.exit(keep(json.loads(sys.argv[1])))
