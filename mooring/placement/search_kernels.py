"""The inner loops of the search for resilient placements, over arrays only.

A plan is judged by *scenarios*: along scenario s the load of a site grows as a polynomial in the level t
(linear unless joins bend it), and r[s, i] = 1/t at which site i saturates. The plan's level is set by its
worst site, so its value is sum_s w_s min(1, 1/max_i r[s, i])^K: with directions of the simplex as scenarios
and K variables that is the volume of the feasible set relative to the ideal one, the radius integrated
exactly.

A candidate (one fragment moved, or two swapped) changes two sites only, crossing arcs included: an arc from a
moved fragment to a third site is charged there before and after. So per scenario the three worst sites are
kept, and a candidate costs one pass over the scenarios. It is left early, exactly, once the best that the
remaining scenarios could still contribute (their two changed sites unloaded altogether) cannot save it.

Rows of `rows` are fragments first, then arcs (if crossings cost anything): what each adds, per power of t and
scenario, to a site that carries it. `base` is what it takes of the site's margin at level zero.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Shorts = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint64]

BLOCK = 128
NEWTON_STEPS = 8
RANK_ALL_SITES = 32
FAST = {"nnan", "ninf", "nsz", "reassoc", "contract", "arcp"}
ONE = np.float32(1.0)
ZERO = np.float32(0.0)


@njit(cache=True)
def random_word(word: Words) -> np.uint64:
    """xorshift64*: a generator of the search's own, so that a seed fixes the plan on every machine."""
    x = word[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    word[0] = x
    result: np.uint64 = x * np.uint64(2685821657736338717)
    return result


@njit(cache=True)
def random_unit(word: Words) -> float:
    return float(random_word(word) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(cache=True)
def random_index(word: Words, count: int) -> int:
    return min(int(random_unit(word) * count), count - 1)


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


@njit(cache=True, fastmath=FAST)
def block_value(
    worst: Singles, site: Shorts, weights: Singles, i: np.int32, j: np.int32, low: int, high: int,
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
    raise_to(power, exponent, count, spare)
    total = ZERO
    weight = weights[low:high]
    for s in range(count):
        total += weight[s] * power[s]
    return total


@njit(cache=True)
def rank_scenario(level: Singles, worst: Singles, site: Shorts, s: int) -> None:
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
def rank_all(level: Singles, worst: Singles, site: Shorts) -> None:
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
def rank_again(level: Singles, worst: Singles, site: Shorts, i: int, j: int) -> None:
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
    worst: Singles, site: Shorts, weights: Singles, reference: np.float32, exponent: int,
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
    margin[:] = capacity
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
        level[k, low:high] = out[: high - low]


@njit(cache=True)
def list_terms(
    f: int, i: int, j: int, moved: int, site_of: Ints, arc_start: Ints, arc_of: Ints, arc_ends: Ints,
    row: Ints, at_i: Floats, at_j: Floats, count: int, reverse: bool,
) -> int:  # fmt: skip
    """What moving fragment f from i to j changes there, as rows with factors; returns how many are listed.

    `moved` is a fragment already thought of as moved from i to j (a swap's first half, with i and j given the
    other way round here), or -1. An arc to a fragment left behind at i begins to cross; one to j ceases to.
    With `reverse` the factors are filed under the other site.
    """
    fragments = len(site_of)
    row[count] = f
    at_i[count] = 1.0 if reverse else -1.0
    at_j[count] = -1.0 if reverse else 1.0
    count += 1
    for a in range(arc_start[f], arc_start[f + 1]):
        e = arc_of[a]
        if arc_ends[e, 0] == f:
            other, fixed = arc_ends[e, 2], arc_ends[e, 3]
        else:
            other, fixed = arc_ends[e, 0], arc_ends[e, 1]
        end = fixed if other < 0 else site_of[other]
        if other >= 0 and other == moved:
            end = i  # in the first half it went where f comes from
        leaving = 1.0 if end == i else -1.0
        entering = -1.0 if end == j else 1.0
        row[count] = fragments + e
        at_i[count] = entering if reverse else leaving
        at_j[count] = leaving if reverse else entering
        count += 1
    return count


@njit(cache=True, fastmath=FAST)
def block_change(
    rows: Singles, row: Ints, factor: Floats, count: int, low: int, high: int, out: Singles
) -> None:
    for p in range(out.shape[0]):
        target = out[p]
        for c in range(count):
            f = np.float32(factor[c])
            source = rows[row[c], p, low:high]
            if c == 0:
                for s in range(high - low):
                    target[s] = f * source[s]
            else:
                for s in range(high - low):
                    target[s] += f * source[s]


@njit(cache=True)
def anneal(
    rows: Singles, base: Floats, weights: Singles, exponent: int, reference: np.float32,
    capacity: Floats, arc_start: Ints, arc_of: Ints, arc_ends: Ints, free: Ints, homes: Ints,
    move_cost: Floats, moves_left: int, memory: Floats, memory_left: Floats, site_of: Ints, swap_share: float,
    temperature: float, steps: int, accepted_limit: int, word: Words, best: Ints, best_worth: float,
) -> tuple[float, float, int, int]:  # fmt: skip
    """A stretch of simulated annealing on the value, in place; temperatures are relative changes of the
    value.

    Returns the value, the most that any plan on the way was worth, the steps taken and the changes
    accepted. `homes[f]` is where f runs now (-1: nowhere yet); leaving it costs `move_cost[f]` of the
    value's logarithm and one of `moves_left`. A plan is worth its value less what its moves since the
    beginning cost; `best` becomes the plan that is worth most, if that is more than `best_worth`.
    """
    sites = len(capacity)
    powers, scenarios = rows.shape[1], rows.shape[2]
    blocks = (scenarios + BLOCK - 1) // BLOCK
    loads = np.empty((sites, powers, scenarios), np.float32)
    margin = np.empty(sites)
    load_sites(rows, base, capacity, site_of, arc_ends, loads, margin)
    level = np.empty((sites, scenarios), np.float32)
    zero = np.zeros((powers, BLOCK), np.float32)
    level_i = np.empty(BLOCK, np.float32)
    level_j = np.empty(BLOCK, np.float32)
    for k in range(sites):
        if margin[k] <= 0.0:
            return 0.0, best_worth, 0, 0
        set_levels(loads, margin, level, k, zero, level_i)
    worst = np.zeros((3, scenarios), np.float32)
    site = np.full((3, scenarios), -1, np.int32)
    rank_all(level, worst, site)
    power = np.empty(BLOCK, np.float32)
    spare = np.empty(BLOCK, np.float32)
    now = np.empty(blocks + 1)
    gain_one = np.empty((sites, blocks + 1))
    gain_two = np.empty((sites, blocks + 1))
    value = sum_up(worst, site, weights, reference, exponent, now, gain_one, gain_two, power, spare)
    longest = 0
    for f in range(len(site_of)):
        longest = max(longest, arc_start[f + 1] - arc_start[f])
    row = np.empty(2 * longest + 2, np.int64)
    at_i = np.empty(2 * longest + 2)
    at_j = np.empty(2 * longest + 2)
    change_i = np.empty((powers, BLOCK), np.float32)
    change_j = np.empty((powers, BLOCK), np.float32)
    accepted = 0
    step = 0
    paid = 0.0
    if value > best_worth:
        best_worth = value
        best[:] = site_of
    while step < steps and accepted < accepted_limit:
        step += 1
        f = free[random_index(word, len(free))]
        i = site_of[f]
        g = -1
        if random_unit(word) < swap_share:
            g = free[random_index(word, len(free))]
            j = site_of[g]
        else:
            j = random_index(word, sites)
        if i == j:
            continue
        moves = 0
        cost = 0.0
        if homes[f] == i:
            moves += 1
            cost += move_cost[f]
        elif homes[f] == j:
            moves -= 1
            cost -= move_cost[f]
        memory_change = memory[f]
        if g >= 0:
            memory_change -= memory[g]
            if homes[g] == j:
                moves += 1
                cost += move_cost[g]
            elif homes[g] == i:
                moves -= 1
                cost -= move_cost[g]
        if moves > moves_left:
            continue
        if memory_left[j] < memory_change or memory_left[i] < -memory_change:
            continue
        needed = value * math.exp(cost + temperature * math.log(1.0 - random_unit(word)))
        gain = gain_one[i, 0] if g < 0 else gain_two[i, 0] + gain_two[j, 0]
        if value + gain < needed:
            continue
        count = list_terms(f, i, j, -1, site_of, arc_start, arc_of, arc_ends, row, at_i, at_j, 0, False)
        if g >= 0:
            count = list_terms(g, j, i, f, site_of, arc_start, arc_of, arc_ends, row, at_i, at_j, count, True)
        margin_i, margin_j = margin[i], margin[j]
        for c in range(count):
            margin_i -= at_i[c] * base[row[c]]
            margin_j -= at_j[c] * base[row[c]]
        if margin_i <= 1e-12 or margin_j <= 1e-12:
            continue
        new = 0.0  # a sum of single floats in double
        for b in range(blocks):
            low = b * BLOCK
            high = min(low + BLOCK, scenarios)
            block_change(rows, row, at_i, count, low, high, change_i)
            block_change(rows, row, at_j, count, low, high, change_j)
            levels(loads[i], change_i, margin_i, low, high, level_i)
            levels(loads[j], change_j, margin_j, low, high, level_j)
            new += float(block_value(
                worst, site, weights, np.int32(i), np.int32(j), low, high,
                level_i, level_j, reference, exponent, power, spare,
            ))  # fmt: skip
            gain = gain_one[i, b + 1] if g < 0 else gain_two[i, b + 1] + gain_two[j, b + 1]
            if new + now[b + 1] + gain < needed:
                new = -1.0
                break
        if new < needed:
            continue
        accepted += 1
        moves_left -= moves
        paid += cost
        site_of[f] = j
        if g >= 0:
            site_of[g] = i
        memory_left[j] -= memory_change
        memory_left[i] += memory_change
        for c in range(count):
            add_row(loads[i], rows[row[c]], at_i[c])
            add_row(loads[j], rows[row[c]], at_j[c])
        margin[i], margin[j] = margin_i, margin_j
        set_levels(loads, margin, level, i, zero, level_i)
        set_levels(loads, margin, level, j, zero, level_j)
        rank_again(level, worst, site, i, j)
        value = sum_up(worst, site, weights, reference, exponent, now, gain_one, gain_two, power, spare)
        if value * math.exp(-paid) > best_worth:
            best_worth = value * math.exp(-paid)
            best[:] = site_of
    return value, best_worth, step, accepted


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
