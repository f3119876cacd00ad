"""Plans for rates that are known not to exceed a maximum (`max_rate`), and the metric they are judged by.

Rates beyond what a stream can ever bring need not be survived. Of the ideal set only the part below the
maximum rates then counts: the rate combinations that may come and that some placement could carry. The share
of them that a placement carries is its `feasible_ratio_below_max`, 1 where it survives all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, diags_array, vstack

from mooring.arrays import Floats, Ints
from mooring.model.load.feasible.directions import MANY_VARIABLES, Directions
from mooring.model.load.feasible.feasible_set import DEFAULT_POINTS, FEW_POINTS, FeasibleSet
from mooring.model.load.feasible.log_volume import MOST_VISITS, LogEstimate, log_volume
from mooring.model.load.feasible.sparse_feasible_set import SomeFeasibleSet, SparseFeasibleSet
from mooring.model.load.model import LoadModel
from mooring.model.problem.problem import Problem
from mooring.model.rate_scenarios.scenarios import Scenarios, volume_scenarios


@dataclass(frozen=True, eq=False)
class VolumeBelow:
    """The share of the ideal set below upper bounds on the rates that is feasible."""

    model: LoadModel
    upper: Floats
    """Per variable; infinite where there is none."""

    def scenarios(self, count: int, rng: np.random.Generator) -> Scenarios:
        return volume_scenarios(self.model, count, rng, self.upper)

    def judge(self, site_of_fragment: Ints) -> float:
        return ratio_below(self.model, site_of_fragment, self.upper)


def ratio_below(
    model: LoadModel, site_of_fragment: Ints, upper: Floats, points: int = DEFAULT_POINTS, seed: int = 0
) -> float:
    """Feasible share of the ideal set within lower <= x <= upper, by the radius along each direction.

    With more than `MANY_VARIABLES` the radius is raised to that power only, which does to compare plans.
    """
    feasible = FeasibleSet.of(model, site_of_fragment)
    if feasible.is_empty:
        return 0.0
    power = min(len(model.active), MANY_VARIABLES)
    if power < len(model.active):
        points = min(points, FEW_POINTS)
    directions = Directions.draw(len(model.active), points, seed).values
    top = _tops(model, feasible, upper)
    ends = np.minimum((top[:, None] / np.maximum(directions, 1e-300)).min(axis=0), 1.0)
    reach = 1.0 / np.maximum((feasible.weights_above_lower() @ directions).max(axis=0), 1e-300)
    return float((np.minimum(reach, ends) ** power).sum() / (ends**power).sum())


def log_ratio_below(
    model: LoadModel, site_of_fragment: Ints, upper: Floats, seed: int = 0, visits: int = MOST_VISITS
) -> LogEstimate:
    """The logarithm of the same share, for many variables: of the set within the box, over the ideal one."""
    feasible = SparseFeasibleSet.of(model, site_of_fragment)
    if feasible.is_empty:
        return LogEstimate(-np.inf)
    top = _tops(model, feasible, upper)
    box = csr_array(diags_array(1.0 / top))[np.flatnonzero(np.isfinite(top))]
    within = log_volume(csr_array(vstack([feasible.rows_above_lower(), box])), seed, visits)
    return within.over(log_volume(csr_array(vstack([np.ones((1, len(top))), box])), seed, visits))


def _tops(model: LoadModel, feasible: SomeFeasibleSet, upper: Floats) -> Floats:
    """How far each variable can be above its lower bound, in units of the ideal set above the bounds."""
    scale = model.totals[model.active] / model.capacity_left_cores
    room = 1.0 - feasible.lower.sum()
    return np.asarray(np.maximum((upper[model.active] * scale - feasible.lower) / room, 1e-9))


def upper_bounds(problem: Problem, model: LoadModel) -> Floats:
    """Of the variables, infinite where there is none; introduced ones by the rates they follow from."""
    rates = np.array([np.inf if s.max_rate is None else s.max_rate for s in problem.streams])
    finite = np.where(np.isfinite(rates), rates, 1e300)
    varying = np.full(len(model.independent) - model.stream_count, 1e300)  # any selectivity may come
    with np.errstate(over="ignore", invalid="ignore"):
        values = model.resolved(np.concatenate([finite, varying]))
    return np.where(np.isfinite(values) & (values < 1e200), values, np.inf)
