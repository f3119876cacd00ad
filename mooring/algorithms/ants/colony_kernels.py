"""A whole colony, ant after ant, compiled: what the machines of `algorithms/ants/machines/` do when every ant
waits for the one before, from the same seeds.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from mooring.algorithms.ants.balance_kernels import balance
from mooring.algorithms.ants.cell_kernels import (
    MODULUS,
    ant_seed,
    discourage,
    forget_unchanged,
    next_random,
    next_slot,
    routing_ant,
)
from mooring.algorithms.ants.segment_kernels import (
    copy_way,
    empty_way,
    end_cost,
    segment_cost,
    segment_flow,
    tasks_that_run,
)
from mooring.model.load.queued.kept_latency_kernels import KERNEL
from mooring.model.placement.copy_kernels import copy

BACK_BYTES, BORDER_BYTES = 34.0, 19.0
"""That a scout on its way back has more than on its way out; and per task, if it has to settle a border."""


@njit(**KERNEL)
def scout(colony, law, chain, state, way, path_size):  # type: ignore[no-untyped-def]
    """One hypothetical placement along pheromones; the way and its path, in the scratch, are filled in.
    Returns the cost (infinite: it failed), the effect on others in it, and its greediness.
    """
    found = _scout(colony, law, chain, state, way, path_size)
    for at in range(path_size[0]):
        colony.scratch.is_visited[colony.scratch.path[at]] = False
    return found


@njit(**KERNEL)
def _scout(colony, law, chain, state, way, path_size):  # type: ignore[no-untyped-def]
    tasks, sides, signature = chain.tasks, chain.sides, chain.signature
    source, destination, variability = chain.source, chain.destination, chain.variability
    n, path, is_visited = len(tasks), colony.scratch.path, colony.scratch.is_visited
    state = next_random(state)
    greed = 1 + int(state / MODULUS * n)
    state = next_random(state)
    limit = law.least_limit + state / MODULUS * (law.most_limit - law.least_limit)
    state = next_random(state)
    skipped = state / MODULUS * law.most_skipped
    state = next_random(state)
    astray = state / MODULUS * law.most_astray
    way.size[0], path_size[0] = 0, 1
    # A chain may begin where it ends, and still have its tasks elsewhere.
    path[0], is_visited[source] = source, source != destination
    s, k, before, shares = source, 0, source, True
    while True:
        places, has_arrived = True, s == destination and path_size[0] > 1
        if not has_arrived:
            state = next_random(state)
            places = not state / MODULUS < skipped
        elif way.size[0] > 0 and way.site[0] == s:
            places = False  # it began here: a site has one segment of a chain
        if places:
            waits = not (chain.from_fragment and k == 0 and s == source)
            shared = tasks_that_run(colony, signature, s, k, n - 1) if shares else 0
            for many in range(max(min(greed, n - k), shared), max(shared - 1, 0), -1):
                cost, effect, left = segment_cost(
                    colony, tasks, sides, s, k, k + many - 1, shared, variability, before, waits, limit
                )
                if cost < math.inf:
                    at = way.size[0]
                    way.site[at], way.first[at], way.last[at] = s, k, k + many - 1
                    way.variability[at], way.cost[at], way.effect[at] = variability, cost, effect
                    way.shared[at] = shared
                    way.size[0] += 1
                    k, before, variability, shares = k + many, s, left, shared == many
                    break
        if k == n or has_arrived:
            break
        if colony.neighbour[s, 0] < 0:
            return math.inf, 0.0, greed
        slot, state = next_slot(colony, destination, s, is_visited, state, astray)
        s = colony.neighbour[s, slot]
        if is_visited[s]:
            return math.inf, 0.0, -1
        path[path_size[0]], is_visited[s] = s, True
        path_size[0] += 1
        _count_steps(colony, law, n, way.size[0], 1)
    if k < n:
        return math.inf, 0.0, greed
    tried = way.size[0]
    total = end_cost(colony, before, destination, chain.to_fragment, chain.end_weight)
    total, back = balance(colony, law, chain, way, state, total)
    _count_steps(colony, law, n, tried, back + 2)  # to the destination, over the sites chosen, and home
    colony.sent_bytes[1] += (back + 1) * (BACK_BYTES + (BORDER_BYTES * n if tried > 1 else 0.0))
    effect = 0.0
    for at in range(way.size[0]):
        total += way.cost[at]
        effect += way.effect[at]
    return total, effect, greed


@njit(**KERNEL)
def _count_steps(colony, law, tasks, sites, steps):  # type: ignore[no-untyped-def]
    colony.steps[1] += steps
    colony.sent_bytes[1] += steps * (law.scout_bytes + law.task_bytes * tasks + law.segment_bytes * sites)


@njit(**KERNEL)
def cost_of(colony, chain, way) -> float:  # type: ignore[no-untyped-def]
    """Of a way as it is, with nothing of it in the totals; it shares what runs at its sites."""
    tasks, sides, before, signature = chain.tasks, chain.sides, chain.source, chain.signature
    total, variability, shares = 0.0, chain.variability, True
    for at in range(way.size[0]):
        s = way.site[at]
        waits = not (chain.from_fragment and at == 0 and s == chain.source)
        way.variability[at] = variability
        first, last = way.first[at], way.last[at]
        way.shared[at] = tasks_that_run(colony, signature, s, first, last) if shares else 0
        shares = way.shared[at] == last + 1 - first
        way.cost[at], way.effect[at], variability = segment_cost(
            colony, tasks, sides, s, first, last, way.shared[at], variability, before, waits, math.inf
        )
        total += way.cost[at]
        before = s
    total += end_cost(colony, before, chain.destination, chain.to_fragment, chain.end_weight)
    return float(total) if total < math.inf else math.inf  # others that are full make it no number


@njit(**KERNEL)
def deploy(colony, chain, way, sign):  # type: ignore[no-untyped-def]
    """Add the flows of a way to the totals of its sites, or take them away."""
    for at in range(way.size[0]):
        count_flow(colony, chain, way, at, sign)
        for k in range(way.first[at], way.last[at] + 1):
            if chain.signature[k] >= 0:
                colony.runs[way.site[at], chain.signature[k]] += int(sign)


@njit(**KERNEL)
def count_flow(colony, chain, way, at, sign):  # type: ignore[no-untyped-def]
    first, last = way.first[at], way.last[at]
    flow = segment_flow(
        chain.tasks, chain.sides, first, last, way.shared[at], way.variability[at], colony.trigger_s
    )
    for column in range(8):
        colony.totals[way.site[at], column] += sign * flow[column]


@njit(cache=True)
def forage(colony, law, chain, number, routing, scouts, first_ant, best, seen):  # type: ignore[no-untyped-def]
    """One attempt of a leader: routing ants, then scouts; the best report is filled in, and seen says which
    sites scouts passed that succeeded. Returns its cost (infinite: none did) and the number of the next
    ant."""
    source, destination = chain.source, chain.destination
    n, begun = len(chain.tasks), colony.trails.used[0]
    for ant in range(first_ant, first_ant + routing):
        if source != destination:
            routing_ant(colony, law, source, destination, ant_seed(colony.seed, number, ant))
    way, least = empty_way(n), math.inf
    path, failed = colony.scratch.path, colony.scratch.failed
    size, sizes = np.zeros(1, np.int64), np.zeros(scouts, np.int64)
    greeds, waiting = np.zeros(scouts, np.int64), 0
    for ant in range(first_ant + routing, first_ant + routing + scouts):
        cost, effect, greed = scout(colony, law, chain, ant_seed(colony.seed, number, ant), way, size)
        if cost < math.inf:
            for at in range(size[0]):
                seen[path[at]] = True
            if cost < least:
                least = cost
                copy_way(way, best)
            if effect <= law.outstanding * (cost - effect) and law.outstanding > 0.0:
                break
        elif greed >= 0:
            copy(path[: size[0]], failed[waiting])
            sizes[waiting], greeds[waiting] = size[0], greed
            waiting = _after_failure(colony, law, destination, failed, sizes, greeds, waiting + 1)
    forget_unchanged(colony.trails, begun)
    return least, first_ant + routing + scouts


@njit(cache=True)
def _after_failure(colony, law, destination, failed, sizes, greeds, waiting) -> int:  # type: ignore[no-untyped-def]
    """The last scout has joined those that wait at the destination: if enough of its path differ in
    greediness, one goes back and discourages the path, and all of that path are gone. Returns how many still
    wait."""
    last = waiting - 1
    alike, different = np.zeros(waiting, np.bool_), 0
    for one in range(waiting):
        alike[one] = sizes[one] == sizes[last]
        for at in range(sizes[last]):
            alike[one] = alike[one] and failed[one, at] == failed[last, at]
        if alike[one]:
            is_new = True
            for other in range(one):
                is_new = is_new and not (alike[other] and greeds[other] == greeds[one])
            different += is_new
    if different < law.failures:
        return int(waiting)
    for at in range(sizes[last] - 2, -1, -1):
        for slot in range(colony.neighbour.shape[1]):
            if colony.neighbour[failed[last, at], slot] == failed[last, at + 1]:
                discourage(colony, law, destination, failed[last, at], slot)
    kept = 0
    for one in range(waiting):
        if not alike[one]:
            copy(failed[one, : sizes[one]], failed[kept])
            sizes[kept], greeds[kept] = sizes[one], greeds[one]
            kept += 1
    return kept
