"""The feasible ratio in few dimensions, exactly: the oracle that the sampled one is tested against.

The set is a polytope. Its corners come from the halfspaces by duality and its volume from their convex
hull, both through qhull, whose cost grows so fast with the dimension that this is no way to plan.
"""

from __future__ import annotations

from math import factorial

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import ConvexHull, HalfspaceIntersection

from mooring.errors import UnsupportedError
from mooring.model.load.feasible.feasible_set import FeasibleSet

MOST_VARIABLES = 6


def exact_ratio(weights: ArrayLike, lower: ArrayLike | None = None) -> float:
    """The size of {x >= lower, weights x <= 1, sum x <= 1} relative to {x >= lower, sum x <= 1}."""
    rows = np.array(weights, dtype=np.float64, ndmin=2)
    variables = rows.shape[1]
    bound = np.zeros(variables) if lower is None else np.asarray(lower, dtype=np.float64)
    if variables > MOST_VARIABLES:
        raise UnsupportedError(
            f"{variables} dimensions are out of reach of the exact volume, at most {MOST_VARIABLES} are not",
            remedy="use FeasibleSet.ratio, which reports its error",
        )
    planes = FeasibleSet(rows, bound, tuple(f"x{k + 1}" for k in range(variables)))
    if planes.is_empty:
        return 0.0
    sites = np.vstack([planes.weights_above_lower(), np.ones(variables)])
    nearest = sites.max(axis=0)
    if variables == 1:
        return float(1.0 / nearest[0])
    sites = sites / nearest  # every plane now passes beyond 1/2 of every axis, so the point below is inside
    halfspaces = np.vstack(
        [
            np.column_stack([sites, -np.ones(len(sites))]),
            np.column_stack([-np.eye(variables), np.zeros(variables)]),
        ]
    )
    corners = HalfspaceIntersection(halfspaces, np.full(variables, 0.5 / variables)).intersections
    return float(ConvexHull(corners).volume * factorial(variables) / np.prod(nearest))
