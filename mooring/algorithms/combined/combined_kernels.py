"""Simulated annealing on the weighted costs of a placement, over arrays only.

A candidate moves one fragment or swaps two. What is cheap to know comes first: rules, flows, headroom, sites
in use. A candidate that they already rule out costs no more. Only then the queues, where moves are made and
taken back (`kept_latency_kernels`), and the volume, in one pass over the scenarios (`worst_site_kernels`).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from mooring.algorithms.ants.descent_kernels import objective_of
from mooring.algorithms.resilient.search_kernels import block_change, list_terms
from mooring.algorithms.resilient.worst_site_kernels import block_value, rank_again, rank_all
from mooring.arrays import Floats, Ints, Singles, Words
from mooring.model.goals.rule_kernels import USAGE, hold, shift, violation
from mooring.model.load.queued.kept_latency_kernels import add_up, move
from mooring.model.placement.copy_kernels import copy
from mooring.model.placement.random_kernels import random_index, random_unit
from mooring.model.rate_scenarios.level_kernels import BLOCK, ONE, add_row, levels, load_sites, set_levels

HEADROOM, VOLUME, FLIGHT, LATENCY, MOVES, PRICE, SITES = range(7)
"""Places of the weights; each already divided by what its cost is measured in."""
WORST = 1e3
PROBES = 200
"""Candidates by which the first temperature is chosen."""
HOT, COLD = 0.4, 1e-4
"""Temperatures, in mean changes of a candidate that makes things worse."""


@njit(cache=True)
def _headroom_cost(held, plane, fixed, capacity) -> float:  # type: ignore[no-untyped-def]
    """One over the factor by which the present load can grow."""
    most = 0.0
    for site in range(len(capacity)):
        always = 0.0 if fixed < 0 else held.used[site, fixed]
        grows = held.used[site, plane] - always
        if grows > 1e-15:
            most = max(most, grows / max(capacity[site] - always, 1e-9))
    return min(most, WORST)


@njit(cache=True)
def _cheap(held, weight, plane, fixed, capacity, away, count, prices) -> float:  # type: ignore[no-untyped-def]
    total = violation(held) + weight[FLIGHT] * held.sums[USAGE] + weight[MOVES] * away
    if weight[HEADROOM] > 0.0:
        total += weight[HEADROOM] * _headroom_cost(held, plane, fixed, capacity)
    if weight[PRICE] > 0.0 or weight[SITES] > 0.0:
        for site in range(len(count)):
            if count[site] > 0:
                total += weight[PRICE] * prices[site] + weight[SITES]
    return float(total)


@njit(cache=True)
def _volume_cost(value, exponent) -> float:  # type: ignore[no-untyped-def]
    return float(1.0 - max(value, 0.0) ** (1.0 / exponent))


@njit(cache=True)
def _plan_volume(worst, weights, exponent) -> float:  # type: ignore[no-untyped-def]
    total = 0.0
    for s in range(len(weights)):
        total += weights[s] * (1.0 / max(worst[0, s], 1.0)) ** exponent
    return total


@njit(cache=True)
def _proposed(rules, held, f, near, word) -> int:  # type: ignore[no-untyped-def]
    """A site for f beside one that it exchanges data with; else any."""
    begin, end = rules.beside_start[f], rules.beside_start[f + 1]
    sites = len(rules.allowed[0])
    if end == begin or random_unit(word) < 0.3:
        return random_index(word, sites)
    node = rules.beside[begin + random_index(word, end - begin)]
    other = rules.owner[node]
    if other == f:
        first, last = rules.read_start[node], rules.read_start[node + 1]
        other = rules.reader[first + random_index(word, last - first)]
    at = held.sites[other] if other >= 0 else ~other
    if random_unit(word) < 0.5 or near.shape[1] == 0:
        return int(at)
    return int(near[at, random_index(word, near.shape[1])])


@njit(cache=True)
def anneal(  # type: ignore[no-untyped-def]
    rules, held, weight: Floats, plane: int, fixed: int, cores: Floats, prices: Floats, near: Ints,
    t, k, rows: Singles, base: Floats, scenario_weights: Singles, exponent: int, capacity: Floats,
    arc_start: Ints, arc_of: Ints, arc_ends: Ints, free: Ints, homes: Ints, most_away: int, steps: int,
    word: Words, best: Ints,
) -> float:  # fmt: skip
    """From the placement in `held`; returns the least cost, that of `best`. `t` and `k` are None where queues
    do not count. At most `most_away` fragments are not at home."""
    count_sites = len(cores)
    powers, scenarios = rows.shape[1], rows.shape[2]
    with_volume = weight[VOLUME] > 0.0
    hold(rules, held, held.sites.copy())
    site_of = held.sites.copy()
    count = np.zeros(count_sites, np.int64)
    away = 0
    for f in range(len(site_of)):
        count[site_of[f]] += 1
        away += homes[f] >= 0 and site_of[f] != homes[f]
    loads = np.empty((count_sites, powers, scenarios), np.float32)
    margin = np.empty(count_sites)
    level = np.empty((count_sites, scenarios), np.float32)
    worst = np.zeros((3, scenarios), np.float32)
    site = np.full((3, scenarios), -1, np.int32)
    zero = np.zeros((powers, BLOCK), np.float32)
    level_i, level_j = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    change_i, change_j = np.empty((powers, BLOCK), np.float32), np.empty((powers, BLOCK), np.float32)
    power, spare = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    longest = 0
    for f in range(len(site_of)):
        longest = max(longest, arc_start[f + 1] - arc_start[f])
    row = np.empty(2 * longest + 2, np.int64)
    at_i, at_j = np.empty(2 * longest + 2), np.empty(2 * longest + 2)
    volume = 1.0
    full = False
    if with_volume:
        load_sites(rows, base, capacity, site_of, arc_ends, loads, margin)
        for i in range(count_sites):
            if margin[i] <= 1e-12:
                full = True
        if full:
            volume = 0.0
        else:
            for i in range(count_sites):
                set_levels(loads, margin, level, i, zero, level_i)
            rank_all(level, worst, site)
            volume = _plan_volume(worst, scenario_weights, exponent)
    queued = 0.0
    if t is not None:
        add_up(k)
        queued = weight[LATENCY] * min(objective_of(k), WORST / max(weight[LATENCY], 1e-300))
    now = _cheap(held, weight, plane, fixed, cores, away, count, prices) + queued
    now += weight[VOLUME] * _volume_cost(volume, exponent)
    least = now
    copy(site_of, best)
    worse, probed = 0.0, 0
    hot = 1e-3 * max(now, 1e-9)
    for step in range(steps):
        part = step / steps
        temperature = hot * (COLD / HOT) ** part
        f = free[random_index(word, len(free))]
        i = held.sites[f]
        g = -1
        if random_unit(word) < 0.35:
            g = free[random_index(word, len(free))]
            j = held.sites[g]
            if not rules.allowed[rules.kind[g], i]:
                continue
        else:
            j = _proposed(rules, held, f, near, word)
        if i == j or not rules.allowed[rules.kind[f], j]:
            continue
        more = 0
        if homes[f] >= 0:
            more += int(j != homes[f]) - int(i != homes[f])
        if g >= 0 and homes[g] >= 0:
            more += int(i != homes[g]) - int(j != homes[g])
        if more > 0 and away + more > most_away:
            continue
        needed = now - temperature * math.log(1.0 - random_unit(word))
        shift(rules, held, f, j)
        if g >= 0:
            shift(rules, held, g, i)
        else:
            count[i] -= 1
            count[j] += 1
        then = _cheap(held, weight, plane, fixed, cores, away + more, count, prices)
        good = then <= needed or probed < PROBES
        moved = False
        if good and t is not None:
            move(t, k, f, j)
            if g >= 0:
                move(t, k, g, i)
            moved = True
            then += weight[LATENCY] * min(objective_of(k), WORST / max(weight[LATENCY], 1e-300))
            good = then <= needed or probed < PROBES
        new_volume, terms = volume, 0
        margin_i = margin_j = 0.0
        if good and with_volume:
            # The lists of changed arcs ask where fragments were, so they are made of the sites before.
            terms = list_terms(f, i, j, -1, site_of, arc_start, arc_of, arc_ends, row, at_i, at_j, 0, False)
            if g >= 0:
                terms = list_terms(
                    g, j, i, f, site_of, arc_start, arc_of, arc_ends, row, at_i, at_j, terms, True
                )  # fmt: skip
            margin_i, margin_j = margin[i], margin[j]
            for c in range(terms):
                margin_i -= at_i[c] * base[row[c]]
                margin_j -= at_j[c] * base[row[c]]
            if full:
                new_volume = 0.0
            elif margin_i <= 1e-12 or margin_j <= 1e-12:
                good = False
            else:
                new_volume = 0.0
                for low in range(0, scenarios, BLOCK):
                    high = min(low + BLOCK, scenarios)
                    block_change(rows, row, at_i, terms, low, high, change_i)
                    block_change(rows, row, at_j, terms, low, high, change_j)
                    levels(loads[i], change_i, margin_i, low, high, level_i)
                    levels(loads[j], change_j, margin_j, low, high, level_j)
                    new_volume += float(block_value(
                        worst, site, scenario_weights, np.int32(i), np.int32(j), low, high,
                        level_i, level_j, ONE, exponent, power, spare,
                    ))  # fmt: skip
            then += weight[VOLUME] * _volume_cost(new_volume, exponent)
            good = good and then <= needed
        if probed < PROBES and then > now and then < now + 1.0:
            worse += then - now
            probed += 1
            if probed == PROBES:
                hot = max(HOT * worse / probed, 1e-12)
        if not good or then > needed:
            shift(rules, held, f, i)
            if g >= 0:
                shift(rules, held, g, j)
            else:
                count[i] += 1
                count[j] -= 1
            if moved and t is not None:
                move(t, k, f, i)
                if g >= 0:
                    move(t, k, g, j)
            continue
        site_of[f] = j
        if g >= 0:
            site_of[g] = i
        away += more
        now = then
        if with_volume and not full:
            for c in range(terms):
                add_row(loads[i], rows[row[c]], at_i[c])
                add_row(loads[j], rows[row[c]], at_j[c])
            margin[i], margin[j] = margin_i, margin_j
            set_levels(loads, margin, level, i, zero, level_i)
            set_levels(loads, margin, level, j, zero, level_j)
            rank_again(level, worst, site, i, j)
            volume = new_volume
        if now < least - 1e-12:
            least = now
            copy(site_of, best)
    return float(least)
