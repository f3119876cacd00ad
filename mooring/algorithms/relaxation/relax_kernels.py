"""The iteration of figure 7 over many operators at once, compiled."""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit(cache=True)
def relax(  # type: ignore[no-untyped-def]
    position, start, other, pull, site_position, site_height, damping, threshold_ms, most_sweeps
) -> int:
    """Move every operator along the force on it, in turn, until no force reaches the threshold.

    position (operators, d) changes in place. The springs of operator i are start[i]:start[i + 1]; other >= 0
    is an operator, else site ~other; pull is the spring's rate over the sum of its operator's rates. A site's
    height lengthens the spring without turning it. Returns the number of sweeps.
    """
    operators, dimensions = position.shape
    force = np.empty(dimensions)
    for sweep in range(most_sweeps):
        strongest = 0.0
        for i in range(operators):
            force[:] = 0.0
            for link in range(start[i], start[i + 1]):
                j = other[link]
                stretch = 1.0
                if j < 0 and site_height[~j] > 0.0:
                    square = 0.0
                    for c in range(dimensions):
                        square += (site_position[~j, c] - position[i, c]) ** 2
                    # Near the site the direction means nothing: let the height fade out there.
                    stretch = 1.0 + site_height[~j] / (math.sqrt(square) + site_height[~j])
                for c in range(dimensions):
                    there = site_position[~j, c] if j < 0 else position[j, c]
                    force[c] += pull[link] * stretch * (there - position[i, c])
            square = 0.0
            for c in range(dimensions):
                square += force[c] * force[c]
                position[i, c] += damping * force[c]
            strongest = max(strongest, math.sqrt(square))
        if strongest < threshold_ms:
            return sweep + 1
    return int(most_sweeps)
