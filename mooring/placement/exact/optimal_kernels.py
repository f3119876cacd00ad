"""The inner loop of the exact search: a walk over the tree of partial placements.

Level by level it keeps, per site and direction u, the load g_i(u) = q_i.u and per site the margin
c_i - q_i.B. Placing a fragment only adds load and takes margin away, so the feasible ratio of a partial
placement bounds that of all its completions from above.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mooring.arrays import Bools, Floats, Ints
from mooring.placement.fast_math import FAST
from mooring.placement.site_limits import SLACK


@njit(cache=True, fastmath=FAST)
def mean_radius_power(reach: Floats, power: int) -> float:
    """Mean of reach ** -power."""
    total = 0.0
    for u in range(len(reach)):
        inverse = 1.0 / reach[u]
        value = 1.0
        for _ in range(power):
            value *= inverse
        total += value
    return total / len(reach)


@njit(cache=True)
def copy(values: Floats, into: Floats) -> None:
    for u in range(len(values)):
        into[u] = values[u]


@njit(cache=True, fastmath=FAST)
def add_load(load: Floats, extra: Floats) -> None:
    for u in range(len(load)):
        load[u] += extra[u]


@njit(cache=True, fastmath=FAST)
def raise_reach(reach: Floats, load: Floats, factor: float) -> None:
    for u in range(len(reach)):
        reach[u] = max(reach[u], factor * load[u])


@njit(cache=True)
def place_one(
    j: int,
    site: int,
    level: int,
    site_of: Ints,
    load: Floats,
    margin: Floats,
    reach: Floats,
    fragment_load: Floats,
    fragment_lower: Floats,
    fixed: Floats,
    span: float,
    arc_start: Ints,
    arc_neighbour: Ints,
    arc_fixed_end: Ints,
    arc_load: Floats,
    arc_lower: Floats,
    changed: Bools,
) -> bool:
    """Fill level + 1 from `level` with fragment j at `site`; False if that overloads a site at any rate."""
    copy(reach[level], reach[level + 1])
    for i in range(len(changed)):
        copy(load[level, i], load[level + 1, i])
        margin[level + 1, i] = margin[level, i]
        changed[i] = i == site
    add_load(load[level + 1, site], fragment_load[j])
    margin[level + 1, site] -= fixed[j] + fragment_lower[j]
    for a in range(arc_start[j], arc_start[j + 1]):
        other = arc_fixed_end[a] if arc_neighbour[a] < 0 else site_of[arc_neighbour[a]]
        if other < 0 or other == site:
            continue
        add_load(load[level + 1, site], arc_load[a])
        add_load(load[level + 1, other], arc_load[a])
        margin[level + 1, site] -= arc_lower[a]
        margin[level + 1, other] -= arc_lower[a]
        changed[other] = True
    for i in range(len(changed)):
        if changed[i]:
            if margin[level + 1, i] <= 0.0:
                if load[level + 1, i, 0] > 0.0:
                    return False
                continue
            raise_reach(reach[level + 1], load[level + 1, i], span / margin[level + 1, i])
    return True


@njit(cache=True)
def search(
    order: Ints,
    fragment_load: Floats,
    fragment_lower: Floats,
    fixed: Floats,
    memory_mb: Floats,
    pinned: Ints,
    room: Floats,
    memory_limit_mb: Floats,
    alike: Ints,
    span: float,
    power: int,
    arc_start: Ints,
    arc_neighbour: Ints,
    arc_fixed_end: Ints,
    arc_load: Floats,
    arc_lower: Floats,
    incumbent: float,
    tolerance: float,
    node_budget: int,
    pool_sites: Ints,
    pool_values: Floats,
) -> tuple[int, int, bool]:
    """Walk the whole tree, leaving out what cannot come within `tolerance` of the best.

    Complete placements within it go into the pool; a full pool gives up its worst. Returns how many are in
    the pool, how many partial placements were looked at, and whether the walk ended.
    """
    fragments, directions = fragment_load.shape
    sites = len(room)
    load = np.zeros((fragments + 1, sites, directions))
    margin = np.zeros((fragments + 1, sites))
    reach = np.ones((fragments + 1, directions))
    room_left = np.empty(sites)
    memory_left = np.empty(sites)
    for i in range(sites):
        margin[0, i] = room_left[i] = room[i]
        memory_left[i] = memory_limit_mb[i]
    held = np.zeros(sites, np.int64)
    changed = np.zeros(sites, np.bool_)
    site_of = np.zeros(fragments, np.int64) - 1
    next_site = np.zeros(fragments + 1, np.int64)
    best = incumbent
    pooled = 0
    nodes = 0
    level = 0
    while level >= 0:
        if level == fragments:
            value = mean_radius_power(reach[level], power)
            best = max(best, value)
            if pooled < len(pool_values):
                at = pooled
                pooled += 1
                pool_values[at] = -1.0
            else:
                at = 0
                for other in range(1, pooled):
                    if pool_values[other] < pool_values[at]:
                        at = other
            if value > pool_values[at]:
                for f in range(fragments):
                    pool_sites[at, f] = site_of[f]
                pool_values[at] = value
            level -= 1
        else:
            j = order[level]
            site = next_site[level]
            if site < sites:
                next_site[level] += 1
                if pinned[j] >= 0 and site != pinned[j]:
                    continue
                if room_left[site] - fixed[j] < -SLACK or memory_left[site] < memory_mb[j]:
                    continue
                if held[site] == 0 and first_alike_empty(site, held, alike) != site and pinned[j] < 0:
                    continue
                nodes += 1
                if nodes > node_budget:
                    return pooled, nodes, False
                if not place_one(
                    j, site, level, site_of, load, margin, reach, fragment_load, fragment_lower, fixed,
                    span, arc_start, arc_neighbour, arc_fixed_end, arc_load, arc_lower, changed,
                ):  # fmt: skip
                    continue
                if mean_radius_power(reach[level + 1], power) < best * (1.0 - tolerance):
                    continue
                site_of[j] = site
                held[site] += 1
                room_left[site] -= fixed[j]
                memory_left[site] -= memory_mb[j]
                level += 1
                next_site[level] = 0
                continue
            level -= 1
        if level >= 0:
            j = order[level]
            site = site_of[j]
            held[site] -= 1
            room_left[site] += fixed[j]
            memory_left[site] += memory_mb[j]
            site_of[j] = -1
    return pooled, nodes, True


@njit(cache=True)
def first_alike_empty(site: int, held: Ints, alike: Ints) -> int:
    """The first empty site that is interchangeable with this one: only it needs to be tried."""
    for i in range(site):
        if alike[i] == alike[site] and held[i] == 0:
            return i
    return site
