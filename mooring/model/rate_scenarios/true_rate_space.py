"""Plans for the true feasible set of graphs with joins, in the space of what varies by itself.

The linearised model lets the pairs of a join vary on their own; here they are what the streams make of
them. Outputs whose selectivity varies keep an axis of their own. Along a ray from the minimum rates every
variable is a polynomial in the level: a stream's rate is linear, the pairs of a join are the product of its
sides. So the loads stay arrays of coefficients, and the search solves for the level at which a site
saturates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mooring.arrays import Floats, Ints
from mooring.model.load.feasible.directions import MANY_VARIABLES
from mooring.model.load.feasible.true_feasible_set import loading_axes
from mooring.model.load.model import LoadModel, SparseVector
from mooring.model.rate_scenarios.scenarios import (
    Scenarios,
    base_of_rows,
    charged_rows,
    judge_count,
    scenario_value,
    simplex_directions,
)

MOST_POWERS = 8
"""Joins of joins of joins: beyond this degree the linearised set is optimised instead."""
BISECTIONS = 60


@dataclass(frozen=True, eq=False)
class TrueVolume:
    """The true feasible ratio, relative to the rates at which the total load fits the total capacity."""

    model: LoadModel

    @staticmethod
    def supports(model: LoadModel) -> bool:
        """Whether there is a true set to speak of: not linear, of moderate degree, and bounded."""
        if not model.bends or degree(model) > MOST_POWERS:
            return False
        own = loading_axes(model)
        axes = np.zeros((len(own), len(model.independent)))
        axes[np.arange(len(own)), own] = 1.0
        totals = np.tensordot(model.totals, ray_polynomials(model, axes), axes=1)
        return bool(np.all(totals[:, 1:].sum(axis=1) > 0.0))

    def scenarios(self, count: int, rng: np.random.Generator) -> Scenarios:
        model = self.model
        own = loading_axes(model)
        axes = np.zeros((len(own), len(model.independent)))
        axes[np.arange(len(own)), own] = 1.0
        axes *= self._ends(axes)[:, None]
        rays = simplex_directions(len(own), count, rng) @ axes
        ends = self._ends(rays)
        polynomials = ray_polynomials(model, rays * ends[:, None])
        cores = charged_rows(model)
        powers = polynomials.shape[2] - 1
        rows = np.empty((cores.shape[0], powers, count), dtype=np.float32)
        for p in range(powers):
            rows[:, p, :] = cores @ polynomials[:, :, p + 1] / model.capacity_left_cores
        exponent = min(len(own), MANY_VARIABLES)
        weights = ends**exponent
        return Scenarios(
            rows=rows,
            base=base_of_rows(model, cores, model.resolved(model.lower[model.independent])),
            capacity=model.capacity_cores / model.capacity_left_cores,
            weights=(weights / (weights.sum() or 1.0)).astype(np.float32),
            exponent=exponent,
        )

    def judge(self, site_of_fragment: Ints) -> float:
        return scenario_value(self.model, self._judges, site_of_fragment)

    @cached_property
    def _judges(self) -> Scenarios:
        count = judge_count(self.model.fragment_count * degree(self.model))
        return self.scenarios(count, np.random.default_rng(0))

    def _ends(self, rays: Floats) -> Floats:
        """How many times each ray leads to where the total load fills the total capacity."""
        totals = np.tensordot(self.model.totals, ray_polynomials(self.model, rays), axes=1)
        # Where the least rates alone need more than there is, every ray ends where it begins.
        room = np.maximum(self.model.capacity_left_cores - totals[:, 0], 0.0)
        rising = totals[:, 1:]

        def load(t: Floats) -> Floats:
            return np.asarray(sum(rising[:, p] * t ** (p + 1) for p in range(rising.shape[1])))

        # Each power alone overfills at its own root, and half of the least of those cannot.
        with np.errstate(divide="ignore", invalid="ignore"):
            alone = np.where(rising > 0.0, room[:, None] / rising, np.inf)
        roots = [alone[:, p] ** (1.0 / (p + 1)) for p in range(rising.shape[1])]
        high = np.min(roots, axis=0)
        high = np.where(np.isfinite(high), high, 0.0)  # a ray of no length
        low = np.zeros_like(high)
        for _ in range(BISECTIONS):
            middle = (low + high) / 2.0
            fits = load(middle) <= room
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
        return np.asarray(low)


def degree(model: LoadModel) -> int:
    """The highest power of the level that any load has."""
    degrees = [1] * len(model.variables)
    for definition in model.definitions:
        if definition.right is None:  # an output that varies by itself
            continue
        left = max((degrees[k] for k in definition.left), default=0)
        right = max((degrees[k] for k in definition.right), default=0)
        degrees[definition.variable] = left + right
    return max((degrees[k] for k in model.active), default=1)


def ray_polynomials(model: LoadModel, rays: Floats) -> Floats:
    """Variables x rays x (degree + 1): each variable along minimum rates + t x ray, as powers of t."""
    result = np.zeros((len(model.variables), len(rays), max(degree(model), 1) + 1))
    result[model.independent, :, 0] = model.lower[model.independent, None]
    result[model.independent, :, 1] = rays.T

    def form(vector: SparseVector) -> Floats:
        total = np.zeros(result.shape[1:])
        for k, coefficient in vector.items():
            total += coefficient * result[k]
        return total

    for definition in model.definitions:
        if definition.right is not None:
            value = definition.factor * form(definition.left)
            result[definition.variable] = _product(value, form(definition.right))
    return result


def _product(left: Floats, right: Floats) -> Floats:
    """Of polynomials in the last axis; powers beyond its length have no coefficient by construction."""
    result = np.zeros_like(left)
    for p in range(left.shape[-1]):
        for q in range(left.shape[-1] - p):
            result[..., p + q] += left[..., p] * right[..., q]
    return result
