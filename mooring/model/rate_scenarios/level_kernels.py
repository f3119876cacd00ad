"""The reach of a plan along each scenario, over arrays only.

Along scenario s the load of a site grows as a polynomial in the level t (linear unless joins bend it), and
r[s, i] = 1/t at which site i saturates. The plan's level is set by its worst site, so its value is
sum_s w_s min(1, 1/max_i r[s, i])^K: with directions of the simplex as scenarios and K variables that is the
volume of the feasible set relative to the ideal one, the radius integrated exactly.

Rows of `rows` are fragments first, then arcs (if crossings cost anything): what each adds, per power of t and
scenario, to a site that carries it. `base` is what it takes of the site's margin at level zero.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mooring.arrays import Floats, Ints, Singles
from mooring.model.placement.copy_kernels import copy
from mooring.model.placement.fast_math import FAST

BLOCK = 128
NEWTON_STEPS = 8
ONE = np.float32(1.0)
ZERO = np.float32(0.0)


@njit(cache=True, fastmath=FAST)
def levels(loads: Singles, change: Singles, margin: float, low: int, high: int, out: Singles) -> None:
    """out[s] = 1/t at which sum_p (loads + change)[p, s] t^(p+1) reaches the margin, for s in low..high.

    Polynomials with coefficients of one sign are convex, so Newton's steps from t = 1 come down to the
    root; a root beyond 1 is as good as 1, and steps towards it only overshoot upwards, where they are
    clipped.
    """
    inverse = np.float32(1.0 / margin)
    powers = loads.shape[0]
    if powers == 1:
        load = loads[0, low:high]
        more = change[0]
        for s in range(high - low):
            out[s] = (load[s] + more[s]) * inverse
        return
    count = high - low
    coefficients = np.empty((powers, BLOCK), np.float32)
    for p in range(powers):
        for s in range(count):
            coefficients[p, s] = (loads[p, low + s] + change[p, s]) * inverse
    t = np.ones(BLOCK, np.float32)
    value = np.empty(BLOCK, np.float32)
    slope = np.empty(BLOCK, np.float32)
    top = coefficients[powers - 1]
    for _ in range(NEWTON_STEPS):
        for s in range(count):
            value[s] = top[s]
            slope[s] = ZERO
        for p in range(powers - 2, -1, -1):
            own = coefficients[p]
            for s in range(count):
                slope[s] = slope[s] * t[s] + value[s]
                value[s] = value[s] * t[s] + own[s]
        # value is sum_p c_p t^p; the load is value * t, its slope value + slope * t
        for s in range(count):
            rise = max(value[s] + slope[s] * t[s], np.float32(1e-30))
            t[s] = min(t[s] - (value[s] * t[s] - ONE) / rise, ONE)
    for s in range(count):
        out[s] = ONE / max(t[s], np.float32(1e-20))


@njit(cache=True, fastmath=FAST)
def raise_to(values: Singles, exponent: int, count: int, spare: Singles) -> None:
    """values ** exponent in place, by repeated squaring over the whole block."""
    for s in range(count):
        spare[s] = values[s]
        values[s] = ONE
    bits = exponent
    while bits > 0:
        if bits & 1:
            for s in range(count):
                values[s] *= spare[s]
        bits >>= 1
        if bits > 0:
            for s in range(count):
                spare[s] *= spare[s]


@njit(cache=True)
def add_row(target: Singles, row: Singles, factor: float) -> None:
    f = np.float32(factor)
    for p in range(target.shape[0]):
        for s in range(target.shape[1]):
            target[p, s] += f * row[p, s]


@njit(cache=True)
def load_sites(
    rows: Singles, base: Floats, capacity: Floats, site_of: Ints, arc_ends: Ints,
    loads: Singles, margin: Floats,
) -> None:  # fmt: skip
    """Load and margin of every site from scratch, so that rounding never piles up for long.

    `arc_ends[e]` is (source fragment, source site, target fragment, target site), -1 for what does not apply.
    """
    fragments = len(site_of)
    loads[:] = 0.0
    copy(capacity, margin)
    for f in range(fragments):
        add_row(loads[site_of[f]], rows[f], 1.0)
        margin[site_of[f]] -= base[f]
    for e in range(arc_ends.shape[0]):
        source = site_of[arc_ends[e, 0]] if arc_ends[e, 0] >= 0 else arc_ends[e, 1]
        target = site_of[arc_ends[e, 2]] if arc_ends[e, 2] >= 0 else arc_ends[e, 3]
        if source != target:
            add_row(loads[source], rows[fragments + e], 1.0)
            add_row(loads[target], rows[fragments + e], 1.0)
            margin[source] -= base[fragments + e]
            margin[target] -= base[fragments + e]


@njit(cache=True)
def set_levels(loads: Singles, margin: Floats, level: Singles, k: int, zero: Singles, out: Singles) -> None:
    count = level.shape[1]
    for low in range(0, count, BLOCK):
        high = min(low + BLOCK, count)
        levels(loads[k], zero, margin[k], low, high, out)
        copy(out[: high - low], level[k, low:high])


@njit(cache=True)
def plan_value(
    rows: Singles, base: Floats, weights: Singles, exponent: int, reference: np.float32, capacity: Floats,
    arc_ends: Ints, site_of: Ints,
) -> float:  # fmt: skip
    """The value of one plan; 0 where a site is overloaded at level zero."""
    sites = len(capacity)
    powers, scenarios = rows.shape[1], rows.shape[2]
    loads = np.empty((sites, powers, scenarios), np.float32)
    margin = np.empty(sites)
    load_sites(rows, base, capacity, site_of, arc_ends, loads, margin)
    zero = np.zeros((powers, BLOCK), np.float32)
    out = np.empty(BLOCK, np.float32)
    spare = np.empty(BLOCK, np.float32)
    worst = np.empty(BLOCK, np.float32)
    total = 0.0
    for i in range(sites):
        if margin[i] <= 0.0:
            return 0.0
    for low in range(0, scenarios, BLOCK):
        high = min(low + BLOCK, scenarios)
        worst[:] = ONE
        for i in range(sites):
            levels(loads[i], zero, margin[i], low, high, out)
            for s in range(high - low):
                worst[s] = max(worst[s], out[s])
        for s in range(high - low):
            worst[s] = reference / worst[s]
        raise_to(worst, exponent, high - low, spare)
        for s in range(high - low):
            total += weights[low + s] * worst[s]
    return total
