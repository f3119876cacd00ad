"""Plans that are good on the surrogate: placed greedily on it, then improved by moves and swaps.

Crossings, draws of the statistics and non-linear loads are not in it: it gives the search somewhere good to
start, at any size.
"""

from __future__ import annotations

import numpy as np

from mooring.algorithms.resilient import surrogate_kernels
from mooring.algorithms.rod.policy import normalised_parts
from mooring.arrays import Floats, Ints
from mooring.contracts.deadline import Deadline
from mooring.model.load.model import LoadModel

STRETCH_STEPS = 20_000
LEAST_DEGREE, MOST_DEGREE = 8, 32
"""Half the variables: with many, the volume hangs on the worst sites more."""
MOST_CELLS = 50_000_000
"""Sites x variables that the surrogate keeps in memory; beyond, there is no surrogate."""


class Surrogate:
    """The surrogate of one model."""

    def __init__(self, model: LoadModel) -> None:
        self._model = model
        matrix = model.coefficients
        self._indptr = matrix.indptr.astype(np.int64, copy=False)
        self._indices = matrix.indices.astype(np.int64, copy=False)
        self._parts = normalised_parts(model)
        left = model.capacity_left_cores
        self._base = np.asarray((matrix @ model.lower + model.fixed_cores) / left)
        self._capacity = model.capacity_cores / left
        self._degree = int(np.clip(len(model.active) // 2, LEAST_DEGREE, MOST_DEGREE))
        self._free = np.flatnonzero(model.pinned_site < 0)

    @staticmethod
    def supports(model: LoadModel) -> bool:
        return model.site_count * len(model.variables) <= MOST_CELLS

    def greedy(self) -> Ints | None:
        """Heaviest fragments first; None where memory runs out on the way."""
        model = self._model
        squares = np.asarray(model.coefficients.power(2) @ _inverse_squares(model.totals))
        # Pinned fragments and those with memory first: they have the least choice.
        order = np.lexsort((-squares, -model.memory_mb, model.pinned_site < 0))
        sites, stuck = surrogate_kernels.greedy(
            order, self._indptr, self._indices, self._parts, self._base, self._capacity,
            len(model.variables), model.pinned_site, model.memory_mb, model.memory_limit_mb.copy(),
            self._degree,
        )  # fmt: skip
        return None if stuck >= 0 else np.asarray(sites)

    def climb(self, sites: Ints, steps: int, rng: np.random.Generator, deadline: Deadline) -> Ints:
        """Improve by so many random moves and swaps, or until they are hardly ever taken any more."""
        model = self._model
        result = np.array(sites, dtype=np.int64)
        word = rng.integers(1, 2**63, size=1).astype(np.uint64)
        memory_left = model.memory_limit_mb - np.bincount(result, model.memory_mb, model.site_count)
        for _ in range(0, steps if len(self._free) else 0, STRETCH_STEPS):
            taken = surrogate_kernels.climb(
                self._indptr, self._indices, self._parts, self._base, self._capacity, len(model.variables),
                self._free, model.memory_mb, memory_left, result, min(steps, STRETCH_STEPS), word,
                self._degree,
            )  # fmt: skip
            if deadline.expired or taken * 2000 < min(steps, STRETCH_STEPS):
                break
        return result


def _inverse_squares(totals: Floats) -> Floats:
    return np.divide(1.0, totals**2, out=np.zeros_like(totals), where=totals > 0.0)
