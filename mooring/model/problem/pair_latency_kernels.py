"""The latency between two sites, for compiled loops: from a matrix, or from coordinates."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numba import njit

from mooring.model.problem.latencies import LatencyTable


@njit(cache=True)
def between_ms(table: LatencyTable, start: int, end: int) -> float:
    """One way, in milliseconds; zero from a site to itself."""
    if len(table.matrix_ms):
        return float(table.matrix_ms[start, end])
    if start == end:
        return 0.0
    if len(table.changed):
        key = start * len(table.height_ms) + end
        at = np.searchsorted(table.changed, key)
        if at < len(table.changed) and table.changed[at] == key:
            return float(table.changed_ms[at])
    square = 0.0
    for axis in range(table.position_ms.shape[1]):
        apart = table.position_ms[start, axis] - table.position_ms[end, axis]
        square += apart * apart
    return float(sqrt(square) + (table.height_ms[start] + table.height_ms[end]))
