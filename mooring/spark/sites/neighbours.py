"""What neighbours on the same machine leave a site.

A quota says what a site may use, not what it gets: others may keep the CPUs busy. The kernel counts how long
each thread was ready to run and waited for a CPU. Waiting that the site's own quota causes is left out: in
periods in which its control group was held back it got all that the quota allows. Pressure stall information
is worse: it counts the site's own quota as pressure, and covers whole control groups in version 2 only.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mooring.spark.sites.process_tree import thread_waits_s

LEAST_WAIT = 0.05
"""Threads that wait, in the mean, below which nobody is in the way."""
OWN = 0.2
"""Share of the periods in which it used up its quota from which it gets that when it wants it."""


@dataclass(frozen=True)
class Contention:
    """Of a site, counted since it was started."""

    at_s: float
    cpu_s: float
    waits_s: Mapping[int, float]
    """Thread -> how long it waited for a CPU."""
    periods: int
    held_back: int
    """Periods in which its own quota kept it waiting, of those in which it wanted anything."""
    idle_s: float
    """Of the machine's CPUs that it may use, all together."""


@dataclass
class NeighbourMeter:
    """Of one site: looked at once per look."""

    slots: int
    """Tasks that it runs at a time."""
    _before: Contention | None = field(default=None, init=False)

    def left_cores(self, now: Contention | None) -> float | None:
        """Since the last look: what it could have used; None where nobody was in its way, or that cannot be
        seen.
        """
        before, self._before = self._before, now
        if before is None or now is None or now.at_s <= before.at_s or now.cpu_s < before.cpu_s:
            return None
        span_s = now.at_s - before.at_s
        waited_s = sum(at - before.waits_s.get(thread, 0.0) for thread, at in now.waits_s.items())
        periods = now.periods - before.periods
        own = (now.held_back - before.held_back) / periods if periods > 0 else 0.0
        return left_cores(
            (now.cpu_s - before.cpu_s) / span_s,
            waited_s / span_s,
            min(1.0, max(0.0, own)),
            self.slots,
            (now.idle_s - before.idle_s) / span_s,
        )


def left_cores(used: float, waiting: float, own: float, slots: int, idle: float) -> float | None:
    """From cores in use, threads that waited for a CPU in the mean, the share of that for which its own quota
    is the reason, and the machine's idle cores. A slot that wants a CPU all the time gets the share of time
    in which it did not have to wait.

    >>> left_cores(0.24, 0.20, 0.67, 1, 0.0), left_cores(0.02, 0.98, 0.0, 1, 0.0)
    (None, 0.02)
    >>> left_cores(1.2, 1.5, 0.0, 2, 0.8)
    2.0
    """
    others = max(0.0, waiting) * (1.0 - own)
    if others < LEAST_WAIT or own >= OWN:
        return None
    return max(slots * used / (used + others), used + max(0.0, idle))


def contention(pid: int, cpu_s: float, throttled: tuple[int, int]) -> Contention | None:
    """Of a process and what it started; None where the kernel does not count it."""
    waits_s = thread_waits_s(pid)
    return None if not waits_s else Contention(time.monotonic(), cpu_s, waits_s, *throttled, idle_s())


def idle_s() -> float:
    """Of the CPUs that we may use, since the machine was started."""
    allowed = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    ticks_per_s, idle = os.sysconf("SC_CLK_TCK"), 0
    with contextlib.suppress(OSError):
        for line in Path("/proc/stat").read_text().splitlines():
            name, *fields = line.split()
            if name in allowed:
                idle += int(fields[3]) + int(fields[4])
    return idle / ticks_per_s
