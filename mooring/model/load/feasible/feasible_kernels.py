"""Compiled loops of the feasible set: the largest site load along many directions, without storing the loads.

A matrix product would write sites x directions numbers only to reduce them again. Here a tile of directions
stays in the first-level cache while every site passes over it, and the innermost loop runs along the
directions, which lie next to one another in memory, so that it becomes vector instructions.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mooring.arrays import Floats, Ints

TILE = 512  # directions: two buffers of 4 KB each beside the tile itself


@njit(cache=True, fastmath=True)
def _largest_loads(
    weights: Floats,
    directions: Floats,
    start: int,
    stop: int,
    load: Floats,
    largest: Floats,
) -> None:
    """Set largest[b] to max_i weights[i] . directions[:, start + b]."""
    sites, variables = weights.shape
    size = stop - start
    last = 4 * ((variables - 1) // 4)  # variables go by fours, to pass over the buffers a quarter as often
    k1, k2, k3 = min(last + 1, variables - 1), min(last + 2, variables - 1), min(last + 3, variables - 1)
    c0, c1 = directions[last, start:stop], directions[k1, start:stop]
    c2, c3 = directions[k2, start:stop], directions[k3, start:stop]
    for b in range(size):
        largest[b] = 0.0
        load[b] = 0.0
    for i in range(sites):
        for k in range(0, last, 4):
            w0, w1, w2, w3 = weights[i, k], weights[i, k + 1], weights[i, k + 2], weights[i, k + 3]
            u0, u1 = directions[k, start:stop], directions[k + 1, start:stop]
            u2, u3 = directions[k + 2, start:stop], directions[k + 3, start:stop]
            if k == 0:
                for b in range(size):
                    load[b] = w0 * u0[b] + w1 * u1[b] + w2 * u2[b] + w3 * u3[b]
            else:
                for b in range(size):
                    load[b] += w0 * u0[b] + w1 * u1[b] + w2 * u2[b] + w3 * u3[b]
        w0 = weights[i, last]
        w1 = weights[i, k1] if k1 > last else 0.0
        w2 = weights[i, k2] if k2 > k1 else 0.0
        w3 = weights[i, k3] if k3 > k2 else 0.0
        for b in range(size):
            site_load = load[b] + w0 * c0[b] + w1 * c1[b] + w2 * c2[b] + w3 * c3[b]
            largest[b] = max(largest[b], site_load)


@njit(cache=True, fastmath=True)
def mean_radii_to_the_power(
    weights: Floats, directions: Floats, scale: float, power: int, blocks: int
) -> Floats:
    """Per block of consecutive directions, the mean of (scale / max_i weights[i] . u) ** power.

    The scale goes under the power because in hundreds of dimensions neither factor alone is a float64.
    """
    points = directions.shape[1]
    block_size = points // blocks
    load = np.empty(TILE)
    largest = np.empty(TILE)
    means = np.zeros(blocks)
    for block in range(blocks):
        total = 0.0
        end = (block + 1) * block_size
        for start in range(block * block_size, end, TILE):
            stop = min(start + TILE, end)
            size = stop - start
            _largest_loads(weights, directions, start, stop, load, largest)
            for b in range(size):
                largest[b] = scale / largest[b]
                load[b] = 1.0
            remaining = power
            while remaining > 0:
                if remaining & 1:
                    for b in range(size):
                        load[b] *= largest[b]
                remaining >>= 1
                if remaining > 0:
                    for b in range(size):
                        largest[b] *= largest[b]
            for b in range(size):
                total += load[b]
        means[block] = total / block_size
    return means


@njit(cache=True, fastmath=True)
def largest_loads(weights: Floats, directions: Floats) -> Floats:
    """Per direction, max_i weights[i] . u."""
    points = directions.shape[1]
    load = np.empty(TILE)
    result = np.empty(points)
    for start in range(0, points, TILE):
        stop = min(start + TILE, points)
        _largest_loads(weights, directions, start, stop, load, result[start:stop])
    return result


@njit(cache=True)
def count_first_to_saturate(weights: Floats, directions: Floats) -> Ints:
    """How many directions each site is the first to saturate in; the lowest index wins a tie."""
    sites, variables = weights.shape
    counts = np.zeros(sites, dtype=np.int64)
    for b in range(directions.shape[1]):
        first, most = 0, -1.0
        for i in range(sites):
            load = 0.0
            for k in range(variables):
                load += weights[i, k] * directions[k, b]
            if load > most:
                first, most = i, load
        counts[first] += 1
    return counts


@njit(cache=True)
def largest_sparse_loads(
    start: Ints, variable: Ints, weight: Floats, directions: Floats
) -> tuple[Floats, Ints]:
    """Per direction, the largest load of any site, and the first site that has it. Rows are sparse."""
    points = directions.shape[1]
    most, first = np.full(points, -1.0), np.zeros(points, dtype=np.int64)
    load = np.empty(points)
    for i in range(len(start) - 1):
        load[:] = 0.0
        for entry in range(start[i], start[i + 1]):
            own, along = weight[entry], directions[variable[entry]]
            for b in range(points):
                load[b] += own * along[b]
        for b in range(points):
            if load[b] > most[b]:
                most[b], first[b] = load[b], i
    return most, first


@njit(cache=True)
def smallest_simplex_around(planes: Floats, rounds: int) -> Floats:
    """A plane a with a . x <= 1 wherever all planes have it so, and nearly the least volume prod_k 1 / a_k.

    Every convex combination of the planes contains the set. The one of least volume maximises sum_k log a_k,
    the likelihood of a mixture in its proportions, so rounds of expectation and maximisation climb to it.
    """
    count, variables = planes.shape
    shares = np.full(count, 1.0 / count)
    plane = np.zeros(variables)
    for round_ in range(rounds + 1):
        plane[:] = 0.0
        for i in range(count):
            for k in range(variables):
                plane[k] += shares[i] * planes[i, k]
        if round_ == rounds:
            break
        for i in range(count):
            gain = 0.0
            for k in range(variables):
                gain += planes[i, k] / plane[k]
            shares[i] *= gain / variables
    return plane
