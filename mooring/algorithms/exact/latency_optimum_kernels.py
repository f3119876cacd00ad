"""Branch and bound over the sites of fragments for the least mean latency, compiled.

What a partial placement must cost at least is the latency without any queue: ways and work, with the best
that is left for the fragments to come (a shortest way where they form a chain).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from mooring.algorithms.ants.descent_kernels import SLACK, FragmentFlows, objective
from mooring.arrays import Floats, Ints
from mooring.model.load.queued.latency_kernels import Template
from mooring.model.load.queued.way_kernels import between_s
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
        cost += b.weight[way] * between_s(t.ways, source, s) - b.least[way, source]
    for n in range(b.out_start[j], b.out_start[j + 1]):
        cost += b.least[b.out[n], s]
    return float(cost)


class BranchWalk(NamedTuple):
    """Where a search stands, so that it can be gone on with."""

    fixed: Floats
    memory: Floats
    bound: Floats
    """Depth x site, like the next."""
    ranked: Ints
    tried: Ints
    reached: Floats
    query_s: Floats
    wait_s: Floats
    used: Floats
    counts: Ints
    """By the names below."""


DEPTH, NODES, BEGUN = range(3)
"""In `counts`: where it is, -1 at the end; partial placements looked at; whether it has just come there."""


def walk_at_the_root(t: Template, f: FragmentFlows, depths: int, sites: Ints, at_least: float) -> BranchWalk:
    """From the pinned sites."""
    count = len(t.capacity_cores)
    fixed, memory = np.zeros(count), np.zeros(count)
    placed = np.flatnonzero(sites >= 0)
    np.add.at(fixed, sites[placed], t.fixed_cores[placed])
    np.add.at(memory, sites[placed], f.memory_mb[placed])
    reached = np.zeros(depths + 1)
    reached[0] = at_least
    return BranchWalk(
        fixed,
        memory,
        np.full((depths + 1, count), math.inf),
        np.zeros((depths + 1, count), np.int64),
        np.zeros(depths + 1, np.int64),
        reached,
        np.zeros(len(t.query_site)),
        np.zeros(count),
        np.zeros(count),
        np.array([0, 0, 1]),
    )


@njit(cache=True)
def search(t, f, b, w, sites, best_sites, best, most_nodes):  # type: ignore[no-untyped-def]
    """Depth first, cheapest site first, until the end or so many partial placements in all. best_sites and
    its latency `best` are given and improved. Returns the best latency."""
    depths, site_count = len(b.order), len(t.capacity_cores)
    fixed, memory, bound, ranked, tried, reached = w.fixed, w.memory, w.bound, w.ranked, w.tried, w.reached
    depth, nodes, begun = w.counts[DEPTH], w.counts[NODES], w.counts[BEGUN] > 0
    while depth >= 0:
        if depth == depths:
            cost = objective(t, sites, w.query_s, w.wait_s, w.used)
            if cost < best:
                best = cost
                copy(sites, best_sites)
            depth -= 1
            begun = False
            continue
        j = b.order[depth]
        if begun:
            if nodes == most_nodes:
                break
            nodes += 1
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
    w.counts[DEPTH], w.counts[NODES], w.counts[BEGUN] = depth, nodes, begun
    return best
