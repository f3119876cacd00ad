"""Cells and routing ants, compiled."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from mooring.algorithms.ants import rules
from mooring.arrays import Floats, Ints
from mooring.model.load.queued.latency_kernels import wait_in_services

next_random = njit(cache=True)(rules.next_random)
ant_seed = njit(cache=True)(rules.ant_seed)
moments_of = njit(cache=True)(rules.moments_of)
batch_s = njit(cache=True)(rules.batch_s)
slot_of = njit(cache=True)(rules.slot_of)
is_good_trip = njit(cache=True)(rules.is_good_trip)
with_trip = njit(cache=True)(rules.with_trip)
reinforced = njit(cache=True)(rules.reinforced)

MODULUS = rules.MODULUS
FIXED = 6
"""The column of a site's totals."""
ANT_BYTES, HOP_BYTES = 75.0, 20.0
"""Of a routing ant as it is encoded: with nothing on its back, and per site of its path."""


class Colony(NamedTuple):
    """Cells, and what is deployed at their sites. All but the first seven change."""

    neighbour: Ints
    """Site x slot; -1: none."""
    latency_s: Floats
    capacity_cores: Floats
    memory_limit_mb: Floats
    seed: int
    trigger_s: float
    """Between micro-batches; 0: messages queue."""
    delay_limit_s: float
    """Of what may be spent at a site, as `rules.is_too_slow` has it; 0: any."""
    pheromone: Floats
    """Destination x site x slot."""
    trip_mean: Floats
    """Destination x site."""
    trip_variance: Floats
    trip_best: Floats
    trips: Ints
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


@njit(cache=True)
def station_of(capacity, rate, load, square, squared_rates, irregular, fixed):  # type: ignore[no-untyped-def]
    """Utilisation, mean wait in seconds, and how irregularly messages leave, from a site's totals."""
    rho, service_s, arrivals, service, leaving = moments_of(
        capacity, rate, load, square, squared_rates, irregular, fixed
    )
    return rho, service_s * wait_in_services(rho, arrivals, service), leaving


@njit(cache=True)
def wait_s(colony, s) -> float:  # type: ignore[no-untyped-def]
    row = colony.totals[s]
    if colony.trigger_s > 0.0:
        return float(batch_s(colony.capacity_cores[s], row[1], row[FIXED], colony.trigger_s))
    return float(station_of(colony.capacity_cores[s], row[0], row[1], row[2], row[3], row[4], row[FIXED])[1])


@njit(cache=True)
def next_slot(colony, destination, s, is_visited, state, astray):  # type: ignore[no-untyped-def]
    """Among neighbours not visited yet, or all of them where all are."""
    slots = colony.neighbour.shape[1]
    is_open, some = np.zeros(slots, np.bool_), False
    for slot in range(slots):
        other = colony.neighbour[s, slot]
        is_open[slot] = other >= 0 and not is_visited[other]
        some = some or is_open[slot]
    if not some:
        for slot in range(slots):
            is_open[slot] = colony.neighbour[s, slot] >= 0
    state = next_random(state)
    return slot_of(colony.pheromone[destination, s], is_open, state / MODULUS, astray), state


@njit(cache=True)
def routing_ant(colony, law, source, destination, state) -> bool:  # type: ignore[no-untyped-def]
    """Forward along pheromones, cutting out cycles, and back reinforcing; false if it died on the way."""
    count = len(colony.capacity_cores)
    path, slot_at = np.zeros(count, np.int64), np.zeros(count, np.int64)
    elapsed_s, age_s = np.zeros(count), np.zeros(count)
    is_visited = np.zeros(count, np.bool_)
    path[0], size = source, 1
    is_visited[source] = True
    s, now_s, clock_s = source, 0.0, 0.0
    while s != destination:
        _count_step(colony, size)
        slot, state = next_slot(colony, destination, s, is_visited, state, 0.0)
        other = colony.neighbour[s, slot]
        took_s = wait_s(colony, s) + colony.latency_s[s, other]
        if not took_s < math.inf:
            return False
        now_s, clock_s = now_s + took_s, clock_s + took_s
        slot_at[size - 1] = slot
        if is_visited[other]:
            begun = 0
            while path[begun] != other:
                begun += 1
            if clock_s - age_s[begun] > age_s[begun]:
                return False
            for n in range(begun + 1, size):
                is_visited[path[n]] = False
            size, now_s = begun + 1, elapsed_s[begun]
        else:
            path[size], elapsed_s[size], age_s[size] = other, now_s, clock_s
            is_visited[other] = True
            size += 1
        s = other
    for n in range(size - 2, -1, -1):
        _count_step(colony, size)
        _reinforce(colony, law, destination, path[n], slot_at[n], now_s - elapsed_s[n])
    return True


@njit(cache=True)
def _count_step(colony, path_size):  # type: ignore[no-untyped-def]
    colony.steps[0] += 1
    colony.sent_bytes[0] += ANT_BYTES + HOP_BYTES * path_size


@njit(cache=True)
def _reinforce(colony, law, destination, s, chosen, trip_s):  # type: ignore[no-untyped-def]
    mean, variance = colony.trip_mean[destination, s], colony.trip_variance[destination, s]
    trips = colony.trips[destination, s]
    if not is_good_trip(trip_s, mean, variance, trips, law.trusted_trips, law.confidence):
        return
    best = trip_s if trips == 0 else min(colony.trip_best[destination, s], trip_s)
    colony.trip_mean[destination, s], colony.trip_variance[destination, s] = with_trip(
        trip_s, mean, variance, trips
    )
    colony.trip_best[destination, s] = best
    colony.trips[destination, s] = trips + 1
    strength = law.strength * best / trip_s if trip_s > 0.0 else law.strength
    row = colony.pheromone[destination, s]
    for slot in range(len(row)):
        if colony.neighbour[s, slot] >= 0:
            row[slot] = reinforced(row[slot], strength, slot == chosen)


@njit(cache=True)
def discourage(colony, law, destination, s, chosen):  # type: ignore[no-untyped-def]
    row, total = colony.pheromone[destination, s], 0.0
    for slot in range(len(row)):
        row[slot] = reinforced(row[slot], -law.discouraged, slot == chosen)
        total += row[slot]
    for slot in range(len(row)):
        row[slot] /= total
