"""A cheap stand-in for the volume: sum_i h_p(V_i), to place greedily and to climb on.

h_p, the complete homogeneous symmetric polynomial of degree p, is proportional to the mean of (V_i . u)^p
over the simplex. So the sum bounds the mean of (max_i V_i . u)^p, without any directions: there is nothing to
overfit, and a change costs O(p^2), independent of their number. V_i is site i's parts over its margin, as in
the volume.

h_p comes from the power sums of the parts by Newton's identity m h_m = sum_j P_j h_(m-j).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mooring.arrays import Floats, Ints, Words
from mooring.model.placement.copy_kernels import copy
from mooring.model.placement.random_kernels import random_index, random_unit

OVERLOADED = 1e12
"""Far more than any allowed site can cost: what is overloaded at the lower bounds is mended first."""


@njit(cache=True)
def site_cost(sums: Floats, margin: float) -> float:
    """h_p of a site's parts over its margin."""
    if margin <= 1e-9:
        return OVERLOADED * (1.0 - margin)
    degree = len(sums)
    h = np.empty(degree + 1)
    h[0] = 1.0
    inverse = 1.0 / margin
    for m in range(1, degree + 1):
        total = 0.0
        scale = inverse
        for j in range(1, m + 1):
            total += sums[j - 1] * scale * h[m - j]
            scale *= inverse
        h[m] = total / m
    return float(h[degree])


@njit(cache=True)
def changed_sums(
    sums: Floats,
    parts_of_site: Floats,
    indptr: Ints,
    indices: Ints,
    parts: Floats,
    f: int,
    g: int,
    out: Floats,
) -> None:
    """Power sums of a site's parts with fragment f added (if any) and g taken away (if any); -1 for none.

    Where both touch a variable, g is taken from what f left: the first loop sees the site as it is.
    """
    for m in range(len(out)):
        out[m] = sums[m]
    if f >= 0:
        for a in range(indptr[f], indptr[f + 1]):
            before = parts_of_site[indices[a]]
            after = before + parts[a]
            x, y = 1.0, 1.0
            for m in range(len(out)):
                x *= before
                y *= after
                out[m] += y - x
            parts_of_site[indices[a]] = after
    if g >= 0:
        for a in range(indptr[g], indptr[g + 1]):
            before = parts_of_site[indices[a]]
            after = before - parts[a]
            x, y = 1.0, 1.0
            for m in range(len(out)):
                x *= before
                y *= after
                out[m] += y - x
    if f >= 0:
        for a in range(indptr[f], indptr[f + 1]):
            parts_of_site[indices[a]] -= parts[a]


@njit(cache=True)
def add_parts(held: Floats, indptr: Ints, indices: Ints, parts: Floats, f: int, sign: float) -> None:
    for a in range(indptr[f], indptr[f + 1]):
        held[indices[a]] = max(held[indices[a]] + sign * parts[a], 0.0)


@njit(cache=True)
def greedy(
    order: Ints, indptr: Ints, indices: Ints, parts: Floats, base: Floats, pinned: Ints, memory: Floats,
    memory_left: Floats, held: Floats, sums: Floats, margin: Floats, cost: Floats, site_of: Ints,
) -> int:  # fmt: skip
    """Each of some fragments, in order, where it raises the sum least, in place. Returns a fragment that fits
    nowhere (-1: none)."""
    sites, degree = sums.shape
    tried = np.empty(degree)
    best_sums = np.empty(degree)
    for f in order:
        best, best_rise, best_cost = -1, np.inf, 0.0
        for i in range(sites):
            if (pinned[f] >= 0 and pinned[f] != i) or memory_left[i] < memory[f]:
                continue
            changed_sums(sums[i], held[i], indptr, indices, parts, f, -1, tried)
            new = site_cost(tried, margin[i] - base[f])
            if new - cost[i] < best_rise:
                best, best_rise, best_cost = i, new - cost[i], new
                copy(tried, best_sums)
        if best < 0:
            return int(f)
        site_of[f] = best
        copy(best_sums, sums[best])
        cost[best] = best_cost
        margin[best] -= base[f]
        memory_left[best] -= memory[f]
        add_parts(held[best], indptr, indices, parts, f, 1.0)
    return -1


@njit(cache=True)
def climb(
    indptr: Ints, indices: Ints, parts: Floats, base: Floats, capacity: Floats, variables: int, free: Ints,
    memory: Floats, memory_left: Floats, site_of: Ints, steps: int, word: Words, degree: int,
) -> int:  # fmt: skip
    """Random moves and swaps, taken when they lower the sum; in place. Returns how many were taken."""
    sites = len(capacity)
    held = np.zeros((sites, variables))
    margin = capacity.copy()
    for f in range(len(site_of)):
        add_parts(held[site_of[f]], indptr, indices, parts, f, 1.0)
        margin[site_of[f]] -= base[f]
    sums = np.zeros((sites, degree))
    cost = np.zeros(sites)
    for i in range(sites):
        for k in range(variables):
            if held[i, k] == 0.0:
                continue
            x = 1.0
            for m in range(degree):
                x *= held[i, k]
                sums[i, m] += x
        cost[i] = site_cost(sums[i], margin[i])
    sums_i, sums_j = np.empty(degree), np.empty(degree)
    taken = 0
    for _ in range(steps):
        f = free[random_index(word, len(free))]
        g = free[random_index(word, len(free))] if random_unit(word) < 0.7 else -1
        i = site_of[f]
        j = site_of[g] if g >= 0 else random_index(word, sites)
        if i == j:
            continue
        shift = memory[f] - (memory[g] if g >= 0 else 0.0)
        if memory_left[j] < shift or memory_left[i] < -shift:
            continue
        weight = base[f] - (base[g] if g >= 0 else 0.0)
        changed_sums(sums[i], held[i], indptr, indices, parts, g, f, sums_i)
        cost_i = site_cost(sums_i, margin[i] + weight)
        if cost_i >= cost[i] + cost[j]:
            continue
        changed_sums(sums[j], held[j], indptr, indices, parts, f, g, sums_j)
        cost_j = site_cost(sums_j, margin[j] - weight)
        if cost_i + cost_j >= (cost[i] + cost[j]) * (1.0 - 1e-12):
            continue
        taken += 1
        sums[i], sums[j] = sums_i, sums_j
        cost[i], cost[j] = cost_i, cost_j
        margin[i] += weight
        margin[j] -= weight
        memory_left[j] -= shift
        memory_left[i] += shift
        site_of[f] = j
        add_parts(held[i], indptr, indices, parts, f, -1.0)
        add_parts(held[j], indptr, indices, parts, f, 1.0)
        if g >= 0:
            site_of[g] = i
            add_parts(held[j], indptr, indices, parts, g, -1.0)
            add_parts(held[i], indptr, indices, parts, g, 1.0)
    return taken
