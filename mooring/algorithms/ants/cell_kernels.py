"""Cells and routing ants, compiled."""

from __future__ import annotations

import math
from typing import NamedTuple

from numba import njit

from mooring.algorithms.ants import rules
from mooring.arrays import Bools, Floats, Ints
from mooring.model.load.queued.kept_latency_kernels import KERNEL
from mooring.model.load.queued.latency_kernels import wait_in_services
from mooring.model.load.queued.way_kernels import Ways, between_s
from mooring.model.placement.copy_kernels import copy

next_random = njit(**KERNEL)(rules.next_random)
ant_seed = njit(**KERNEL)(rules.ant_seed)
moments_of = njit(**KERNEL)(rules.moments_of)
batch_s = njit(**KERNEL)(rules.batch_s)
slot_of = njit(**KERNEL)(rules.slot_of)
is_good_trip = njit(**KERNEL)(rules.is_good_trip)
with_trip = njit(**KERNEL)(rules.with_trip)
reinforced = njit(**KERNEL)(rules.reinforced)

MODULUS = rules.MODULUS
FIXED = 6
"""The column of a site's totals."""
ANT_BYTES, HOP_BYTES = 75.0, 20.0
"""Of a routing ant as it is encoded: with nothing on its back, and per site of its path."""


class Trails(NamedTuple):
    """What cells keep for one destination each: a row per site and destination that ants have come by."""

    site: Ints
    weight: Floats
    """Row x slot: pheromones."""
    mean_s: Floats
    """Of trips to the destination, like the next two."""
    variance: Floats
    best_s: Floats
    trips: Ints
    has_changed: Bools
    """Others are as they begin, and can be computed again."""
    used: Ints
    """Of one number: how many rows."""
    most_unchanged: int
    """Rows up to which those stay too that no ant has changed."""
    row_of: Ints
    """Per site, its row for the destination that ants walk to now; -1: none so far."""


class Scratch(NamedTuple):
    """What one ant needs at a time, so that its way costs what it is long, not as many sites as there are."""

    path: Ints
    slot: Ints
    elapsed_s: Floats
    age_s: Floats
    is_visited: Bools
    is_open: Bools
    """Per slot."""
    failed: Ints
    """Scout x step."""


class Colony(NamedTuple):
    """Cells, and what is deployed at their sites. The first eight do not change."""

    neighbour: Ints
    """Site x slot; -1: none."""
    ways: Ways
    capacity_cores: Floats
    memory_limit_mb: Floats
    seed: int
    trigger_s: float
    """Between micro-batches; 0: messages queue."""
    delay_limit_s: float
    """Of what may be spent at a site, as `rules.is_too_slow` has it; 0: any."""
    sharpness: float
    """Of the first pheromones."""
    trails: Trails
    scratch: Scratch
    totals: Floats
    """Site x `rules.TOTALS`."""
    steps: Ints
    """From site to site, there and back: of routing ants, and of scouts."""
    sent_bytes: Floats
    """The same in bytes, as the protocol's messages are encoded."""
    runs: Ints
    """Site x signature: how many chains, and pinned fragments, have what computes this at the site."""


class CellLaws(NamedTuple):
    """Of `AntParams`, as numbers."""

    strength: float
    confidence: float
    trusted_trips: int
    least_limit: float
    most_limit: float
    most_skipped: float
    most_astray: float
    failures: int
    discouraged: float
    outstanding: float
    scout_bytes: float
    task_bytes: float
    segment_bytes: float


@njit(**KERNEL)
def station_of(capacity, rate, load, square, squared_rates, irregular, fixed):  # type: ignore[no-untyped-def]
    """Utilisation, mean wait in seconds, and how irregularly messages leave, from a site's totals."""
    rho, service_s, arrivals, service, leaving = moments_of(
        capacity, rate, load, square, squared_rates, irregular, fixed
    )
    return rho, service_s * wait_in_services(rho, arrivals, service), leaving


@njit(**KERNEL)
def wait_s(colony, s) -> float:  # type: ignore[no-untyped-def]
    row = colony.totals[s]
    if colony.trigger_s > 0.0:
        return float(batch_s(colony.capacity_cores[s], row[1], row[FIXED], colony.trigger_s))
    return float(station_of(colony.capacity_cores[s], row[0], row[1], row[2], row[3], row[4], row[FIXED])[1])


@njit(**KERNEL)
def trail_of(colony, destination, s) -> int:  # type: ignore[no-untyped-def]
    """The row of a site, which begins as `rules.first_weights` has it."""
    trails = colony.trails
    row = trails.row_of[s]
    if row >= 0:
        return int(row)
    row = trails.used[0]
    trails.used[0] += 1
    trails.row_of[s], trails.site[row], trails.has_changed[row] = row, s, False
    trails.mean_s[row], trails.variance[row], trails.best_s[row], trails.trips[row] = 0.0, 0.0, 0.0, 0
    weights, shortest_s, total = trails.weight[row], math.inf, 0.0
    for slot in range(len(weights)):
        other = colony.neighbour[s, slot]
        weights[slot] = 0.0
        if other >= 0:
            weights[slot] = between_s(colony.ways, s, other) + between_s(colony.ways, other, destination)
            shortest_s = min(shortest_s, weights[slot])
    for slot in range(len(weights)):
        if colony.neighbour[s, slot] >= 0:
            weights[slot] = ((shortest_s + 1e-4) / (weights[slot] + 1e-4)) ** colony.sharpness
            total += weights[slot]
    for slot in range(len(weights)):
        if colony.neighbour[s, slot] >= 0:
            weights[slot] /= total
    return int(row)


@njit(**KERNEL)
def forget_unchanged(trails, begun):  # type: ignore[no-untyped-def]
    """Of the rows from `begun` on, only those stay that ants have changed; while there are few, all."""
    if trails.used[0] <= trails.most_unchanged:
        return
    kept = begun
    for row in range(begun, trails.used[0]):
        s = trails.site[row]
        trails.row_of[s] = -1
        if trails.has_changed[row]:
            trails.row_of[s] = kept
            if kept < row:
                trails.site[kept], trails.trips[kept], trails.has_changed[kept] = s, trails.trips[row], True
                trails.mean_s[kept], trails.variance[kept] = trails.mean_s[row], trails.variance[row]
                trails.best_s[kept] = trails.best_s[row]
                copy(trails.weight[row], trails.weight[kept])
            kept += 1
    trails.used[0] = kept


@njit(**KERNEL)
def next_slot(colony, destination, s, is_visited, state, astray):  # type: ignore[no-untyped-def]
    """Among neighbours not visited yet, or all of them where all are."""
    slots = colony.neighbour.shape[1]
    is_open, some = colony.scratch.is_open, False
    for slot in range(slots):
        other = colony.neighbour[s, slot]
        is_open[slot] = other >= 0 and not is_visited[other]
        some = some or is_open[slot]
    if not some:
        for slot in range(slots):
            is_open[slot] = colony.neighbour[s, slot] >= 0
    state = next_random(state)
    weights = colony.trails.weight[trail_of(colony, destination, s)]
    return slot_of(weights, is_open, state / MODULUS, astray), state


@njit(**KERNEL)
def routing_ant(colony, law, source, destination, state) -> bool:  # type: ignore[no-untyped-def]
    """Forward along pheromones, cutting out cycles, and back reinforcing; false if it died on the way."""
    path, slot_at, elapsed_s = colony.scratch.path, colony.scratch.slot, colony.scratch.elapsed_s
    size, trip_s = _walk(colony, source, destination, state)
    if trip_s < math.inf:
        for n in range(size - 2, -1, -1):
            _count_step(colony, size)
            _reinforce(colony, law, destination, path[n], slot_at[n], trip_s - elapsed_s[n])
    for n in range(size):
        colony.scratch.is_visited[path[n]] = False
    return bool(trip_s < math.inf)


@njit(**KERNEL)
def _walk(colony, source, destination, state):  # type: ignore[no-untyped-def]
    """The length of its path, which is in the scratch, and how long it took; infinite if it died."""
    path, slot_at, elapsed_s = colony.scratch.path, colony.scratch.slot, colony.scratch.elapsed_s
    age_s, is_visited = colony.scratch.age_s, colony.scratch.is_visited
    path[0], size = source, 1
    elapsed_s[0], age_s[0], is_visited[source] = 0.0, 0.0, True
    s, now_s, clock_s = source, 0.0, 0.0
    while s != destination:
        _count_step(colony, size)
        slot, state = next_slot(colony, destination, s, is_visited, state, 0.0)
        other = colony.neighbour[s, slot]
        took_s = wait_s(colony, s) + between_s(colony.ways, s, other)
        if not took_s < math.inf:
            return size, math.inf
        now_s, clock_s = now_s + took_s, clock_s + took_s
        slot_at[size - 1] = slot
        if is_visited[other]:
            begun = 0
            while path[begun] != other:
                begun += 1
            if clock_s - age_s[begun] > age_s[begun]:
                return size, math.inf
            for n in range(begun + 1, size):
                is_visited[path[n]] = False
            size, now_s = begun + 1, elapsed_s[begun]
        else:
            path[size], elapsed_s[size], age_s[size] = other, now_s, clock_s
            is_visited[other] = True
            size += 1
        s = other
    return size, now_s


@njit(**KERNEL)
def _count_step(colony, path_size):  # type: ignore[no-untyped-def]
    colony.steps[0] += 1
    colony.sent_bytes[0] += ANT_BYTES + HOP_BYTES * path_size


@njit(**KERNEL)
def _reinforce(colony, law, destination, s, chosen, trip_s):  # type: ignore[no-untyped-def]
    trails, at = colony.trails, trail_of(colony, destination, s)
    mean, variance, trips = trails.mean_s[at], trails.variance[at], trails.trips[at]
    if not is_good_trip(trip_s, mean, variance, trips, law.trusted_trips, law.confidence):
        return
    best = trip_s if trips == 0 else min(trails.best_s[at], trip_s)
    trails.mean_s[at], trails.variance[at] = with_trip(trip_s, mean, variance, trips)
    trails.best_s[at], trails.trips[at], trails.has_changed[at] = best, trips + 1, True
    strength = law.strength * best / trip_s if trip_s > 0.0 else law.strength
    row = trails.weight[at]
    for slot in range(len(row)):
        if colony.neighbour[s, slot] >= 0:
            row[slot] = reinforced(row[slot], strength, slot == chosen)


@njit(**KERNEL)
def discourage(colony, law, destination, s, chosen):  # type: ignore[no-untyped-def]
    at = trail_of(colony, destination, s)
    colony.trails.has_changed[at] = True
    row, total = colony.trails.weight[at], 0.0
    for slot in range(len(row)):
        row[slot] = reinforced(row[slot], -law.discouraged, slot == chosen)
        total += row[slot]
    for slot in range(len(row)):
        row[slot] /= total
