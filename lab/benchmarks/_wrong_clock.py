"""A clock that can be set while processes go by it, without touching the machine's.

A library of ours is loaded into them (LD_PRELOAD). libfaketime 0.9.10 would not do: told to leave
monotonic clocks alone, it refuses `clock_nanosleep` up to an instant, and so every `time.sleep` of
Python 3.11. Dates of files are the kernel's and stay right, as on a disk of another machine.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DAY_S = 86_400
_CODE = Path(__file__).with_suffix(".c")


class Clock:
    """One of them. Processes that are started with its `environment` go by it."""

    def __init__(self, folder: Path, library: Path | None) -> None:
        """`library`: as `built_library` makes it; without one it is always right."""
        folder.mkdir()
        self._file = folder / "ahead_s"
        self._file.write_bytes(bytes(8))
        self.environment: dict[str, str] = (
            {} if library is None else {"LD_PRELOAD": str(library), "WRONG_CLOCK": str(self._file)}
        )

    @contextmanager
    def ahead(self, by_s: int) -> Iterator[None]:
        self._set(by_s)
        try:
            yield
        finally:
            self._set(0)

    def _set(self, ahead_s: int) -> None:
        """In its place: processes have it mapped."""
        with self._file.open("r+b", buffering=0) as out:
            out.write(ahead_s.to_bytes(8, "little", signed=True))


def why_not() -> str | None:
    """Why no clock can be set here; None if it can."""
    return "no C compiler (cc)" if shutil.which("cc") is None else None


def built_library(folder: Path) -> Path | None:
    """None where it cannot be built."""
    if why_not() is not None:
        return None
    library = folder / "wrong_clock.so"
    command = ["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", str(library), str(_CODE)]
    subprocess.run([*command, "-ldl"], check=True)
    return library
