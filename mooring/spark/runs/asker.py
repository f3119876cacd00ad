"""Who asks a run for something, in words for its journal."""

from __future__ import annotations

import getpass
import os
import socket


def this_asker(command: str) -> str:
    """The user, host and process that ask, and what with: `ann@desk, process 7: mooring stop demo`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}, process {os.getpid()}: {command}"
