"""Best-first branch and bound on the feasible ratio, over arrays only.

A node of the tree has the heaviest fragments placed and the rest nowhere; along each direction its plan
cannot reach farther than what is placed allows, nor than the bound that holds for all plans. The node with
the largest bound is opened next, so at any time the largest bound still open, or of a plan completed,
bounds all plans.
"""

from __future__ import annotations

import heapq

import numpy as np
from numba import njit

from mooring.arrays import Floats, Ints, Singles
from mooring.model.placement.copy_kernels import copy
from mooring.model.placement.fast_math import FAST
from mooring.model.rate_scenarios.level_kernels import ONE, raise_to


@njit(cache=True, fastmath=FAST)
def value_of(worst: Singles, weights: Singles, exponent: int, power: Singles, spare: Singles) -> float:
    for s in range(len(worst)):
        power[s] = ONE / worst[s]
    raise_to(power, exponent, len(worst), spare)
    total = np.float32(0.0)
    for s in range(len(worst)):
        total += weights[s] * power[s]
    return float(total)


@njit(cache=True, fastmath=FAST)
def raise_level(level: Singles, load: Singles, inverse_margin: float, out: Singles) -> None:
    inverse = np.float32(inverse_margin)
    for s in range(len(level)):
        out[s] = max(level[s], load[s] * inverse)


@njit(cache=True, fastmath=FAST)
def add(load: Singles, row: Singles) -> None:
    for s in range(len(load)):
        load[s] += row[s]


@njit(cache=True)
def best_first(
    rows: Singles, base: Floats, capacity: Floats, weights: Singles, exponent: int, least: Singles,
    order: Ints, pinned: Ints, alike: bool, most_nodes: int, found: float,
) -> float:  # fmt: skip
    """The largest bound when the tree is closed or `most_nodes` are open; `found` is a plan's value already
    known.

    `least[s]` bounds 1/level of every plan along direction s. With sites that are alike, a fragment opens
    at most one empty site.
    """
    sites, count = len(capacity), rows.shape[1]
    parent = np.empty(most_nodes, np.int64)
    site = np.empty(most_nodes, np.int16)
    depth = np.empty(most_nodes, np.int32)
    power = np.empty(count, np.float32)
    spare = np.empty(count, np.float32)
    level = np.empty(count, np.float32)
    child = np.empty(count, np.float32)
    load = np.empty((sites, count), np.float32)
    margin = np.empty(sites)
    used = np.empty(sites, np.bool_)
    root = value_of(least, weights, exponent, power, spare)
    heap = [(-root, 0)]
    parent[0], site[0], depth[0] = -1, -1, 0
    nodes = 1
    while len(heap) > 0:
        bound, node = heapq.heappop(heap)
        bound = -bound
        if bound <= found:
            return found
        if depth[node] == len(order):
            return bound
        if nodes + sites > most_nodes:
            return bound
        load[:] = np.float32(0.0)
        copy(capacity, margin)
        used[:] = False
        at = node
        while parent[at] >= 0:
            f = order[depth[at] - 1]
            add(load[site[at]], rows[f])
            margin[site[at]] -= base[f]
            used[site[at]] = True
            at = parent[at]
        copy(least, level)
        for i in range(sites):
            if used[i]:
                raise_level(level, load[i], 1.0 / margin[i], level)
        f = order[depth[node]]
        opened = False
        for i in range(sites):
            if pinned[f] >= 0 and pinned[f] != i:
                continue
            if alike and not used[i]:
                if opened:
                    continue
                opened = True
            left = margin[i] - base[f]
            if left <= 0.0:
                continue
            for s in range(count):
                child[s] = load[i, s] + rows[f, s]
            raise_level(level, child, 1.0 / left, child)
            value = value_of(child, weights, exponent, power, spare)
            if value > found:
                parent[nodes], site[nodes], depth[nodes] = node, i, depth[node] + 1
                heapq.heappush(heap, (-value, nodes))
                nodes += 1
    return found
