"""A whole colony, ant after ant, compiled: what the machines of `protocols/ants/` do when every ant waits
for the one before, from the same seeds.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from mooring.arrays import Floats, Ints
from mooring.placement.ants import rules
from mooring.placement.ants.cell_kernels import (
    MODULUS,
    ant_seed,
    discourage,
    next_random,
    next_slot,
    routing_ant,
    station_of,
    wait_s,
)
from mooring.placement.copy_kernels import copy

segment_flow = njit(cache=True)(rules.segment_flow)
leaving_variability = njit(cache=True)(rules.leaving_variability)
batch_cost = njit(cache=True)(rules.batch_cost)

WEIGHT, FIXED, MEMORY = 5, 6, 7
"""Columns of a site's totals."""
SLACK = 1e-9
SCOUT_BYTES, TASK_BYTES, SEGMENT_BYTES = 235.0, 83.0, 70.0
"""Of a scout as it is encoded: without its chain, per task of it, and per site that it has chosen."""


class ChainWay(NamedTuple):
    """What an ant carries, or a report: sites with the tasks placed there."""

    site: Ints
    first: Ints
    last: Ints
    variability: Floats
    """Of what comes to each."""
    cost: Floats
    effect: Floats
    """The part of the cost that others have."""
    shared: Ints
    """How many of the tasks at each, from its first on, run there already for another chain."""
    size: Ints
    """Of one number: how many sites."""


@njit(cache=True)
def empty_way(tasks) -> ChainWay:  # type: ignore[no-untyped-def]
    return ChainWay(
        np.zeros(tasks, np.int64),
        np.zeros(tasks, np.int64),
        np.zeros(tasks, np.int64),
        np.zeros(tasks),
        np.zeros(tasks),
        np.zeros(tasks),
        np.zeros(tasks, np.int64),
        np.zeros(1, np.int64),
    )


@njit(cache=True)
def tasks_that_run(colony, signature, s, first, last) -> int:  # type: ignore[no-untyped-def]
    """How many of the tasks, from the first on, run at site s already."""
    found = 0
    while first + found <= last and signature[first + found] >= 0:
        if colony.runs[s, signature[first + found]] == 0:
            break
        found += 1
    return found


@njit(cache=True)
def segment_cost(colony, tasks, sides, s, first, last, shared, variability, before, waits, limit):  # type: ignore[no-untyped-def]
    """What tasks first to last cost at site s, in seconds of the mean query; the part of it that others have;
    and how irregularly their results leave. Infinite beyond the load limit, and where there is no room for
    those that are not shared.

    before: the site that messages come from (-1: none).
    """
    flow = segment_flow(tasks, sides, first, last, shared, variability, colony.trigger_s)
    row, capacity = colony.totals[s], colony.capacity_cores[s]
    is_new = first + shared <= last
    if is_new and row[FIXED] + flow[6] > capacity * (1.0 + SLACK):
        return math.inf, 0.0, 1.0
    if is_new and row[MEMORY] + flow[7] > colony.memory_limit_mb[s] * (1.0 + SLACK):
        return math.inf, 0.0, 1.0
    if colony.trigger_s > 0.0:
        there, more = row[1] + row[FIXED], flow[1] + flow[6]
        most = limit if is_new else math.inf
        cost, effect = batch_cost(
            capacity, there, row[WEIGHT], more, flow[WEIGHT], flow[9], most, colony.trigger_s
        )
        return cost, effect, 1.0
    was = station_of(capacity, row[0], row[1], row[2], row[3], row[4], row[FIXED])
    now = station_of(
        capacity,
        row[0] + flow[0],
        row[1] + flow[1],
        row[2] + flow[2],
        row[3] + flow[3],
        row[4] + flow[4],
        row[FIXED] + flow[6],
    )
    if (is_new and not now[0] < limit) or (not is_new and not now[1] < math.inf):
        return math.inf, 0.0, 1.0
    weight = tasks[first][rules.WEIGHT]
    way_s = colony.latency_s[before, s] if before >= 0 else 0.0
    own = way_s + (now[1] if waits else 0.0) + flow[8] / (capacity - row[FIXED] - flow[6])
    effect = row[WEIGHT] * (now[1] - was[1]) + (flow[WEIGHT] - weight) * now[1]
    out = tasks[last][rules.RATE] * tasks[last][rules.GAIN]
    return weight * own + effect, effect, leaving_variability(out, row[0] + flow[0], now[2])


@njit(cache=True)
def scout(colony, law, chain, state, way, path, path_size):  # type: ignore[no-untyped-def]
    """One hypothetical placement along pheromones; the way and its path are filled in. Returns the cost
    (infinite: it failed), the effect on others in it, and its greediness.

    chain: tasks, sides, source, start is a fragment, variability, destination (-1: none), end is a fragment,
    weight of the way there, signatures of the tasks (-1: not to be shared).
    """
    tasks, sides, source, from_fragment, variability, destination, to_fragment, end_weight, signature = chain
    count, n = len(colony.capacity_cores), len(tasks)
    state = next_random(state)
    greed = 1 + int(state / MODULUS * n)
    state = next_random(state)
    limit = law.least_limit + state / MODULUS * (law.most_limit - law.least_limit)
    state = next_random(state)
    skipped = state / MODULUS * law.most_skipped
    is_visited = np.zeros(count, np.bool_)
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
            waits = not (from_fragment and k == 0 and s == source)
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
        slot, state = next_slot(colony, destination, s, is_visited, state)
        s = colony.neighbour[s, slot]
        if is_visited[s]:
            return math.inf, 0.0, -1
        path[path_size[0]], is_visited[s] = s, True
        path_size[0] += 1
        _count_steps(colony, n, way, 1)
    if k < n:
        return math.inf, 0.0, greed
    _count_steps(colony, n, way, way.size[0] + 2)  # to the destination, and back over the sites chosen
    total, effect = _end_cost(colony, before, destination, to_fragment, end_weight), 0.0
    _balance(colony, chain, way, limit)
    for at in range(way.size[0]):
        total += way.cost[at]
        effect += way.effect[at]
    return total, effect, greed


@njit(cache=True)
def _count_steps(colony, tasks, way, steps):  # type: ignore[no-untyped-def]
    colony.steps[1] += steps
    colony.sent_bytes[1] += steps * (SCOUT_BYTES + TASK_BYTES * tasks + SEGMENT_BYTES * way.size[0])


@njit(cache=True)
def _end_cost(colony, last, destination, to_fragment, end_weight) -> float:  # type: ignore[no-untyped-def]
    if destination < 0 or last == destination or (to_fragment and colony.trigger_s > 0.0):
        return 0.0
    waited_s = wait_s(colony, destination) if to_fragment else 0.0
    return float(end_weight * (colony.latency_s[last, destination] + waited_s))


@njit(cache=True)
def _balance(colony, chain, way, limit):  # type: ignore[no-untyped-def]
    """On the way back: one task to the site before or after, where the two together then cost less. What is
    shared stays where it runs."""
    tasks, sides, source, from_fragment = chain[0], chain[1], chain[2], chain[3]
    for at in range(way.size[0] - 1, 0, -1):
        if way.shared[at] > 0 or way.shared[at - 1] > 0:
            continue
        best, move = way.cost[at] + way.cost[at - 1], 0
        costs = np.zeros((3, 4))
        for shift in (-1, 1):
            # -1: the first task here goes to the site before; 1: the last one there comes here.
            first, last = way.first[at] - shift, way.last[at - 1] - shift
            if first > way.last[at] or last < way.first[at - 1]:
                continue
            here = segment_cost(
                colony,
                tasks,
                sides,
                way.site[at],
                first,
                way.last[at],
                0,
                way.variability[at],
                way.site[at - 1],
                True,
                limit,
            )
            earlier = way.site[at - 2] if at > 1 else source
            waits = not (from_fragment and at == 1 and way.site[0] == source)
            there = segment_cost(
                colony,
                tasks,
                sides,
                way.site[at - 1],
                way.first[at - 1],
                last,
                0,
                way.variability[at - 1],
                earlier,
                waits,
                limit,
            )
            costs[1 + shift] = here[0], here[1], there[0], there[1]
            if here[0] + there[0] < best:
                best, move = here[0] + there[0], shift
        if move != 0:
            way.first[at] -= move
            way.last[at - 1] -= move
            way.cost[at], way.effect[at] = costs[1 + move, 0], costs[1 + move, 1]
            way.cost[at - 1], way.effect[at - 1] = costs[1 + move, 2], costs[1 + move, 3]


@njit(cache=True)
def copy_way(source, target):  # type: ignore[no-untyped-def]
    copy(source.site, target.site)
    copy(source.first, target.first)
    copy(source.last, target.last)
    copy(source.variability, target.variability)
    copy(source.cost, target.cost)
    copy(source.effect, target.effect)
    copy(source.shared, target.shared)
    target.size[0] = source.size[0]


@njit(cache=True)
def cost_of(colony, chain, way) -> float:  # type: ignore[no-untyped-def]
    """Of a way as it is, with nothing of it in the totals; it shares what runs at its sites."""
    tasks, sides, before, from_fragment, signature = chain[0], chain[1], chain[2], chain[3], chain[8]
    total, variability, shares = 0.0, chain[4], True
    for at in range(way.size[0]):
        s = way.site[at]
        waits = not (from_fragment and at == 0 and s == chain[2])
        way.variability[at] = variability
        first, last = way.first[at], way.last[at]
        way.shared[at] = tasks_that_run(colony, signature, s, first, last) if shares else 0
        shares = way.shared[at] == last + 1 - first
        way.cost[at], way.effect[at], variability = segment_cost(
            colony, tasks, sides, s, first, last, way.shared[at], variability, before, waits, math.inf
        )
        total += way.cost[at]
        before = s
    total += _end_cost(colony, before, chain[5], chain[6], chain[7])
    return float(total) if total < math.inf else math.inf  # others that are full make it no number


@njit(cache=True)
def deploy(colony, chain, way, sign):  # type: ignore[no-untyped-def]
    """Add the flows of a way to the totals of its sites, or take them away."""
    for at in range(way.size[0]):
        count_flow(colony, chain, way, at, sign)
        for k in range(way.first[at], way.last[at] + 1):
            if chain[8][k] >= 0:
                colony.runs[way.site[at], chain[8][k]] += int(sign)


@njit(cache=True)
def count_flow(colony, chain, way, at, sign):  # type: ignore[no-untyped-def]
    first, last = way.first[at], way.last[at]
    flow = segment_flow(
        chain[0], chain[1], first, last, way.shared[at], way.variability[at], colony.trigger_s
    )
    for column in range(8):
        colony.totals[way.site[at], column] += sign * flow[column]


@njit(cache=True)
def forage(colony, law, chain, number, routing, scouts, first_ant, best, seen):  # type: ignore[no-untyped-def]
    """One attempt of a leader: routing ants, then scouts; the best report is filled in, and seen says which
    sites scouts passed that succeeded. Returns its cost (infinite: none did) and the number of the next
    ant."""
    source, destination = chain[2], chain[5]
    count, n = len(colony.capacity_cores), len(chain[0])
    for ant in range(first_ant, first_ant + routing):
        if source != destination:
            routing_ant(colony, law, source, destination, ant_seed(colony.seed, number, ant))
    way, least = empty_way(n), math.inf
    path, size = np.zeros(count + 1, np.int64), np.zeros(1, np.int64)
    failed, sizes = np.zeros((scouts, count + 1), np.int64), np.zeros(scouts, np.int64)
    greeds, waiting = np.zeros(scouts, np.int64), 0
    for ant in range(first_ant + routing, first_ant + routing + scouts):
        cost, effect, greed = scout(colony, law, chain, ant_seed(colony.seed, number, ant), way, path, size)
        if cost < math.inf:
            for at in range(size[0]):
                seen[path[at]] = True
            if cost < least:
                least = cost
                copy_way(way, best)
            if effect <= law.outstanding * (cost - effect) and law.outstanding > 0.0:
                break
        elif greed >= 0:
            copy(path, failed[waiting])
            sizes[waiting], greeds[waiting] = size[0], greed
            waiting = _after_failure(colony, law, destination, failed, sizes, greeds, waiting + 1)
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
            copy(failed[one], failed[kept])
            sizes[kept], greeds[kept] = sizes[one], greeds[one]
            kept += 1
    return kept
