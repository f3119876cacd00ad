"""The boundary of the feasible set along a ray of rates.

Loads are polynomials in the rates with coefficients of at least zero, so along a ray they rise and bend
upwards. The chord from 0 to 1 therefore lies above them before 1 and below them beyond: where it meets the
capacity is the answer if the loads are linear, and otherwise the answer is between there and 1, where
it is closed in on.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mooring.arrays import Floats

BISECTIONS = 52  # as many as a float64 has binary digits
CLOSE = 4e-16
"""Relative distance of the two ends at which they are taken as one."""


def largest_multiples(
    loads_at: Callable[[Floats], Floats], rays: int, capacity_cores: Floats, *, linear: bool
) -> Floats:
    """Per ray, the largest t >= 0 at which no load exceeds its capacity.

    `loads_at` maps one t per ray to (rays, capacities). Infinite where no load grows along the ray; zero
    where a capacity is exceeded at the ray's start.
    """
    start = loads_at(np.zeros(rays))
    growth = loads_at(np.ones(rays)) - start
    room = capacity_cores - start
    with np.errstate(over="ignore"):  # next to no growth: next to unlimited
        chords = np.divide(room, growth, out=np.full_like(room, np.inf), where=growth > 0.0)
    chord = np.where((room < 0.0).any(axis=-1), 0.0, chords.min(axis=-1, initial=np.inf))
    return chord if linear else _narrowed(loads_at, capacity_cores, chord)


def _narrowed(loads_at: Callable[[Floats], Floats], capacity_cores: Floats, chord: Floats) -> Floats:
    """By how much the worst load exceeds its capacity is convex in t. So a chord meets zero before it does,
    and a line through two points before that, drawn on, meets it later: both ends close in at once. Where
    that does not halve what is between them, bisection does.
    """
    bounded = np.isfinite(chord) & (chord > 0.0)

    def excess(at: Floats) -> Floats:
        return np.asarray((loads_at(at) - capacity_cores).max(axis=-1))

    low = np.where(bounded, np.minimum(chord, 1.0), 0.0)
    high = np.where(bounded, np.maximum(chord, 1.0), 0.0)
    over_low, over_high = excess(low), excess(high)
    for _ in range(BISECTIONS):
        width = high - low
        if not (width > CLOSE * high).any():
            break
        start, over_start = low, over_low
        for where in (_on_chord, _drawn_on, _halfway):
            at = where(low, high, over_low, over_high, start, over_start)
            if where is _halfway:
                wide = high - low > 0.5 * width
                if not wide.any():
                    continue
                at = np.where(wide, at, low)
            at = np.clip(at, low, high)
            over = excess(at)
            fits = over <= 0.0
            low, over_low = np.where(fits, at, low), np.where(fits, over, over_low)
            high, over_high = np.where(fits, high, at), np.where(fits, over_high, over)
    return np.where(bounded, low, chord)


def _on_chord(
    low: Floats, high: Floats, over_low: Floats, over_high: Floats, start: Floats, over_start: Floats
) -> Floats:
    rise = over_high - over_low
    share = np.divide(-over_low, rise, out=np.full_like(rise, 0.5), where=rise > 0.0)
    return np.asarray(low + (high - low) * share)


def _drawn_on(
    low: Floats, high: Floats, over_low: Floats, over_high: Floats, start: Floats, over_start: Floats
) -> Floats:
    """The line from where this round started to the present lower end, and a little beyond it: where the
    lower end is there already, the upper one comes down to it."""
    rise, run = over_low - over_start, low - start
    ahead = np.divide(-over_low * run, rise, out=np.zeros_like(rise), where=rise > 0.0)
    return np.asarray(low + ahead + 2.0 * CLOSE * high)


def _halfway(
    low: Floats, high: Floats, over_low: Floats, over_high: Floats, start: Floats, over_start: Floats
) -> Floats:
    return np.asarray(np.where(high > 4.0 * low, np.sqrt(low * high), 0.5 * (low + high)))
