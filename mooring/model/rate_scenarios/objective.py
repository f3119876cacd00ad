"""The objective of a search: scenarios to search by, and a judge that no search has seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mooring.arrays import Ints
from mooring.model.load.feasible.sparse_feasible_set import feasible_set_of
from mooring.model.load.model import LoadModel
from mooring.model.rate_scenarios.scenarios import Scenarios, volume_scenarios


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
        return feasible_set_of(self.model, site_of_fragment).comparable_ratio()
