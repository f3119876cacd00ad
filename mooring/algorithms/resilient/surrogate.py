"""Plans that are good on the surrogate: placed greedily on it, then improved by moves and swaps.

Crossings, draws of the statistics and non-linear loads are not in it: it gives the search somewhere good to
start, at any size.
"""

from __future__ import annotations

import numpy as np

from mooring.algorithms.resilient import surrogate_kernels
from mooring.algorithms.rod.policy import normalised_parts
from mooring.arrays import Floats, Ints
from mooring.contracts.deadline import NO_DEADLINE, Deadline
from mooring.model.load.model import LoadModel

STRETCH_STEPS = 20_000
LEAST_DEGREE, MOST_DEGREE = 8, 32
"""Half the variables: with many, the volume hangs on the worst sites more."""
MOST_CELLS = 50_000_000
"""Sites x variables that the surrogate keeps in memory; beyond, there is no surrogate."""


GREEDY_STRETCH = 200_000_000
"""Fragments x sites x degree^2 between two looks at the clock: a fifth of a second."""
MOST_GREEDY = 5_000_000_000
"""Likewise, in all: several seconds. Beyond, there is no greedy plan; it is climbed from ROD's."""


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

    def greedy(self, deadline: Deadline = NO_DEADLINE) -> Ints | None:
        """Heaviest fragments first; None where memory or time runs out on the way, or there are so many that
        it would."""
        model = self._model
        per_fragment = model.site_count * self._degree**2
        if model.fragment_count * per_fragment > MOST_GREEDY:
            return None
        squares = np.asarray(model.coefficients.power(2) @ _inverse_squares(model.totals))
        # Pinned fragments and those with memory first: they have the least choice.
        order = np.lexsort((-squares, -model.memory_mb, model.pinned_site < 0))
        sites = np.full(model.fragment_count, -1, dtype=np.int64)
        held = np.zeros((model.site_count, len(model.variables)))
        sums, cost = np.zeros((model.site_count, self._degree)), np.zeros(model.site_count)
        margin, memory_left = self._capacity.copy(), model.memory_limit_mb.copy()
        at_a_time = max(GREEDY_STRETCH // per_fragment, 1)
        for begin in range(0, len(order), at_a_time):
            stuck = surrogate_kernels.greedy(
                order[begin : begin + at_a_time], self._indptr, self._indices, self._parts, self._base,
                model.pinned_site, model.memory_mb, memory_left, held, sums, margin, cost, sites,
            )  # fmt: skip
            if stuck >= 0 or (deadline.expired and begin + at_a_time < len(order)):
                return None
        return sites

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
