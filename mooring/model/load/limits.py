"""Limits of all placements: whether the fixed load and the minimum rates fit at all."""

from __future__ import annotations

import numpy as np

from mooring.errors import InfeasibleError
from mooring.model.load.model import LoadModel
from mooring.quantity import decimal


def require_some_capacity(model: LoadModel) -> None:
    """Raise `InfeasibleError` when even all sites together cannot carry what is always there."""
    capacity, fixed = float(model.capacity_cores.sum()), float(model.fixed_cores.sum())
    if fixed >= capacity:
        raise InfeasibleError(
            f"the fixed load of all fragments is {decimal(fixed)} cores, but the sites have "
            f"{decimal(capacity)} in all",
            remedy="add capacity, or merge fragments",
        )
    least = float(model.totals @ model.lower)
    if least >= model.capacity_left_cores:
        worst = int(np.argmax(model.totals * model.lower))
        raise InfeasibleError(
            f"the minimum rates need {decimal(least)} cores, but all sites together have "
            f"{decimal(model.capacity_left_cores)} left; most of it comes from "
            f"{model.variables[worst].name!r}",
            remedy="add capacity or lower the min_rate of that stream",
        )
