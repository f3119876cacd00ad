"""What a search maximises: scenarios to search by, and a judge that no search has seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mooring.load.directions import Directions
from mooring.load.feasible_set import DEFAULT_POINTS, FeasibleSet
from mooring.load.model import Floats, Ints, LoadModel
from mooring.placement.scenarios import Scenarios, volume_scenarios


class Objective(Protocol):
    def scenarios(self, count: int, rng: np.random.Generator) -> Scenarios:
        """About so many scenarios, drawn afresh."""
        ...

    def judge(self, site_of_fragment: Ints) -> float:
        """The value of a plan, finer than a search could afford, on scenarios of its own."""
        ...


@dataclass(frozen=True, eq=False)
class Volume:
    """The feasible ratio: the feasible set relative to the ideal one, above the lower bounds."""

    model: LoadModel

    def scenarios(self, count: int, rng: np.random.Generator) -> Scenarios:
        return volume_scenarios(self.model, count, rng)

    def judge(self, site_of_fragment: Ints) -> float:
        return FeasibleSet.of(self.model, site_of_fragment).ratio(DEFAULT_POINTS).value


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
