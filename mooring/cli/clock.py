"""The wall clock: how long planning took, and when its budget is used up. No room above looks at one."""

from __future__ import annotations

import time
from collections.abc import Callable


def stopwatch() -> Callable[[], float]:
    """Seconds since now."""
    start = time.monotonic()
    return lambda: time.monotonic() - start


def deadline(budget_seconds: float | None) -> Callable[[], bool]:
    """Whether the budget, which starts now, is used up; never without one."""
    if budget_seconds is None:
        return lambda: False
    end = time.monotonic() + budget_seconds
    return lambda: time.monotonic() >= end


def spent_part(budget_seconds: float | None) -> Callable[[], float] | None:
    """The part of the budget, which starts now, that is used up; None without a budget."""
    if budget_seconds is None:
        return None
    elapsed = stopwatch()
    return lambda: elapsed() / budget_seconds if budget_seconds > 0.0 else 1.0
