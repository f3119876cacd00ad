"""How far rates can grow before micro-batches take longer than their trigger."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mooring.arrays import Floats, Ints
from mooring.model.load.feasible.boundary import largest_multiples
from mooring.model.load.micro_batches import BatchTimes, batch_shares, fixed_batch_shares
from mooring.model.load.model import LoadModel


def growth_by_batch_time(
    model: LoadModel, site_of_fragment: Ints, rates: npt.ArrayLike, times: BatchTimes
) -> Floats:
    """Per fragment, the factor by which all rates can grow before its batches take as long as the trigger.

    >>> model = LoadModel.from_coefficients([[0.2], [0.1]], capacity_cores=[2.0])
    >>> times = BatchTimes(5.0, np.array([1.0, 0.0]))
    >>> growth_by_batch_time(model, np.array([0, 0]), [2.0], times).round(3).tolist()
    [2.222, inf]
    """
    now, known = np.asarray(rates, dtype=np.float64), np.flatnonzero(times.over_model > 0.0)
    growths = np.full(len(times.over_model), np.inf)
    if not len(known):
        return growths
    over = times.over_model[known]
    grows = over[:, None] * batch_shares(model, site_of_fragment)[known]
    room = 1.0 - over * fixed_batch_shares(model, site_of_fragment)[known]

    def share_at(factors: Floats) -> Floats:
        return np.asarray((model.variable_values(factors[:, None] * now) * grows).sum(axis=1)[:, None])

    growths[known] = largest_multiples(share_at, len(known), room[:, None], linear=not model.definitions)
    return growths
