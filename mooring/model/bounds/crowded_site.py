"""The exact upper bound if some sites must hold more than their share of one variable.

Let sites with a share c of the capacity hold 1 + e of their share of variable k, and 1 + s of their share of
what the other variables cause together. Along a direction u of the ideal set they have a load of 1 + x on
average, x = e u_k + s (1 - u_k), and the other sites one of 1 - x c / (1 - c), so no plan reaches farther
than 1 / (1 + max(x, -x c / (1 - c))). What the best s leaves of the ideal set bounds every plan:

- that the sites may have other excesses s_l of the single variables changes nothing: the mix v of the other
  variables is independent of u_k on the simplex, so the mean over v of what s . v gives is at most what the
  best single s gives;
- nor does more than e: x is linear in (e, s), so shrinking both until e is the least shrinks every x;
- a smaller c is better for the plan, so the least that c can be stands for all.
"""

from __future__ import annotations

import numpy as np

from mooring.arrays import Floats

_NODES = 1_000
"""Of the midpoint rule for the mean over u_k."""
_GRID, _ZOOMS = 17, 5
_ALLOWANCE = 2e-5
"""For the error of both, which is less than half of it."""


def crowded_bound(excess: float, share: float, variables: int) -> float:
    """The largest feasible ratio when sites with so large a share of the capacity, or a larger one, have
    1 + `excess` of their share of one of the variables.

    >>> crowded_bound(0.0, 0.1, 5)
    1.0
    >>> crowded_bound(1.0, 0.5, 1)
    0.5
    >>> round(crowded_bound(0.7, 0.1, 5), 3)
    0.833
    """
    if excess <= 0.0:
        return 1.0
    if variables == 1:
        return 1.0 / (1.0 + excess)
    # (1 - u_k)^(variables - 1) is uniform on [0, 1].
    own = 1.0 - ((np.arange(_NODES) + 0.5) / _NODES) ** (1.0 / (variables - 1))
    low, high, best = -1.0, 0.0, 0.0
    for _ in range(_ZOOMS):
        tried = np.linspace(low, high, _GRID)
        found = _reached(excess, tried, share, own, variables)
        at = int(found.argmax())
        best = max(best, float(found[at]))
        low, high = tried[max(at - 1, 0)], tried[min(at + 1, _GRID - 1)]
    return min(1.0, best + _ALLOWANCE)


def _reached(excess: float, others: Floats, share: float, own: Floats, variables: int) -> Floats:
    """The part of the ideal set that is left, for each excess of the other variables."""
    over = excess * own[None, :] + others[:, None] * (1.0 - own[None, :])
    worst = np.maximum(over, -over * share / (1.0 - share))
    return np.asarray(((1.0 + worst) ** -float(variables)).mean(axis=1))
