"""Holds on a channel: whoever reads a fixed set of its files, and so needs them on disk until it is done.

They are kept in memory, since a reader that holds files lives no longer than the run that deletes them.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Holds:
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held by whoever decides what is deleted, and by whoever looks up what there is in order to hold it."""
    _positions: dict[int, int] = field(default_factory=dict)
    _since_s: dict[int, float] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def take(self, position: int) -> int:
        """Nothing from `position` on goes until the hold, whose number is returned, is released."""
        number = next(self._numbers)
        self._positions[number], self._since_s[number] = position, time.monotonic()
        return number

    def release(self, number: int) -> None:
        with self.lock:
            del self._positions[number], self._since_s[number]

    @property
    def lowest(self) -> float:
        """The position from which on something is held."""
        return min(self._positions.values(), default=math.inf)

    @property
    def longest_s(self) -> float:
        """Seconds since the oldest hold was taken; 0 if there is none."""
        return time.monotonic() - min(self._since_s.values()) if self._since_s else 0.0
