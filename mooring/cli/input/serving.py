"""A service that is started by a run ends with it."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Have the system end this process when the one that started it is gone."""
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it went before we had asked
        os.kill(os.getpid(), signal.SIGTERM)
