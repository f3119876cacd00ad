"""Plans for rates that are known not to exceed a maximum (`max_rate`), and the metric they are judged by.

Rates beyond what a stream can ever bring need not be survived. Of the ideal set only the part below the
maximum rates then counts: the rate combinations that may come and that some placement could carry. The share
of them that a placement carries is its `feasible_ratio_below_max`, 1 where it survives whatever may come.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mooring.arrays import Floats, Ints
from mooring.load.feasible.directions import Directions
from mooring.load.feasible.feasible_set import DEFAULT_POINTS, FeasibleSet
from mooring.load.model import LoadModel
from mooring.placement.scenarios.scenarios import Scenarios, volume_scenarios
from mooring.problem.problem import Problem


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
    """Feasible share of the ideal set within lower <= x <= upper, by the radius along each direction."""
    feasible = FeasibleSet.of(model, site_of_fragment)
    if feasible.is_empty:
        return 0.0
    directions = Directions.draw(len(model.active), points, seed).values
    scale = model.totals[model.active] / model.capacity_left_cores
    room = 1.0 - feasible.lower.sum()
    top = (upper[model.active] * scale - feasible.lower) / room
    ends = np.minimum((np.maximum(top, 1e-9)[:, None] / np.maximum(directions, 1e-300)).min(axis=0), 1.0)
    reach = 1.0 / np.maximum((feasible.weights_above_lower() @ directions).max(axis=0), 1e-300)
    power = len(model.active)
    return float((np.minimum(reach, ends) ** power).sum() / (ends**power).sum())


def upper_bounds(problem: Problem, model: LoadModel) -> Floats:
    """Of the variables, infinite where there is none; introduced ones by the rates they follow from."""
    rates = np.array([np.inf if s.max_rate is None else s.max_rate for s in problem.streams])
    finite = np.where(np.isfinite(rates), rates, 1e300)
    with np.errstate(over="ignore", invalid="ignore"):
        values = model.variable_values(finite)
    return np.where(np.isfinite(values) & (values < 1e200), values, np.inf)
