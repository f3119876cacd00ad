"""The cost of tasks at a site, compiled, and the part of it that an ant carries."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from mooring.algorithms.ants import rules
from mooring.algorithms.ants.cell_kernels import station_of, wait_s
from mooring.arrays import Floats, Ints
from mooring.model.load.queued.kept_latency_kernels import KERNEL
from mooring.model.load.queued.way_kernels import between_s
from mooring.model.placement.copy_kernels import copy

segment_flow = njit(**KERNEL)(rules.segment_flow)
leaving_variability = njit(**KERNEL)(rules.leaving_variability)
batch_cost = njit(**KERNEL)(rules.batch_cost)
is_too_slow = njit(**KERNEL)(rules.is_too_slow)

WEIGHT, FIXED, MEMORY = 5, 6, 7
"""Columns of a site's totals."""
SLACK = 1e-9


class ChainArrays(NamedTuple):
    """A chain as kernels take it."""

    tasks: Floats
    sides: Floats
    source: int
    from_fragment: bool
    """Whether it starts at a fragment."""
    variability: float
    """Of what arrives."""
    destination: int
    """-1: none."""
    to_fragment: bool
    """Whether it ends at a fragment."""
    end_weight: float
    """Of the way there."""
    signature: Ints
    """Of its tasks; -1: not to be shared."""


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


@njit(**KERNEL)
def tasks_that_run(colony, signature, s, first, last) -> int:  # type: ignore[no-untyped-def]
    """How many of the tasks, from the first on, run at site s already."""
    found = 0
    while first + found <= last and signature[first + found] >= 0:
        if colony.runs[s, signature[first + found]] == 0:
            break
        found += 1
    return found


@njit(**KERNEL)
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
        last_s = colony.trigger_s * (there + more) / capacity
        if most < math.inf and is_too_slow(colony.delay_limit_s, last_s, 0.0, row[0], 0.0, 1.0):
            return math.inf, 0.0, 1.0
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
    speed = capacity - row[FIXED] - flow[6]
    is_limited = is_new and limit < math.inf
    if is_limited and is_too_slow(colony.delay_limit_s, now[1], flow[8] / speed, row[0], row[1], speed):
        return math.inf, 0.0, 1.0
    weight = tasks[first][rules.WEIGHT]
    way_s = between_s(colony.ways, before, s) if before >= 0 else 0.0
    own = way_s + (now[1] if waits else 0.0) + flow[8] / speed
    effect = row[WEIGHT] * (now[1] - was[1]) + (flow[WEIGHT] - weight) * now[1]
    out = tasks[last][rules.RATE] * tasks[last][rules.GAIN]
    return weight * own + effect, effect, leaving_variability(out, row[0] + flow[0], now[2])


@njit(**KERNEL)
def end_cost(colony, last, destination, to_fragment, end_weight) -> float:  # type: ignore[no-untyped-def]
    if destination < 0 or last == destination or (to_fragment and colony.trigger_s > 0.0):
        return 0.0
    waited_s = wait_s(colony, destination) if to_fragment else 0.0
    return float(end_weight * (between_s(colony.ways, last, destination) + waited_s))


@njit(**KERNEL)
def copy_way(source, target):  # type: ignore[no-untyped-def]
    copy(source.site, target.site)
    copy(source.first, target.first)
    copy(source.last, target.last)
    copy(source.variability, target.variability)
    copy(source.cost, target.cost)
    copy(source.effect, target.effect)
    copy(source.shared, target.shared)
    target.size[0] = source.size[0]


@njit(**KERNEL)
def leave_out(way, at):  # type: ignore[no-untyped-def]
    """One of its sites, which has no task left."""
    for n in range(at, way.size[0] - 1):
        way.site[n], way.first[n], way.last[n] = way.site[n + 1], way.first[n + 1], way.last[n + 1]
        way.variability[n], way.shared[n] = way.variability[n + 1], way.shared[n + 1]
        way.cost[n], way.effect[n] = way.cost[n + 1], way.effect[n + 1]
    way.size[0] -= 1
