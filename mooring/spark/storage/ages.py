"""The age of a table's files, by the time that has passed and not by their dates.

A clock that is set wrong for a moment dates files years ahead, and by their dates all others would be too
old. So no date counts. The channel's note says up to which position there were files at which moment, and
moments are counted in seconds that have passed for certain: by the machine's clock since it was started,
which cannot be set, and which goes on while it sleeps. What passes while the machine is off, or until another
one takes over, is not counted: files stay so much longer.
"""

from __future__ import annotations

import time
from pathlib import Path
from secrets import token_hex
from typing import Any

_KEY = "seen"
"""Of the channel's note."""
LATE = 0.01
"""By which part of its age a file may be removed too late."""
_BOOT, _UPTIME = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/uptime")
_OWN = token_hex(8)


def passed() -> tuple[str, float]:
    """Since when this machine counts, by a name, and the seconds since then."""
    try:
        return _BOOT.read_text().strip(), float(_UPTIME.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _OWN, time.monotonic()  # for this process alone


def passed_since(boot: str, up_s: float) -> float | None:
    """Seconds since a moment; None if this machine cannot tell."""
    now_boot, now_s = passed()
    return now_s - up_s if now_boot == boot and now_s >= up_s else None


class Ages:
    """Of one channel's files; what is remembered is in its note."""

    def __init__(self, span_s: float) -> None:
        """`span_s`: ages of interest are not much longer."""
        self._span_s = span_s

    def now_s(self, note: dict[str, Any]) -> float:
        """Seconds since 1970, by the clock as it was when the channel was first looked at."""
        if (seen := note.get(_KEY)) is None:
            return time.time()
        since_s = passed_since(seen["boot"], seen["up_s"])
        return float(seen["at_s"]) + (since_s or 0.0)

    def take(self, note: dict[str, Any], end: int) -> bool:
        """Remember that there are files up to `end` now; whether the note has changed."""
        now_s, (boot, up_s), step_s = self.now_s(note), passed(), self._span_s * LATE
        seen = note.get(_KEY)
        ends = [] if seen is None else list(seen["ends"])
        grown = not ends or end > ends[-1][0]
        if grown and (not ends or now_s - ends[-1][1] >= step_s):
            ends.append([end, now_s])
        elif seen is not None and seen["boot"] == boot and now_s - seen["at_s"] < step_s:
            return False
        old = [at for at, (_, since_s) in enumerate(ends) if ends[-1][1] - since_s > self._span_s]
        note[_KEY] = {"boot": boot, "up_s": up_s, "at_s": now_s, "ends": ends[old[-1] if old else 0 :]}
        return True

    def behind_newest(self, note: dict[str, Any], age_s: float) -> int:
        """The position up to which all files are older than the newest one by this much."""
        ends = self._ends(note)
        return max((end for end, since_s in ends if since_s <= ends[-1][1] - age_s), default=0)

    def behind_now(self, note: dict[str, Any], age_s: float) -> int:
        """The position up to which all files have been there for this long."""
        bound_s = self.now_s(note) - age_s
        return max((end for end, since_s in self._ends(note) if since_s <= bound_s), default=0)

    def _ends(self, note: dict[str, Any]) -> list[tuple[int, float]]:
        return [(int(end), float(since_s)) for end, since_s in note.get(_KEY, {}).get("ends", ())]
