"""A log that cannot be filled: what is said again and again is written ever more rarely.

A line is written the first, second, fourth, eighth ... time, each time with its count, so a fault that
repeats for months leaves twenty lines per million. Only so many different lines are counted separately;
further ones share one entry.
"""

from __future__ import annotations

import contextlib
import traceback
from collections import Counter
from collections.abc import Callable
from typing import TextIO

MOST_LINES = 200
"""That are told apart."""
MOST_CHARACTERS = 2_000
"""Of one entry: names and values in it come from elsewhere."""
_OTHERS = "all other lines together"


class BoundedLog:
    """A log that cannot be written, because the disk is full for instance, is passed over."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.said: Counter[str] = Counter()

    def line(self, text: str) -> None:
        self._say(text, lambda: "")

    def failure(self, text: str, error: BaseException) -> None:
        """With the last calls that led to it. Failures at one place are one line, whatever the values."""
        calls = [*traceback.walk_tb(error.__traceback__)]
        place = f"{calls[-1][0].f_code.co_name}, line {calls[-1][1]}" if calls else "nowhere"
        self._say(
            f"{text}: {type(error).__name__} in {place}",
            lambda: "".join(traceback.format_exception(error, limit=-3)),
        )

    def _say(self, text: str, details: Callable[[], str]) -> None:
        """`details` go with the line and do not make it another one. They are made if it is written."""
        key = text[:MOST_CHARACTERS]
        if key not in self.said and len(self.said) >= MOST_LINES:
            key = _OTHERS
        self.said[key] += 1
        count = self.said[key]
        if count & (count - 1):
            return
        again = f" (for the {count}th time)" if count > 2 else ""
        more = f":\n{told.rstrip()}" if (told := details()[-MOST_CHARACTERS:]) else ""
        with contextlib.suppress(OSError, ValueError):
            self._out.write(f"{text[:MOST_CHARACTERS]}{again}{more}\n")
            self._out.flush()
