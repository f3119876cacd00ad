"""The inner loop of volumes in many dimensions: a walk through a set while it is let go, step by step.

The set is {z >= 0 : planes z <= 1}. At cold b a point is drawn with a density in proportion to e^(-b sum z)
inside the set, one coordinate after the other: given the rest, a coordinate is exponential, cut off where the
nearest plane is. Since coordinates alone hardly change how large a point is, each sweep first stretches or
shrinks it as a whole.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mooring.arrays import Floats, Ints

NEARLY_FLAT = 1e-6
"""Where cold x room is less, the density hardly falls and is taken as level."""


@njit(cache=True)
def mean_sizes(
    start: Ints, plane: Ints, weight: Floats, planes: int, colds: Floats, sweeps: int, unused: int,
    rng: np.random.Generator,
) -> Floats:  # fmt: skip
    """Per cold, in the order given, the mean of sum z over `sweeps` sweeps, after some `unused` ones.

    Coordinate k meets `plane[start[k]:start[k + 1]]` with these weights, at most 1, and 1 at least once.
    """
    z = np.full(len(start) - 1, 1.0 / colds[0])
    load = np.zeros(planes)
    result = np.zeros(len(colds))
    for step in range(len(colds)):
        for sweep in range(unused + sweeps):
            stretch(start, plane, weight, colds[step], z, load, rng)
            size = move_coordinates(start, plane, weight, colds[step], z, load, rng)
            if sweep >= unused:
                result[step] += size / sweeps
    return result


@njit(cache=True)
def stretch(
    start: Ints, plane: Ints, weight: Floats, cold: float, z: Floats, load: Floats, rng: np.random.Generator
) -> None:
    """Multiply z by a factor drawn as in a level set, and accept it by Metropolis. Loads are made afresh."""
    load[:] = 0.0
    size = 0.0
    for k in range(len(z)):
        size += z[k]
        for entry in range(start[k], start[k + 1]):
            load[plane[entry]] += weight[entry] * z[k]
    factor = rng.random() ** (1.0 / len(z)) / load.max()
    if np.log(rng.random()) < cold * size * (1.0 - factor):
        z *= factor
        load *= factor


@njit(cache=True)
def move_coordinates(
    start: Ints, plane: Ints, weight: Floats, cold: float, z: Floats, load: Floats, rng: np.random.Generator
) -> float:
    """Draw every coordinate anew; returns the sum of their means, which varies less than their own sum."""
    size = 0.0
    for k in range(len(z)):
        room = np.inf
        for entry in range(start[k], start[k + 1]):
            room = min(room, (1.0 - load[plane[entry]]) / weight[entry])
        room = max(room + z[k], 0.0)
        if cold * room > NEARLY_FLAT:
            size += 1.0 / cold - room / np.expm1(cold * room)
            drawn = -np.log1p(rng.random() * np.expm1(-cold * room)) / cold
        else:
            size += room / 2.0
            drawn = rng.random() * room
        for entry in range(start[k], start[k + 1]):
            load[plane[entry]] += weight[entry] * (drawn - z[k])
        z[k] = drawn
    return size
