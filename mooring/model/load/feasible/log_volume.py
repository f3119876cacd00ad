"""The volume of a feasible set in hundreds of variables, as a logarithm.

Along a random direction the radius to the power of the variables says what the direction adds to the volume
(`feasible_set`). With hundreds of variables that power differs by tens of orders of magnitude between
directions, and the few that make up the volume are in no sample: at 480 streams on 235 sites, 2^16 directions
were 70 orders short. So the volume is taken apart in two ways that hold in any dimension:

- Sites that share no variable with another are simplices of their own, and volumes multiply: exact.
- Of the rest, let Z(b) be the integral of e^(-b a.x) over the set. At a large b only the neighbourhood of the
  origin counts, where no plane is in the way, and Z is known: prod 1 / (b a_k). At b = 0 it is the volume.
  In between d log Z / db = -E[a.x], which a walk through the set measures (`volume_kernels`): every step
  changes log Z by little, so that nothing hangs on rare points.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, isinf, lgamma, log, sqrt

import numpy as np
from scipy.sparse import csc_array, csr_array

from mooring.arrays import Floats
from mooring.model.load.feasible.volume_kernels import mean_sizes

WALKS = 8
"""Independent ones, whose spread tells the error."""
STEP = 0.25
"""Of log b. Twice as large steps give the same volumes with half as much again for an error."""
STEPS_ERROR = 1e-3
"""Of the sum over steps, in natural logarithms."""
MOST_SWEEPS, LEAST_SWEEPS = 400, 4
MOST_VISITS = 60_000_000
"""Visits to a weight of a plane: about .2 s. The sweeps per step are as many as that allows."""
VISITS_PER_DRAW = 16
"""Drawing a coordinate takes as long as so many visits."""
LEAST_NUMBER = 1e-300
"""Below, a ratio is given as a logarithm only."""


@dataclass(frozen=True)
class LogEstimate:
    """The natural logarithm of a positive number, with its standard error."""

    value: float
    standard_error: float = 0.0

    @classmethod
    def of_log10(cls, value: float) -> LogEstimate:
        return cls(value * log(10.0))

    @property
    def log10(self) -> float:
        return self.value / log(10.0)

    @property
    def log10_error(self) -> float:
        return self.standard_error / log(10.0)

    @property
    def number(self) -> float | None:
        """The number itself, at most 1; None where it is too small for one."""
        if isinf(self.value):
            return 0.0
        return exp(min(self.value, 0.0)) if self.value >= log(LEAST_NUMBER) else None

    @property
    def number_error(self) -> float | None:
        """To first order."""
        return None if self.number is None else self.number * self.standard_error

    def over(self, other: LogEstimate) -> LogEstimate:
        """Of the ratio of the two numbers, measured apart."""
        return LogEstimate(self.value - other.value, sqrt(self.standard_error**2 + other.standard_error**2))


def log_volume(planes: Floats | csr_array, seed: int = 0, visits: int = MOST_VISITS) -> LogEstimate:
    """Of {x >= 0 : planes x <= 1}, relative to the unit simplex; every variable has to meet a plane.

    >>> half = log_volume(np.array([[2.0, 1.0, 0.0], [0.0, 0.0, 3.0]]))  # 1/2 x 1/2 x 1/3, the simplex 1/6
    >>> round(exp(half.value), 9)
    0.5
    """
    rows = csr_array(planes)
    rows.eliminate_zeros()
    rows = rows[np.diff(rows.indptr) > 0]
    plane = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    planes_met = np.bincount(rows.indices, minlength=rows.shape[1])
    alone = np.bincount(plane, planes_met[rows.indices] > 1, rows.shape[0]) == 0.0
    value = lgamma(rows.shape[1] + 1.0)
    for row in np.flatnonzero(alone).tolist():
        own = rows.data[rows.indptr[row] : rows.indptr[row + 1]]
        value -= float(np.log(own).sum()) + lgamma(len(own) + 1.0)
    theirs = np.zeros(rows.shape[1], dtype=np.bool_)
    theirs[rows.indices[alone[plane]]] = True
    rest = csr_array(rows[~alone][:, np.flatnonzero(~theirs)])
    if not rest.shape[0] or not rest.shape[1]:
        return LogEstimate(value)
    walked = _walked(rest, seed, visits)
    error = sqrt(float(walked.var(ddof=1)) / WALKS + STEPS_ERROR**2)
    return LogEstimate(value + float(walked.mean()), error)


def _walked(planes: csr_array, seed: int, visits: int) -> Floats:
    """The logarithm of the volume of {x >= 0 : planes x <= 1}, by each of several walks."""
    # In units of where the nearest plane meets its axis, a point of size 1 or less is inside.
    nearest = np.asarray(planes.max(axis=0).todense()).ravel()
    count, variables = planes.shape
    columns = csc_array(planes)
    columns.data /= np.repeat(nearest, np.diff(columns.indptr))
    # The size is a Gamma variable at first, with hardly anything beyond 1. It is at most the number of
    # planes, since every axis is somebody's nearest: from the last cold on it does not matter.
    coldest, warmest = 3.0 * variables + 20.0, 1.0 / count
    colds = np.geomspace(coldest, warmest, int(np.ceil(log(coldest / warmest) / STEP)) + 1)
    per_sweep = WALKS * len(colds) * (columns.nnz + VISITS_PER_DRAW * variables)
    sweeps = int(np.clip(0.8 * visits / per_sweep, LEAST_SWEEPS, MOST_SWEEPS))
    start, plane = columns.indptr.astype(np.int64), columns.indices.astype(np.int64)
    found = [
        mean_sizes(
            start, plane, columns.data, count, colds, sweeps, sweeps // 4, np.random.default_rng((seed, walk))
        )
        for walk in range(WALKS)
    ]
    falls = np.array(found) * colds  # -d log Z / d log b
    between = log(coldest / warmest) / (len(colds) - 1)
    integrals = between * (falls.sum(axis=1) - (falls[:, 0] + falls[:, -1]) / 2.0)
    # Beyond the last cold the fall is in proportion to b, which also says by what the trapezoids are short.
    integrals += falls[:, -1] * (1.0 + between**2 / 12.0)
    return np.asarray(integrals - variables * log(coldest) - np.log(nearest).sum())
