"""Climbing with the rates until a placement breaks: which multiples are tried, and where the edge lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

STEP = 0.5
MOST = 8.0
"""Multipliers 1, 1.5, 2, ... up to this."""


def climb_steps(predicted: float, *, quick: bool) -> list[float]:
    """1, 1.5, 2, ...; a quick climb begins a step below the predicted edge."""
    steps = np.arange(1.0, MOST + STEP / 2, STEP)
    if quick:
        steps = steps[steps > predicted - 1.5 * STEP]
    return [float(step) for step in steps]


def is_over(feasible: Sequence[bool | None]) -> bool:
    """A climb ends with an overload, or when the machine has spoilt two steps in a row."""
    return feasible[-1] is False or list(feasible[-2:]) == [None, None]


def refinement(feasible: Mapping[float, bool | None], quick: bool) -> float | None:
    """Where to look next once something broke: a step lower if nothing was kept up with, else once in the
    middle of the last step (not when quick). None: enough.
    """
    kept, lost = bracket(feasible)
    if not np.isfinite(lost):
        return None
    if kept == 0.0:
        lower = lost - STEP
        return lower if lower > 0.0 and lower not in feasible else None
    middle = (kept + lost) / 2
    return middle if not quick and lost - kept >= STEP and middle not in feasible else None


def bracket(feasible: Mapping[float, bool | None]) -> tuple[float, float]:
    """The largest multiplier kept up with below every one that was not, and the smallest that was not."""
    lost = min((m for m, ok in feasible.items() if ok is False), default=float("inf"))
    kept = max((m for m, ok in feasible.items() if ok and m < lost), default=0.0)
    return kept, lost
