"""A scout on its way back, compiled: `algorithms/ants/machines/scouting.py` has the same, site by site.

At each site that it has chosen it settles the border with the site before: tasks go over to where the two
together cost least, all of them if need be. And it looks by at one of the site's neighbours, drawn, which
takes over where that costs less (section 3.7: adjacent servers).
"""

from __future__ import annotations

import math

from numba import njit

from mooring.algorithms.ants import rules
from mooring.algorithms.ants.cell_kernels import MODULUS, next_random
from mooring.algorithms.ants.segment_kernels import leave_out, segment_cost
from mooring.model.load.queued.kept_latency_kernels import KERNEL
from mooring.model.load.queued.way_kernels import between_s


@njit(**KERNEL)
def balance(colony, law, chain, way, state, end_cost):  # type: ignore[no-untyped-def]
    """The way is changed. Returns what it costs from its last site to the destination, and the steps to its
    sites and their neighbours."""
    at, steps = way.size[0] - 1, 0
    while at >= 0:
        steps += 1
        if way.shared[at] == 0 and colony.neighbour[way.site[at], 0] >= 0:
            state = next_random(state)
            other = _neighbour(colony, way.site[at], state / MODULUS)
            if _may_go(chain, way, at, other):
                steps += 1
                end_cost = _look_by(colony, law, chain, way, at, other, end_cost)
        left_out = False
        if at > 0 and way.shared[at] == 0 and way.shared[at - 1] == 0:
            end_cost, left_out = _settle(colony, law, chain, way, at, end_cost)
            if left_out:
                steps += 1  # it has been at the site that has nothing left
        at -= 2 if left_out else 1
    return end_cost, steps


@njit(**KERNEL)
def _neighbour(colony, s, number) -> int:  # type: ignore[no-untyped-def]
    count = 0
    while count < colony.neighbour.shape[1] and colony.neighbour[s, count] >= 0:
        count += 1
    return int(colony.neighbour[s, int(number * count)])


@njit(**KERNEL)
def _may_go(chain, way, at, other) -> bool:  # type: ignore[no-untyped-def]
    """A site has one segment of a chain. What is behind the chain, and queues where it is, is not asked what
    it would cost without it."""
    for n in range(way.size[0]):
        if way.site[n] == other:
            return False
    is_last = at + 1 == way.size[0]
    return not (
        chain.to_fragment and is_last and (way.site[at] == chain.destination or other == chain.destination)
    )


@njit(**KERNEL)
def _onward(colony, chain, way, at, site) -> float:  # type: ignore[no-untyped-def]
    """Of the way from a site to what comes behind a segment."""
    if colony.trigger_s > 0.0:
        return 0.0
    if at + 1 < way.size[0]:
        weight = chain.tasks[way.first[at + 1]][rules.WEIGHT]
        return float(weight * between_s(colony.ways, site, way.site[at + 1]))
    return float(chain.end_weight * between_s(colony.ways, site, chain.destination))


@njit(**KERNEL)
def _cost(colony, law, chain, site, first, last, variability, before):  # type: ignore[no-untyped-def]
    waits = not (chain.from_fragment and first == 0 and site == chain.source)
    cost, effect, _ = segment_cost(
        colony, chain.tasks, chain.sides, site, first, last, 0, variability, before, waits, law.most_limit
    )
    return cost, effect


@njit(**KERNEL)
def _look_by(colony, law, chain, way, at, other, end_cost) -> float:  # type: ignore[no-untyped-def]
    before = way.site[at - 1] if at > 0 else chain.source
    cost, effect = _cost(colony, law, chain, other, way.first[at], way.last[at], way.variability[at], before)
    onward, was = _onward(colony, chain, way, at, other), _onward(colony, chain, way, at, way.site[at])
    if not cost + onward < way.cost[at] + was:
        return float(end_cost)
    way.site[at], way.cost[at], way.effect[at] = other, cost, effect
    return float(_with_way(way, at, onward - was, end_cost))


@njit(**KERNEL)
def _with_way(way, at, more, end_cost) -> float:  # type: ignore[no-untyped-def]
    """The way to what comes behind a segment costs so much more."""
    if at + 1 == way.size[0]:
        return float(end_cost + more)
    way.cost[at + 1] += more
    return float(end_cost)


@njit(**KERNEL)
def _settle(colony, law, chain, way, at, end_cost):  # type: ignore[no-untyped-def]
    """The border with the site before; and whether that has nothing left."""
    here, there, earlier = way.site[at], way.site[at - 1], way.site[at - 2] if at > 1 else chain.source
    low, high, begun = way.first[at - 1], way.last[at], way.first[at]
    least, border = way.cost[at - 1] + way.cost[at], begun
    was, onward = _onward(colony, chain, way, at, here), _onward(colony, chain, way, at, there)
    is_bound = (
        chain.to_fragment
        and at + 1 == way.size[0]
        and (here == chain.destination or there == chain.destination)
    )
    kept = 0.0, 0.0, 0.0, 0.0
    for first in range(low, high + 2):
        if first == begun or (first == high + 1 and is_bound):
            continue
        cost, effect, cost_there, effect_there, more = -was, 0.0, 0.0, 0.0, onward
        if first <= high:
            alone = first == low
            variability = way.variability[at - 1] if alone else way.variability[at]
            cost, effect = _cost(
                colony, law, chain, here, first, high, variability, earlier if alone else there
            )
            more = 0.0
        if first > low and cost < math.inf:
            cost_there, effect_there = _cost(
                colony, law, chain, there, low, first - 1, way.variability[at - 1], earlier
            )
        if cost + cost_there + more < least:
            least, border = cost + cost_there + more, first
            kept = cost, effect, cost_there, effect_there
    if border == begun:
        return end_cost, False
    way.first[at], way.last[at - 1] = border, border - 1
    way.cost[at], way.effect[at] = kept[0], kept[1]
    way.cost[at - 1], way.effect[at - 1] = kept[2], kept[3]
    if border == high + 1:
        end_cost = _with_way(way, at, onward - was, end_cost)
        leave_out(way, at)
    elif border == low:
        way.variability[at] = way.variability[at - 1]
        leave_out(way, at - 1)
        return end_cost, True
    return end_cost, False
