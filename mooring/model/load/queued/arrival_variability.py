"""Variability of a stream's arrivals: as stated, or from its past rates."""

from __future__ import annotations

import numpy as np

from mooring.model.problem.problem import Problem

BY_CHANCE = 1.0


def arrival_variability(problem: Problem, stream: int) -> float:
    """Squared coefficient of variation of the time between tuples.

    A stream that states none, but past `rates`, is taken for tuples that come by chance at a rate that
    wanders as that history does, slowly against the tuples. Times between them then have the mean 1 / E[r]
    and the second moment 2 E[1/r] / E[r], so this is 2 E[r] E[1/r] - 1; times without any tuples do not
    count.

    >>> problem = Problem.from_dict({
    ...     "sites": {"a": {"capacity": 1}},
    ...     "streams": {"x": {"rate": 5}},
    ...     "operators": {"f": {"inputs": ["x"], "cost_us": 10}},
    ... })
    >>> arrival_variability(problem, 0)
    1.0
    """
    stated = problem.streams[stream].variability
    if stated is not None:
        return stated
    if problem.history is None:
        return BY_CHANCE
    rates = problem.history.rates[:, stream]
    rates = rates[rates > 0.0]
    if not len(rates):
        return BY_CHANCE
    return float(2.0 * np.mean(rates) * np.mean(1.0 / rates) - 1.0)
