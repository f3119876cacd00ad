"""Every step of an agent's machines, a JSON line each, in a file that stays short.

A line is written before its effects are carried out: what others can see of a site is in its trace, whenever
the process is killed. What the last line of a killed process promised may not have happened any more
(`trace_replay.py` tells by what came back from the disk).
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import msgspec

from mooring.contracts.site_machine import Effect, Event

MOST_TRACE_BYTES = 8_000_000
"""A longer one is begun anew; what it held is kept once more, as `trace.jsonl.1`."""


class TraceLine(msgspec.Struct, frozen=True):
    time_ms: float
    protocol: str
    sites: int
    seed: int
    site: int
    incarnation: int
    number: int
    """Counts the steps of an incarnation."""
    event: Event
    effects: tuple[Effect, ...]
    took_ms: float = 0.0
    """For which the machine was busy with the event. A replay does not repeat it."""


class TraceFile:
    def __init__(self, path: Path, most_bytes: int = MOST_TRACE_BYTES) -> None:
        self.path, self._most_bytes = path, most_bytes
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._encode = msgspec.json.Encoder().encode
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")  # the last process was killed within a line
        self._bytes = size

    def write(self, line: TraceLine) -> None:
        """A disk that takes no more costs the trace, never the agent."""
        with contextlib.suppress(OSError):
            if self._bytes > self._most_bytes:
                shutil.copyfile(self.path, self.path.with_name(self.path.name + ".1"))
                os.ftruncate(self._file, 0)
                self._bytes = 0
            self._bytes += os.write(self._file, self._encode(line) + b"\n")

    def close(self) -> None:
        os.close(self._file)
