"""Sharing out the CPU of a site among what ran there, when only the site's total can be seen.

Every look at a running site gives one equation: its CPU is the sum, over fragments, of batches x CPU per
batch plus rows x CPU per row. Fragments are triggered in step, so the equations are nearly the same ones
again and again and do not settle the shares. Hence each unknown is held to what was known before (a profile,
or an assumption) as a belief with an error of its own: the totals are met, and shares move only as far as the
looks tell them apart. None is negative.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from mooring.arrays import Floats


@dataclass(frozen=True)
class Shares:
    costs: Floats
    """CPU seconds per unit of each amount, as many as the prior."""
    error: float
    """Relative: median of what a look's CPU differs from what the costs say, to the median CPU of a look."""


LOOK_NOISE = 0.05
"""How far one look's CPU is typically off, to the CPU of a look (a batch or two falls into the next)."""
PRIOR_ERROR = 0.5
"""How far a single cost known before is typically off, once all are scaled to the total."""


def share_out(cpu_s: Floats, amounts: Floats, prior: Floats) -> Shares:
    """Costs of the amounts (looks x kinds) that explain the CPU of the looks, held to a positive `prior`.

    >>> amounts = np.array([[1.0, 100.0], [1.0, 900.0], [2.0, 300.0]])
    >>> shares = share_out(amounts @ [0.2, 1e-3], amounts, prior=np.array([0.1, 5e-4]))
    >>> [round(float(cost), 4) for cost in shares.costs]
    [0.2, 0.001]
    """
    if np.any(prior <= 0.0):
        raise ValueError("expected a prior above zero for every kind of amount")
    total, expected = float(cpu_s.sum()), float((amounts @ prior).sum())
    if total <= 0.0 or expected <= 0.0:
        return Shares(prior.copy(), 1.0)
    # All costs too low or too high alike is by far the likeliest error (another machine): take it out first.
    scaled = prior * (total / expected)
    look = amounts * scaled
    typical = float(np.median(cpu_s[cpu_s > 0.0]))
    hold = typical * LOOK_NOISE / PRIOR_ERROR
    system = np.vstack([look, hold * np.eye(len(scaled))])
    target = np.concatenate([cpu_s, np.full(len(scaled), hold)])
    factors, _ = nnls(system, target)
    costs = np.asarray(factors, dtype=float) * scaled
    left = np.abs(cpu_s - amounts @ costs)
    return Shares(costs, min(1.0, float(np.median(left)) / typical))
