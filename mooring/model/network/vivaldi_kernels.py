"""Vivaldi for all nodes at once, compiled."""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit(cache=True, fastmath=False)
def run_rounds(  # type: ignore[no-untyped-def]
    position, height, error, neighbours, latency, rounds, gains, limits, frozen, rng
) -> int:
    """Every round, every node measures one random neighbour once. Returns how many samples were refused.

    position (n, d), height (n,), error (n,) change in place; neighbours (n, k) and latency (n, k) say who is
    measured and what is seen. gains: error, position. limits: least height (negative:
    no heights), least and largest latency, largest error. Frozen nodes answer but do not move.
    """
    nodes, dimensions = position.shape
    degree = neighbours.shape[1]
    refused = 0
    apart = np.empty(dimensions)
    for _ in range(rounds):
        for i in range(nodes):
            if frozen[i]:
                continue
            k = int(rng.random() * degree)
            j, seen = neighbours[i, k], latency[i, k]
            if not (limits[1] <= seen <= limits[2]) or not math.isfinite(position[j, 0]):
                refused += 1
                continue
            square = 0.0
            for c in range(dimensions):
                apart[c] = position[i, c] - position[j, c]
                square += apart[c] * apart[c]
            length = math.sqrt(square)
            if length < 1e-9:
                square = 0.0
                for c in range(dimensions):
                    apart[c] = rng.random() - 0.5
                    square += apart[c] * apart[c]
                length = math.sqrt(square)
            heights = height[i] + height[j]
            predicted = length + heights
            total = error[i] + error[j]
            weight = error[i] / total if total > 0.0 else 0.5
            gain = gains[0] * weight
            error[i] = min(abs(predicted - seen) / seen * gain + error[i] * (1.0 - gain), limits[3])
            scale = gains[1] * weight * (seen - predicted) / predicted
            for c in range(dimensions):
                position[i, c] += apart[c] * scale
            if limits[0] >= 0.0:
                height[i] = max(height[i] + heights * scale, limits[0])
    return refused
