"""The boundary of the feasible set along a ray of rates.

Loads are polynomials in the rates with coefficients of at least zero, so along a ray they rise and bend
upwards. The chord from 0 to 1 therefore lies above them before 1 and below them beyond: where it meets the
capacity is the answer if the loads are linear, and otherwise the answer is between there and 1, where
bisection finds it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mooring.arrays import Floats

BISECTIONS = 52  # as many as a float64 has binary digits


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
    return chord if linear else _bisect(loads_at, capacity_cores, chord)


def _bisect(loads_at: Callable[[Floats], Floats], capacity_cores: Floats, chord: Floats) -> Floats:
    bounded = np.isfinite(chord) & (chord > 0.0)
    low = np.where(bounded, np.minimum(chord, 1.0), 0.0)
    high = np.where(bounded, np.maximum(chord, 1.0), 0.0)
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        fits = (loads_at(middle) <= capacity_cores).all(axis=-1)
        low = np.where(fits, middle, low)
        high = np.where(fits, high, middle)
    return np.where(bounded, low, chord)
