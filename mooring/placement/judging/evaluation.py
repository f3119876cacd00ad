"""One set of metrics for every placement, whoever made it."""

from __future__ import annotations

import math

import numpy as np

from mooring.arrays import Floats
from mooring.errors import InfeasibleError, UnsupportedError
from mooring.load.feasible.estimate import Estimate
from mooring.load.feasible.feasible_set import DEFAULT_POINTS, FeasibleSet
from mooring.load.feasible.headroom import Growth, headroom
from mooring.load.feasible.true_feasible_set import true_ratio
from mooring.load.model import LoadModel
from mooring.placement.judging.bounded_rates import ratio_below, upper_bounds
from mooring.placement.judging.network_metrics import network_metrics
from mooring.placement.placement import Placement

EASY_DIMENSIONS = 5
"""Up to here one net of the default size is within a thousandth of the exact volume (docs/decisions/0007)."""
RELATIVE_ERROR = 0.01
"""Beyond, directions are added until half the 95% interval is this part of the ratio ..."""
MOST_WORK = 2**32
"""... or until directions x sites x variables come to this: a few seconds."""


def evaluate_placement(
    model: LoadModel, placement: Placement, *, points: int | None = None, seed: int = 0
) -> dict[str, object]:
    """All metrics that the problem has the figures for; readers of `--json` rely on their keys."""
    metrics = _feasible_metrics(model, placement, points, seed)
    metrics["headroom"] = _headroom_metric(model, placement)
    if placement.problem.history is not None:
        metrics["survived_share"] = survived_share(model, placement, placement.problem.history.rates)
    metrics.update(network_metrics(placement))
    metrics["max_utilisation"] = float(np.max(utilisation(model, placement)))
    return metrics


def _feasible_metrics(
    model: LoadModel, placement: Placement, points: int | None, seed: int
) -> dict[str, object]:
    sites = placement.site_of_fragment
    try:
        feasible_set = FeasibleSet.of(model, sites)
    except (
        InfeasibleError
    ):  # nothing could carry the fixed load or the minimum rates: an empty set is the verdict
        return {
            "feasible_ratio": 0.0,
            "feasible_ratio_error": 0.0,
            "plane_distance": None,
            "axis_distance": {},
        }
    ratio = _feasible_ratio(feasible_set, points, seed)
    metrics: dict[str, object] = {
        "feasible_ratio": ratio.value,
        "feasible_ratio_error": ratio.standard_error,
    }
    if model.definitions:
        metrics.update(_true_metrics(model, placement, points, seed))
    upper = upper_bounds(placement.problem, model)
    if np.isfinite(upper[model.active]).any():
        metrics["feasible_ratio_below_max"] = ratio_below(model, sites, upper, points or DEFAULT_POINTS, seed)
    metrics["plane_distance"] = _finite(feasible_set.plane_distance)
    metrics["axis_distance"] = {
        name: _finite(distance)
        for name, distance in zip(feasible_set.variables, feasible_set.axis_distances, strict=True)
    }
    return metrics


def _feasible_ratio(feasible_set: FeasibleSet, points: int | None, seed: int) -> Estimate:
    sites, variables = feasible_set.weights.shape
    if points is not None:
        return feasible_set.ratio(points=points, seed=seed)
    if variables <= EASY_DIMENSIONS:
        return feasible_set.ratio(seed=seed)
    return feasible_set.ratio_within(RELATIVE_ERROR, seed, most_points=MOST_WORK // (sites * variables))


def _true_metrics(model: LoadModel, placement: Placement, points: int | None, seed: int) -> dict[str, object]:
    """Nothing where the true set is unbounded: a stream loads only by meeting others, which may be silent."""
    try:
        true = true_ratio(model, placement.site_of_fragment, points=points or DEFAULT_POINTS, seed=seed)
    except UnsupportedError:
        return {}
    return {"true_feasible_ratio": true.value, "true_feasible_ratio_error": true.standard_error}


def utilisation(model: LoadModel, placement: Placement) -> Floats:
    """Load over capacity of every site at the present rates."""
    loads = model.site_loads(placement.site_of_fragment, placement.problem.rates)
    return np.asarray(loads / model.capacity_cores)


def survived_share(model: LoadModel, placement: Placement, rates: Floats) -> float:
    """The share of given rate points (samples x streams) at which no site is overloaded."""
    loads = model.site_loads(placement.site_of_fragment, rates)
    return float(np.mean(np.all(loads <= model.capacity_cores * (1 + 1e-12), axis=1)))


def _headroom_metric(model: LoadModel, placement: Placement) -> dict[str, object]:
    problem = placement.problem
    room = headroom(model, placement.site_of_fragment, problem.rates)

    def growth(value: Growth) -> dict[str, object]:
        return {
            "factor": _finite(value.factor),
            "site": None if value.site is None else problem.sites[value.site].name,
        }

    return {
        **growth(room.all),
        "streams": {s.name: growth(g) for s, g in zip(problem.streams, room.streams, strict=True)},
    }


def _finite(value: float) -> float | None:
    """JSON has no infinity: null says that there is no limit."""
    return float(value) if math.isfinite(value) else None
