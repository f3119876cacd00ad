"""Branch and bound over the sites of fragments for the least mean latency, compiled.

What a partial placement must cost at least is the latency without any queue: ways and work, with the best
that is left for the fragments to come (a shortest way where they form a chain).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from mooring.algorithms.ants.descent_kernels import SLACK, objective
from mooring.arrays import Floats, Ints
from mooring.model.placement.copy_kernels import copy


class Branching(NamedTuple):
    """Fragments in the order in which they get a site, producers before readers."""

    order: Ints
    own: Floats
    """Fragment x site: seconds of work, weighted as in the mean latency."""
    into_start: Ints
    into: Ints
    """Ways into a fragment, by number."""
    out_start: Ints
    out: Ints
    source: Ints
    """Per way: a fragment, or ~site."""
    weight: Floats
    least: Floats
    """Way x site of its source: the least that the way and what comes behind it cost."""


@njit(cache=True)
def _added(t, b, sites, j, s) -> float:  # type: ignore[no-untyped-def]
    """By how much the least cost grows when fragment j gets site s."""
    cost = b.own[j, s]
    for n in range(b.into_start[j], b.into_start[j + 1]):
        way = b.into[n]
        source = ~b.source[way] if b.source[way] < 0 else sites[b.source[way]]
        cost += b.weight[way] * t.latency_s[source, s] - b.least[way, source]
    for n in range(b.out_start[j], b.out_start[j + 1]):
        cost += b.least[b.out[n], s]
    return float(cost)


@njit(cache=True)
def search(t, f, b, sites, best_sites, best, at_least, most_nodes):  # type: ignore[no-untyped-def]
    """Depth first, cheapest site first, from the pinned sites. best_sites and its latency `best` are given
    and improved. Returns the best latency and the partial placements looked at, as -1 if there were too
    many."""
    depths, site_count = len(b.order), len(t.capacity_cores)
    query_s, wait_s, used = np.zeros(len(t.query_site)), np.zeros(site_count), np.zeros(site_count)
    fixed, memory = np.zeros(site_count), np.zeros(site_count)
    for j in range(len(sites)):
        if sites[j] >= 0:
            fixed[sites[j]] += t.fixed_cores[j]
            memory[sites[j]] += f.memory_mb[j]
    bound, ranked = np.full((depths + 1, site_count), math.inf), np.zeros((depths + 1, site_count), np.int64)
    tried, reached = np.zeros(depths + 1, np.int64), np.zeros(depths + 1)
    reached[0] = at_least
    depth, nodes, begun = 0, 0, True
    while depth >= 0:
        if depth == depths:
            cost = objective(t, sites, query_s, wait_s, used)
            if cost < best:
                best = cost
                copy(sites, best_sites)
            depth -= 1
            begun = False
            continue
        j = b.order[depth]
        if begun:
            nodes += 1
            if nodes > most_nodes:
                return best, -1
            for s in range(site_count):
                bound[depth, s] = math.inf
                room = fixed[s] + t.fixed_cores[j] <= t.capacity_cores[s] * (1.0 + SLACK)
                if room and memory[s] + f.memory_mb[j] <= f.memory_limit_mb[s] * (1.0 + SLACK):
                    bound[depth, s] = reached[depth] + _added(t, b, sites, j, s)
            copy(np.argsort(bound[depth]), ranked[depth])
            tried[depth] = 0
        else:
            fixed[sites[j]] -= t.fixed_cores[j]
            memory[sites[j]] -= f.memory_mb[j]
            sites[j] = -1
        if tried[depth] == site_count or not bound[depth, ranked[depth, tried[depth]]] < best:
            depth -= 1
            begun = False
            continue
        s = ranked[depth, tried[depth]]
        tried[depth] += 1
        sites[j] = s
        fixed[s] += t.fixed_cores[j]
        memory[s] += f.memory_mb[j]
        reached[depth + 1] = bound[depth, s]
        depth, begun = depth + 1, True
    return best, nodes
