"""The inner loop of the exact search: a walk over the tree of partial placements.

Level by level it keeps, per site and direction u, the load g_i(u) = q_i.u and per site the margin
c_i - q_i.B. Placing a fragment only adds load and takes margin away, so the feasible ratio of a partial
placement bounds that of all its completions from above.
"""

from __future__ import annotations

from typing import NamedTuple

from numba import njit

from mooring.arrays import Bools, Floats, Ints
from mooring.model.placement.copy_kernels import copy
from mooring.model.placement.fast_math import FAST
from mooring.model.placement.site_limits import SLACK


class Tree(NamedTuple):
    """What is searched: loads along directions and limits, in parts of the whole."""

    order: Ints
    """Fragments in the order in which they are placed, one per level of the tree."""
    fragment_load: Floats
    fragment_lower: Floats
    fixed: Floats
    memory_mb: Floats
    pinned: Ints
    room: Floats
    memory_limit_mb: Floats
    alike: Ints
    """Sites with equal numbers are interchangeable while empty."""
    span: float
    power: int
    arc_start: Ints
    arc_neighbour: Ints
    arc_fixed_end: Ints
    arc_load: Floats
    arc_lower: Floats


class Walk(NamedTuple):
    """Where a walk over the tree stands. Searching changes it in place, so that it can be gone on with."""

    load: Floats
    """Per level, site and direction; `margin` and `reach` likewise belong to a level."""
    margin: Floats
    reach: Floats
    room_left: Floats
    memory_left: Floats
    held: Ints
    """Fragments at each site."""
    changed: Bools
    site_of: Ints
    next_site: Ints
    """Per level, the site that is tried next."""
    open_sites: Ints
    """Per level, how many sites were open to its fragment when the walk came there, ..."""
    tried: Ints
    """... how many of them it tried, ..."""
    followed: Ints
    """... and how many of these it followed farther down, the one it is on included."""
    pool_sites: Ints
    """Complete placements that came close to the best; a full pool gives up its worst."""
    pool_values: Floats
    best: Floats
    """One number: the largest feasible ratio so far."""
    counts: Ints
    """By the names below."""


LEVEL, NODES, POOLED = 0, 1, 2
"""In `Walk.counts`: where the walk is, partial placements looked at, complete ones in the pool."""


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


@njit(cache=True, fastmath=FAST)
def add_load(load: Floats, extra: Floats) -> None:
    for u in range(len(load)):
        load[u] += extra[u]


@njit(cache=True, fastmath=FAST)
def raise_reach(reach: Floats, load: Floats, factor: float) -> None:
    for u in range(len(reach)):
        reach[u] = max(reach[u], factor * load[u])


@njit(cache=True)
def place_one(tree: Tree, walk: Walk, j: int, site: int, level: int) -> bool:
    """Fill level + 1 from `level` with fragment j at `site`; False if that overloads a site at any rate."""
    load, margin, reach = walk.load[level + 1], walk.margin[level + 1], walk.reach[level + 1]
    copy(walk.reach[level], reach)
    for i in range(len(walk.changed)):
        copy(walk.load[level, i], load[i])
        margin[i] = walk.margin[level, i]
        walk.changed[i] = i == site
    add_load(load[site], tree.fragment_load[j])
    margin[site] -= tree.fixed[j] + tree.fragment_lower[j]
    for a in range(tree.arc_start[j], tree.arc_start[j + 1]):
        neighbour = tree.arc_neighbour[a]
        other = tree.arc_fixed_end[a] if neighbour < 0 else walk.site_of[neighbour]
        if other < 0 or other == site:
            continue
        add_load(load[site], tree.arc_load[a])
        add_load(load[other], tree.arc_load[a])
        margin[site] -= tree.arc_lower[a]
        margin[other] -= tree.arc_lower[a]
        walk.changed[other] = True
    for i in range(len(walk.changed)):
        if walk.changed[i]:
            if margin[i] <= 0.0:
                if load[i, 0] > 0.0:
                    return False
                continue
            raise_reach(reach, load[i], tree.span / margin[i])
    return True


@njit(cache=True)
def is_open(tree: Tree, walk: Walk, j: int, site: int) -> bool:
    """Whether fragment j may go to a site, and no other site that is just like it has been tried instead."""
    if tree.pinned[j] >= 0 and site != tree.pinned[j]:
        return False
    if walk.room_left[site] - tree.fixed[j] < -SLACK or walk.memory_left[site] < tree.memory_mb[j]:
        return False
    is_spare = walk.held[site] == 0 and first_alike_empty(site, walk.held, tree.alike) != site
    return tree.pinned[j] >= 0 or not is_spare


@njit(cache=True)
def first_alike_empty(site: int, held: Ints, alike: Ints) -> int:
    """The first empty site that is interchangeable with this one: only it needs to be tried."""
    for i in range(site):
        if alike[i] == alike[site] and held[i] == 0:
            return i
    return site


@njit(cache=True)
def enter(tree: Tree, walk: Walk, level: int) -> None:
    """Begin with the sites of a level."""
    walk.counts[LEVEL] = level
    if level == len(tree.order):
        return
    walk.next_site[level] = walk.tried[level] = walk.followed[level] = walk.open_sites[level] = 0
    for site in range(len(tree.room)):
        if is_open(tree, walk, tree.order[level], site):
            walk.open_sites[level] += 1


@njit(cache=True)
def hold(tree: Tree, walk: Walk, j: int, site: int, sign: int) -> None:
    """Put fragment j at a site, or with sign -1 take it away again."""
    walk.site_of[j] = site if sign > 0 else -1
    walk.held[site] += sign
    walk.room_left[site] -= sign * tree.fixed[j]
    walk.memory_left[site] -= sign * tree.memory_mb[j]


@njit(cache=True)
def keep(tree: Tree, walk: Walk) -> None:
    """Take a complete placement into the pool."""
    value = mean_radius_power(walk.reach[len(tree.order)], tree.power)
    walk.best[0] = max(walk.best[0], value)
    pooled = walk.counts[POOLED]
    if pooled < len(walk.pool_values):
        at = pooled
        walk.counts[POOLED] += 1
        walk.pool_values[at] = -1.0
    else:
        at = 0
        for other in range(1, pooled):
            if walk.pool_values[other] < walk.pool_values[at]:
                at = other
    if value > walk.pool_values[at]:
        for f in range(len(walk.site_of)):
            walk.pool_sites[at, f] = walk.site_of[f]
        walk.pool_values[at] = value


@njit(cache=True)
def search(tree: Tree, walk: Walk, tolerance: float, most_nodes: int) -> bool:
    """Go on with the walk, leaving out what cannot come within `tolerance` of the best.

    Returns whether it ended; otherwise it has looked at `most_nodes` partial placements in all.
    """
    fragments, sites = len(tree.order), len(tree.room)
    level = walk.counts[LEVEL]
    while level >= 0:
        if level == fragments:
            keep(tree, walk)
        else:
            j = tree.order[level]
            site = walk.next_site[level]
            while site < sites and not is_open(tree, walk, j, site):
                site += 1
            walk.next_site[level] = site
            if site < sites:
                if walk.counts[NODES] == most_nodes:
                    return False
                walk.counts[NODES] += 1
                walk.next_site[level] += 1
                walk.tried[level] += 1
                if not place_one(tree, walk, j, site, level):
                    continue
                if mean_radius_power(walk.reach[level + 1], tree.power) < walk.best[0] * (1.0 - tolerance):
                    continue
                walk.followed[level] += 1
                hold(tree, walk, j, site, 1)
                level += 1
                enter(tree, walk, level)
                continue
        level -= 1
        walk.counts[LEVEL] = level
        if level >= 0:
            j = tree.order[level]
            hold(tree, walk, j, walk.site_of[j], -1)
    return True


@njit(cache=True)
def guessed_nodes(tree: Tree, walk: Walk, tolerance: float, draws: Floats) -> float:
    """How many partial placements a whole walk looks at (Knuth 1975): the mean over ways to the bottom, each
    followed at random, of what the tree would have if it were everywhere as wide as there.

    walk stands at the root and knows the best; draws (ways, levels) are from 0 to 1.
    """
    sites, total = len(tree.room), 0.0
    for way in range(len(draws)):
        alike, level = 1.0, 0
        while level < len(tree.order):
            j, chosen, followed = tree.order[level], -1, 0
            for turn in range(2):
                at = 0
                for site in range(sites):
                    if not is_open(tree, walk, j, site):
                        continue
                    total += alike if turn == 0 else 0.0
                    if not place_one(tree, walk, j, site, level):
                        continue
                    value = mean_radius_power(walk.reach[level + 1], tree.power)
                    if value < walk.best[0] * (1.0 - tolerance):
                        continue
                    if turn == 1 and at == min(int(draws[way, level] * followed), followed - 1):
                        chosen = site
                        break
                    at += 1
                followed = at if turn == 0 else followed
                if followed == 0:
                    break
            if chosen < 0:
                break
            alike *= followed
            hold(tree, walk, j, chosen, 1)
            level += 1
        for back in range(level):
            j = tree.order[back]
            hold(tree, walk, j, walk.site_of[j], -1)
    return total / len(draws)
