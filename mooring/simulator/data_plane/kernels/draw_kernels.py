"""Random draws inside the event kernel.

Every operator has a stream of its own (splitmix64, Steele and others 2014), seeded from the run's
generator, so that two placements of the same graph under the same seed see the same services, selectivities
and routes.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from mooring.simulator.data_plane.kernels.records import CONSTANT, ERLANG, EXPONENTIAL, INLINED, Records

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_TO_UNIT = 2.0**-53


@njit(**INLINED)
def uniform(operator: Records) -> float:
    """A draw from (0, 1]: never zero, so that its logarithm exists."""
    operator.random += _STEP
    z = operator.random
    z = (z ^ (z >> _30)) * _MIX_1
    z = (z ^ (z >> _27)) * _MIX_2
    z = z ^ (z >> _31)
    return (float(z >> _11) + 1.0) * _TO_UNIT


@njit(**INLINED)
def service_factor(operator: Records) -> float:
    """The service time of one tuple relative to its mean."""
    kind = operator.service
    if kind == CONSTANT:
        return 1.0
    if kind == EXPONENTIAL:
        return -math.log(uniform(operator))
    if kind == ERLANG:
        phases = int(operator.service_a)
        if operator.service_b > 0.0 and uniform(operator) <= operator.service_b:
            phases -= 1
        total = 0.0
        product = 1.0
        for phase in range(phases):
            product *= uniform(operator)
            if phase % 16 == 15:  # many small factors would vanish
                total -= math.log(product)
                product = 1.0
        erlang: float = (total - math.log(product)) / operator.service_c
        return erlang
    # Hyperexponential: with probability a of mean b, otherwise of mean c.
    mean: float = operator.service_b if uniform(operator) <= operator.service_a else operator.service_c
    return -mean * math.log(uniform(operator))


@njit(**INLINED)
def outputs_of(operator: Records, selectivity: float, amount: float) -> int:
    """How many tuples come out for `amount` going in: drawn one by one, or spread evenly with the rest
    carried on.
    """
    if not operator.drawn:
        operator.credit += selectivity * amount
        whole = int(operator.credit)
        operator.credit -= whole
        return whole
    sure = math.floor(selectivity)
    chance = selectivity - sure
    count = int(sure * amount)
    if chance > 0.0:
        for _ in range(int(amount)):
            if uniform(operator) <= chance:
                count += 1
    return count
