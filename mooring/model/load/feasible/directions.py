"""Directions spread evenly over the unit simplex, along which feasible sets are measured.

A direction uniform on {u >= 0, sum u = 1} needs K - 1 independent uniforms: break a stick of length one,
each time at the point that leaves the rest distributed as the sum of what is still to come. Fed with a
scrambled Sobol net instead of independent uniforms, the directions fill the simplex far more evenly than
chance, and differ by seed. In many dimensions no affordable net is more even than chance, and drawing
exponentials takes a fraction of the time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mooring.arrays import Floats
from mooring.errors import InputError
from mooring.model.load.feasible.sobol import sobol_net

# Consecutive blocks of a Sobol net are nets themselves, and their spread tells the error. It tells too much
# rather than too little, since together they are more even than apart (measured: twice the true error at d
# = 5, more below); independent scramblings of as many points are honest to the percent, but twice as far
# off. Sixteen blocks keep Student's quantile near the normal one (2.13 against 1.96).
BLOCKS = 16
LEAST_POINTS = 2 * BLOCKS
MANY_VARIABLES = 64
"""Beyond, the volume of a feasible set is made up of directions that no sample finds: it is measured as a
logarithm in another way (`log_volume`), and searches raise how far plans reach to this power only."""


@dataclass(frozen=True, eq=False)
class Directions:
    """Points of the unit simplex, variable by variable so that compiled loops read them in order."""

    values: Floats  # (dimensions, points), read-only

    @classmethod
    def draw(cls, dimensions: int, points: int, seed: int | tuple[int, ...]) -> Directions:
        """A power of two `points` on the simplex in `dimensions` variables: a scrambled Sobol net, or chance
        in many dimensions."""
        check_points(points)
        if dimensions < 1:
            raise InputError(
                f"found {dimensions} dimensions, expected at least 1",
                remedy="a feasible set without variables contains all rates and needs no sampling",
            )
        values = np.ones((1, points))
        if dimensions > MANY_VARIABLES:
            values = np.random.default_rng(seed).standard_exponential((dimensions, points))
            values /= values.sum(axis=0)
        elif dimensions > 1:
            values = break_sticks(sobol_net(dimensions - 1, points, np.random.default_rng(seed)))
        values.setflags(write=False)
        return cls(values)

    @property
    def dimensions(self) -> int:
        return int(self.values.shape[0])

    @property
    def points(self) -> int:
        return int(self.values.shape[1])


def break_sticks(uniforms: Floats) -> Floats:
    """Map (points, K - 1) uniforms to (K, points) coordinates on the unit simplex, preserving uniformity."""
    points, breaks = uniforms.shape
    values = np.empty((breaks + 1, points))
    rest = np.ones(points)
    for k in range(breaks):
        kept = (1.0 - uniforms[:, k]) ** (1.0 / (breaks - k))
        values[k] = rest * (1.0 - kept)
        rest *= kept
    values[breaks] = rest
    return values


def check_points(points: int) -> None:
    """Sobol nets are balanced at powers of two only, and the error needs a few points in every block."""
    if points < LEAST_POINTS or points & (points - 1):
        raise InputError(
            f"found {points} sample points, expected a power of two of at least {LEAST_POINTS}",
            field="points",
            remedy="use 2**14 for everyday work, 2**16 for many streams with few operators each",
        )
