"""One-way latencies between sites as kernels take them: read from a matrix, or computed per pair."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from mooring.arrays import Floats, Ints
from mooring.model.problem.latencies import Coordinates, Latencies

MOST_READ = 1_000
"""Sites up to which latencies are read, not computed: a matrix of 8 MB at most."""


class Ways(NamedTuple):
    """A matrix, or what `Coordinates` computes latencies from; both give the same to the last bit."""

    matrix_s: Floats
    """Site x site; of no rows where latencies are computed."""
    position_ms: Floats
    """Site x dimension."""
    height_ms: Floats
    changed: Ints
    """Pairs whose latency is another, as `first * sites + second`, ascending."""
    changed_ms: Floats


def ways_of(latency_ms: Latencies | None, count: int, most_read: int = MOST_READ) -> Ways:
    """Without latencies, all sites are at one point."""
    if latency_ms is None:
        latency_ms = Coordinates(np.zeros((count, 0)), np.zeros(count))
    if isinstance(latency_ms, Coordinates) and count <= most_read:
        latency_ms = latency_ms[:, :]
    if not isinstance(latency_ms, Coordinates):
        matrix_s = np.ascontiguousarray(latency_ms) / 1e3
        return Ways(matrix_s, np.zeros((0, 0)), np.zeros(0), np.zeros(0, np.int64), np.zeros(0))
    position_ms = np.ascontiguousarray(latency_ms.position_ms, dtype=np.float64)
    height_ms = np.ascontiguousarray(latency_ms.height_ms, dtype=np.float64)
    return Ways(np.zeros((0, 0)), position_ms, height_ms, *latency_ms.changed_pairs)


@njit(cache=True, error_model="numpy")
def between_s(ways, a, b) -> float:  # type: ignore[no-untyped-def]
    """From site a to site b."""
    if len(ways.matrix_s):
        return float(ways.matrix_s[a, b])
    if len(ways.changed):
        wanted = a * len(ways.height_ms) + b
        low, high = 0, len(ways.changed)
        while low < high:
            middle = (low + high) // 2
            if ways.changed[middle] < wanted:
                low = middle + 1
            else:
                high = middle
        if low < len(ways.changed) and ways.changed[low] == wanted:
            return float(ways.changed_ms[low] / 1e3)
    if a == b:
        return 0.0
    square = 0.0
    for axis in range(ways.position_ms.shape[1]):
        off = ways.position_ms[a, axis] - ways.position_ms[b, axis]
        square += off * off
    return float((math.sqrt(square) + (ways.height_ms[a] + ways.height_ms[b])) / 1e3)


@njit(cache=True, error_model="numpy")
def row_s(ways, a, row) -> None:  # type: ignore[no-untyped-def]
    """From site a to all sites."""
    if len(ways.matrix_s):
        row[:] = ways.matrix_s[a]
        return
    for b in range(len(row)):
        row[b] = between_s(ways, a, b)
