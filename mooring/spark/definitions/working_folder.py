"""The current folder while definitions are run: the project's, as under `spark-pipelines`.

A process has one current folder and several threads that build flows side by side, so the first to come in
changes it and the last to leave changes it back; another project waits meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from mooring.errors import InputError

_change = threading.Condition()
_inside: list[Path] = []
"""The project's folder once for every thread that is inside; all the same."""
_outside: list[str] = []


def command_folder() -> Path:
    """The current folder of the process, whatever definitions are run in another thread meanwhile."""
    try:
        with _change:
            return Path(_outside[0] if _outside else os.getcwd())
    except FileNotFoundError as gone:
        raise InputError(
            "the current folder no longer exists", remedy="change into an existing folder"
        ) from gone


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Relative paths in Python start at `folder`."""
    with _change:
        _change.wait_for(lambda: not _inside or _inside[0] == folder)
        if not _inside:
            _outside[:] = [os.getcwd()]
            os.chdir(folder)
        _inside.append(folder)
    try:
        yield
    finally:
        with _change:
            _inside.pop()
            if not _inside:
                os.chdir(_outside.pop())
            _change.notify_all()
