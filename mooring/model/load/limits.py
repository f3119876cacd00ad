"""Limits of all placements: whether the fixed load and the minimum rates fit at all."""

from __future__ import annotations

import numpy as np

from mooring.errors import InfeasibleError
from mooring.model.load.model import LoadModel


def require_some_capacity(model: LoadModel) -> None:
    """Raise `InfeasibleError` when even all sites together cannot carry what is always there."""
    capacity, fixed = float(model.capacity_cores.sum()), float(model.fixed_cores.sum())
    if fixed >= capacity:
        raise InfeasibleError(
            f"the fixed load of all fragments is {fixed:.3g} cores, but the sites have {capacity:.3g} in all",
            remedy="add capacity, or merge fragments",
        )
    least = float(model.totals @ model.lower)
    if least >= model.capacity_left_cores:
        worst = int(np.argmax(model.totals * model.lower))
        raise InfeasibleError(
            f"the minimum rates need {least:.3g} cores, but all sites together have "
            f"{model.capacity_left_cores:.3g} left; most of it comes from {model.variables[worst].name!r}",
            remedy="add capacity or lower the min_rate of that stream",
        )
