"""An upper bound with hundreds of variables: the logarithm of the volume of a set that contains the feasible
sets of all plans.

In every plan some site holds each fragment, so its load alone must fit the largest site; what is pinned to a
site is there together; and of a variable that comes in few indivisible parts some site has more than its
share (`coarseness`). Each of these is a plane that cuts every plan's set, and so is the ideal one. Sampled
bounds along directions (`upper_bound`) would miss what makes up the volume here, as sampled ratios do.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, diags_array, vstack

from mooring.arrays import Floats
from mooring.model.bounds.upper_bound import axis_bound, coarseness, pinned_fragments
from mooring.model.load.feasible.log_volume import MOST_VISITS, log_volume
from mooring.model.load.model import LoadModel

VISITS = MOST_VISITS // 3
STANDARD_ERRORS = 3.0
"""Added to the sampled volume."""
MOST_CELLS = 4_000_000
"""Planes x variables: the planes that cut deepest are kept. Leaving some out only raises the bound."""
MOST_EXACT_PARTS = 8
"""Fragments of one variable up to which all their subsets are looked at: there are hundreds of variables."""


def log_upper_bound(model: LoadModel, seed: int = 0, visits: int = VISITS) -> float:
    """No plan has a feasible ratio with a larger (natural) logarithm; minus infinity where all their sets are
    empty."""
    planes = _planes(model)
    if planes is None:
        return -np.inf
    volume = log_volume(planes, seed, visits)
    sampled = volume.value + STANDARD_ERRORS * volume.standard_error
    return min(0.0, sampled, float(np.log(axis_bound(model))))


def _planes(model: LoadModel) -> csr_array | None:
    """Rows W with W y <= 1 in every plan's feasible set, y in units of the ideal set above the lower bounds;
    None where that set is empty whatever the plan."""
    active, left = model.active, model.capacity_left_cores
    lower = model.lower[active] * model.totals[active] / left
    room = 1.0 - float(lower.sum())
    parts = csr_array(model.coefficients[:, active] * (room / model.totals[active]))
    base = np.asarray(model.coefficients @ model.lower + model.fixed_cores) / left
    capacity = model.capacity_cores / left
    free = np.flatnonzero(model.pinned_site < 0)
    pinned = pinned_fragments(model)
    loads = [parts[free], *(csr_array(parts[held].sum(axis=0)[None, :]) for held in pinned.values())]
    margins = np.concatenate(
        [
            float(capacity.max()) - base[free],
            [capacity[site] - base[held].sum() for site, held in pinned.items()],
        ]
    )
    rows = _rows_that_cut(loads, margins)
    if rows is None:
        return None
    if not model.fixed_cores.any():
        excess = 1.0 + coarseness(model, MOST_EXACT_PARTS)
        # A site with (1 + e) of its share of a variable has that at the lower bound too.
        axes = room * excess / np.maximum(1.0 - excess * lower, 1e-300)
        known = np.zeros(len(active)) if not rows.shape[0] else np.asarray(rows.max(axis=0).todense()).ravel()
        cut = np.flatnonzero(axes > np.maximum(known, 1.0) * (1.0 + 1e-9))
        corners = csr_array((axes[cut], (np.arange(len(cut)), cut)), shape=(len(cut), len(active)))
        rows = csr_array(vstack([rows, corners]))
    return rows if _imply_the_ideal(rows) else csr_array(vstack([rows, np.ones((1, len(active)))]))


def _imply_the_ideal(rows: csr_array) -> bool:
    """Whether the rows, each counted as often as its least weight needs to come to 1, and not more than once
    in all, add up to 1 or more in every variable."""
    if not rows.nnz:
        return False
    at_all = np.flatnonzero(np.diff(rows.indptr))
    least = np.minimum.reduceat(rows.data, rows.indptr[at_all])
    return len(np.unique(rows.indices)) == rows.shape[1] and float((1.0 / least).sum()) <= 1.0


def _rows_that_cut(loads: list[csr_array], margins: Floats) -> csr_array | None:
    """Loads over margins, where that reaches beyond the ideal plane on some axis."""
    together = csr_array(vstack(loads))
    heaviest = np.asarray(together.max(axis=1).todense()).ravel()
    if ((margins <= 0.0) & (heaviest > 0.0)).any():
        return None
    cuts = heaviest / np.maximum(margins, 1e-300)
    most = max(MOST_CELLS // together.shape[1], 1)
    deepest = np.argsort(-cuts, kind="stable")[:most]
    kept = np.sort(deepest[cuts[deepest] > 1.0])
    rows = csr_array(diags_array(1.0 / margins[kept]) @ together[kept])
    rows.eliminate_zeros()
    return rows
