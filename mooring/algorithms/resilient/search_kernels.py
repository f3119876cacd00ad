"""The inner loop of the search for resilient placements, over arrays only.

A candidate (one fragment moved, or two swapped) changes two sites only, crossing arcs included: an arc from a
moved fragment to a third site is charged there before and after. So it costs one pass over the scenarios (see
`level_kernels`). It is left early, exactly, once the best that the remaining scenarios could still contribute
(their two changed sites unloaded altogether) cannot save it.

Rules come before the value: no candidate that breaks more of them is taken, and every one that breaks less.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from mooring.algorithms.resilient.worst_site_kernels import (
    block_value,
    rank_again,
    rank_all,
    shifted_value,
    sum_up,
)
from mooring.arrays import Floats, Ints, Singles, Words
from mooring.model.goals.rule_kernels import ENOUGH, hold, shift, violation
from mooring.model.placement.copy_kernels import copy
from mooring.model.placement.fast_math import FAST
from mooring.model.placement.random_kernels import random_index, random_unit
from mooring.model.rate_scenarios.level_kernels import BLOCK, add_row, levels, load_sites, set_levels


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
def _back(rules, held, f, g, i, j) -> None:  # type: ignore[no-untyped-def]
    """The candidate is not taken."""
    shift(rules, held, f, i)
    if g >= 0:
        shift(rules, held, g, j)


@njit(cache=True)
def anneal(  # type: ignore[no-untyped-def]
    rules, held, rows: Singles, base: Floats, weights: Singles, exponent: int, reference: np.float32,
    capacity: Floats, arc_start: Ints, arc_of: Ints, arc_ends: Ints, free: Ints, homes: Ints,
    move_cost: Floats, moves_left: int, memory: Floats, memory_left: Floats, site_of: Ints, swap_share: float,
    alike_share: float, alike_reach: int, temperature: float, steps: int, accepted_limit: int, word: Words,
    best: Ints, best_worth: float,
) -> tuple[float, float, int, int]:  # fmt: skip
    """A stretch of simulated annealing on the value, in place; temperatures are relative changes of the
    value.

    `rules` and `held` are those of the placement (`rule_kernels`).

    Returns the value, the most that any plan on the way was worth, the steps taken and the changes
    accepted. `homes[f]` is where f runs now (-1: nowhere yet); leaving it costs `move_cost[f]` of the
    value's logarithm and one of `moves_left`. A plan is worth its value less what its moves since the
    beginning cost; `best` becomes the plan that is worth most, if that is more than `best_worth`. Of the
    candidates `swap_share` are swaps, and `alike_share` those with a fragment `alike_reach` away in `free`.
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
    plain = powers == 1 and arc_ends.shape[0] == 0
    accepted = 0
    step = 0
    paid = 0.0
    hold(rules, held, site_of)
    broken = violation(held)
    if value > best_worth:
        best_worth = value
        copy(site_of, best)
    while step < steps and accepted < accepted_limit:
        step += 1
        a = random_index(word, len(free))
        f = free[a]
        i = site_of[f]
        g = -1
        kind = random_unit(word)
        if kind < alike_share:
            beside = a + random_index(word, 2 * alike_reach + 1) - alike_reach
            if beside < 0 or beside >= len(free):
                continue
            g = free[beside]
            j = site_of[g]
        elif kind < swap_share:
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
        if not rules.allowed[rules.kind[f], j] or (g >= 0 and not rules.allowed[rules.kind[g], i]):
            continue
        needed = value * math.exp(cost + temperature * math.log(1.0 - random_unit(word)))
        gain = gain_one[i, 0] if g < 0 else gain_two[i, 0] + gain_two[j, 0]
        if broken <= ENOUGH and value + gain < needed:
            continue
        shift(rules, held, f, j)
        if g >= 0:
            shift(rules, held, g, i)
        then = violation(held)
        if then > broken + ENOUGH:
            _back(rules, held, f, g, i, j)
            continue
        mends = then < broken - ENOUGH
        if mends:
            needed = -1.0
        elif value + gain < needed:
            _back(rules, held, f, g, i, j)
            continue
        count = list_terms(f, i, j, -1, site_of, arc_start, arc_of, arc_ends, row, at_i, at_j, 0, False)
        if g >= 0:
            count = list_terms(g, j, i, f, site_of, arc_start, arc_of, arc_ends, row, at_i, at_j, count, True)
        margin_i, margin_j = margin[i], margin[j]
        for c in range(count):
            margin_i -= at_i[c] * base[row[c]]
            margin_j -= at_j[c] * base[row[c]]
        if margin_i <= 1e-12 or margin_j <= 1e-12:
            _back(rules, held, f, g, i, j)
            continue
        new = 0.0  # a sum of single floats in double
        for b in range(blocks):
            low = b * BLOCK
            high = min(low + BLOCK, scenarios)
            if plain:
                new += float(shifted_value(
                    rows, f, g, loads, np.int32(i), np.int32(j), np.float32(1.0 / margin_i),
                    np.float32(1.0 / margin_j), worst, site, weights, low, high, reference, exponent,
                    power, spare,
                ))  # fmt: skip
            else:
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
            _back(rules, held, f, g, i, j)
            continue
        broken = then
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
        if mends or value * math.exp(-paid) > best_worth:
            best_worth = value * math.exp(-paid)
            copy(site_of, best)
    return value, best_worth, step, accepted
