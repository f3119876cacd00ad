"""The three worst sites along every scenario, over arrays only.

A candidate changes two sites, so the worst of the others is among the three worst of all: with them a
candidate costs one pass over the scenarios, and what unloading a site could gain at most is known.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mooring.arrays import Floats, Ints32, Singles
from mooring.model.placement.fast_math import FAST
from mooring.model.rate_scenarios.level_kernels import BLOCK, ONE, ZERO, raise_to

RANK_ALL_SITES = 32


@njit(cache=True, fastmath=FAST)
def weighted_sum(power: Singles, exponent: int, weight: Singles, spare: Singles) -> np.float32:
    """Of the first reaches in `power`, as many as there are weights, each raised to the exponent in place."""
    count = len(weight)
    raise_to(power, exponent, count, spare)
    total = ZERO
    for s in range(count):
        total += weight[s] * power[s]
    return total


@njit(cache=True, fastmath=FAST)
def block_value(
    worst: Singles, site: Ints32, weights: Singles, i: np.int32, j: np.int32, low: int, high: int,
    level_i: Singles, level_j: Singles, reference: np.float32, exponent: int, power: Singles, spare: Singles,
) -> np.float32:  # fmt: skip
    """The value of scenarios low..high if sites i and j had the levels given."""
    count = high - low
    worst_0, worst_1, worst_2 = worst[0, low:high], worst[1, low:high], worst[2, low:high]
    site_0, site_1 = site[0, low:high], site[1, low:high]
    for s in range(count):
        first = site_0[s]
        second = site_1[s]
        others = worst_2[s] if (second == i) | (second == j) else worst_1[s]
        others = others if (first == i) | (first == j) else worst_0[s]
        r = max(max(level_i[s], level_j[s]), max(others, ONE))
        power[s] = reference / r
    return weighted_sum(power, exponent, weights[low:high], spare)


@njit(cache=True, fastmath=FAST)
def shifted_value(
    rows: Singles, f: int, g: int, loads: Singles, i: np.int32, j: np.int32, inverse_i: np.float32,
    inverse_j: np.float32, worst: Singles, site: Ints32, weights: Singles, low: int, high: int,
    reference: np.float32, exponent: int, power: Singles, spare: Singles,
) -> np.float32:  # fmt: skip
    """The same for fragment f moved from i to j, and g (unless -1) back, where loads are linear and crossings
    free: what i loses j gains, so one pass does it all."""
    count = high - low
    shift = rows[f, 0, low:high]
    if g >= 0:
        back = rows[g, 0, low:high]
        for s in range(count):
            spare[s] = shift[s] - back[s]
        shift = spare[:count]
    load_i, load_j = loads[i, 0, low:high], loads[j, 0, low:high]
    worst_0, worst_1, worst_2 = worst[0, low:high], worst[1, low:high], worst[2, low:high]
    site_0, site_1 = site[0, low:high], site[1, low:high]
    for s in range(count):
        level_i = (load_i[s] - shift[s]) * inverse_i
        level_j = (load_j[s] + shift[s]) * inverse_j
        first = site_0[s]
        second = site_1[s]
        others = worst_2[s] if (second == i) | (second == j) else worst_1[s]
        others = others if (first == i) | (first == j) else worst_0[s]
        power[s] = reference / max(max(level_i, level_j), max(others, ONE))
    return weighted_sum(power, exponent, weights[low:high], spare)


@njit(cache=True)
def rank_scenario(level: Singles, worst: Singles, site: Ints32, s: int) -> None:
    """The three worst sites of scenario s from the levels of all."""
    m0, m1, m2 = ZERO, ZERO, ZERO
    k0, k1, k2 = -1, -1, -1
    for k in range(level.shape[0]):
        v = level[k, s]
        if v > m2:
            if v > m1:
                m2, k2 = m1, k1
                if v > m0:
                    m1, k1 = m0, k0
                    m0, k0 = v, k
                else:
                    m1, k1 = v, k
            else:
                m2, k2 = v, k
    worst[0, s], worst[1, s], worst[2, s] = m0, m1, m2
    site[0, s], site[1, s], site[2, s] = k0, k1, k2


@njit(cache=True, fastmath=FAST)
def rank_all(level: Singles, worst: Singles, site: Ints32) -> None:
    """The three worst sites of all scenarios, one site after the other over all of them (no branches)."""
    w0, w1, w2 = worst[0], worst[1], worst[2]
    s0, s1, s2 = site[0], site[1], site[2]
    worst[:] = ZERO
    site[:] = np.int32(-1)
    for k in range(level.shape[0]):
        row = level[k]
        number = np.int32(k)
        for s in range(len(row)):
            v = row[s]
            a, b, c = w0[s], w1[s], w2[s]
            x, y, z = s0[s], s1[s], s2[s]
            over_a, over_b, over_c = v > a, v > b, v > c
            w2[s] = b if over_b else (v if over_c else c)
            s2[s] = y if over_b else (number if over_c else z)
            w1[s] = a if over_a else (v if over_b else b)
            s1[s] = x if over_a else (number if over_b else y)
            w0[s] = v if over_a else a
            s0[s] = number if over_a else x


@njit(cache=True)
def rank_again(level: Singles, worst: Singles, site: Ints32, i: int, j: int) -> None:
    """The same after sites i and j changed; with many sites, only where they matter."""
    if level.shape[0] <= RANK_ALL_SITES:
        rank_all(level, worst, site)
        return
    for s in range(level.shape[1]):
        a, b, c = site[0, s], site[1, s], site[2, s]
        if (
            a in (i, j) or b in (i, j) or c in (i, j)
            or level[i, s] > worst[2, s] or level[j, s] > worst[2, s]
        ):  # fmt: skip
            rank_scenario(level, worst, site, s)


@njit(cache=True)
def sum_up(
    worst: Singles, site: Ints32, weights: Singles, reference: np.float32, exponent: int,
    now: Floats, gain_one: Floats, gain_two: Floats, power: Singles, spare: Singles,
) -> float:  # fmt: skip
    """Value of the plan; and from every block on, its value and the most that unloading a site could add.

    `gain_one[i]` is for unloading site i alone, `gain_two[i]` for unloading it and another.
    """
    count = len(weights)
    blocks = len(now) - 1
    gain_one[:] = 0.0
    gain_two[:] = 0.0
    now[:] = 0.0
    values = np.empty((3, BLOCK), np.float32)
    for b in range(blocks):
        low = b * BLOCK
        high = min(low + BLOCK, count)
        for rank in range(3):
            for s in range(low, high):
                power[s - low] = reference / max(worst[rank, s], ONE)
            raise_to(power, exponent, high - low, spare)
            for s in range(high - low):
                values[rank, s] = power[s]
        for s in range(low, high):
            w = weights[s]
            k = site[0, s]
            v0 = values[0, s - low]
            now[b] += w * v0
            gain_one[k, b] += w * (values[1, s - low] - v0)
            gain_two[k, b] += w * (values[2, s - low] - v0)
    for b in range(blocks - 1, -1, -1):
        now[b] += now[b + 1]
    for k in range(gain_one.shape[0]):
        for b in range(blocks - 1, -1, -1):
            gain_one[k, b] += gain_one[k, b + 1]
            gain_two[k, b] += gain_two[k, b + 1]
    return float(now[0])
