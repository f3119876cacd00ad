"""Plans for known rate distributions: survive as many of the past rate vectors as possible.

The paper leaves open how to use more than lower bounds (section 9). A sample of past rates is the most
direct form of such knowledge: every sample is a scenario whose level 1 is the sample itself, so a plan
survives it when it reaches level 1. Near misses count a little, which gives the search a slope to climb.
Where all samples survive, the volume decides, so that the plan is not tuned to the past alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mooring.arrays import Floats, Ints
from mooring.model.load.feasible.sparse_feasible_set import feasible_set_of
from mooring.model.load.model import LoadModel
from mooring.model.rate_scenarios.scenarios import Scenarios, charged_rows, volume_scenarios

STEEPNESS = 16
"""Exponent of a near miss: 5% short of a sample counts as less than half of it."""
VOLUME_WEIGHT = 0.02
VOLUME_SCENARIOS = 256


@dataclass(frozen=True, eq=False)
class SurvivedSamples:
    """The share of rate samples at which no site is overloaded."""

    model: LoadModel
    rates: Floats
    """Samples x streams."""

    def scenarios(self, count: int, rng: np.random.Generator) -> Scenarios:
        model = self.model
        loads = self._loads()
        total = loads[: model.fragment_count].sum(axis=0)
        possible = np.flatnonzero(total <= 1.0)
        hardest = possible[np.argsort(-total[possible], kind="stable")[: max(count - VOLUME_SCENARIOS, 1)]]
        volume = volume_scenarios(model, VOLUME_SCENARIOS, rng)
        samples = loads[:, hardest].astype(np.float32)
        weights = np.concatenate(
            [
                np.full(len(hardest), (1.0 - VOLUME_WEIGHT) / max(len(hardest), 1)),
                np.full(VOLUME_SCENARIOS, VOLUME_WEIGHT / VOLUME_SCENARIOS),
            ]
        )
        fixed = np.zeros(len(samples))
        fixed[: model.fragment_count] = model.fixed_cores / model.capacity_left_cores
        return Scenarios(
            rows=np.ascontiguousarray(np.concatenate([samples[:, None, :], volume.rows], axis=2)),
            base=fixed,
            capacity=volume.capacity,
            weights=weights.astype(np.float32),
            exponent=STEEPNESS,
        )

    def judge(self, site_of_fragment: Ints) -> float:
        return self.survived(site_of_fragment) + VOLUME_WEIGHT * (
            feasible_set_of(self.model, site_of_fragment).comparable_ratio()
        )

    def survived(self, site_of_fragment: Ints) -> float:
        loads = self.model.site_loads(site_of_fragment, self.rates)
        return float(np.mean(np.all(loads <= self.model.capacity_cores * (1.0 + 1e-12), axis=-1)))

    def _loads(self) -> Floats:
        """Rows x samples, as parts of the capacity left."""
        values = self.model.variable_values(self.rates)
        return np.asarray(charged_rows(self.model) @ values.T / self.model.capacity_left_cores)
