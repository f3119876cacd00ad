"""The true feasible set of graphs with joins, in the space of what varies by itself.

Linearisation (section 6.2) gives the pairs of joins rates of their own, as if they could move freely. Here
they are what the streams make them, while the outputs of operators whose selectivity varies do vary: the set
of stream rates and such outputs, above the minimum rates, at which no site is overloaded, relative to those
at which the total load fits the total capacity. Both are star-shaped around the minimum rates (loads only
rise with rates), so both are measured along the same directions, by how far each reaches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mooring.arrays import Floats, Ints
from mooring.errors import InfeasibleError, UnsupportedError
from mooring.model.load.feasible.boundary import largest_multiples
from mooring.model.load.feasible.directions import BLOCKS, Directions
from mooring.model.load.feasible.estimate import Estimate
from mooring.model.load.model import LoadModel


def true_ratio(
    model: LoadModel, site_of_fragment: npt.ArrayLike, points: int = 2**14, seed: int = 0
) -> Estimate:
    """The size of the true feasible set, relative to where the total load fits the total capacity left."""
    sites = np.asarray(site_of_fragment, dtype=np.int64)
    placed = _Limits(model, model.site_coefficients(sites), model.site_capacity_left(sites))
    ideal = _Limits(model, model.totals[None, :], np.array([model.capacity_left_cores]))
    start = model.lower[model.independent]
    if not ideal.fits(start):
        raise InfeasibleError(
            "the minimum rates and the fixed load need more than all capacity, so no placement is feasible",
            remedy="lower min_rate or fixed_cores, or add capacity",
        )
    if not placed.fits(start):
        return Estimate(0.0)
    axes = loading_axes(model)
    if not len(axes):
        return Estimate(1.0)
    steps = _axis_reaches(model, ideal, start, axes)
    if len(axes) == 1:
        return Estimate(min(1.0, float(placed.reaches(start, steps)[0])))
    directions = Directions.draw(len(axes), points, seed)
    parts = np.array(
        [
            _mean_powers(block, steps, start, (placed, ideal))
            for block in np.split(directions.values, BLOCKS, axis=1)
        ]
    )
    return _ratio_of_means(parts[:, 0], parts[:, 1])


def loading_streams(model: LoadModel) -> Ints:
    """Streams that some load depends on, directly or through introduced variables."""
    sources: list[set[int]] = [{k} for k in range(model.stream_count)]
    sources += [set() for _ in model.definitions]
    for definition in model.definitions:
        forms = (definition.left, definition.right or {})
        for k in {k for form in forms for k, coefficient in form.items() if coefficient > 0.0}:
            if definition.factor > 0.0:
                sources[definition.variable] |= sources[k]
    return np.array(sorted(set().union(*(sources[k] for k in model.active))), dtype=np.int64)


def loading_axes(model: LoadModel) -> Ints:
    """Places in `model.independent` of the variables that some load depends on, directly or through pairs."""
    sources: list[set[int]] = [{k} for k in range(len(model.variables))]
    for definition in model.definitions:
        if definition.right is not None and definition.factor > 0.0:
            forms = (definition.left, definition.right)
            sources[definition.variable] = set().union(
                *(sources[k] for form in forms for k, coefficient in form.items() if coefficient > 0.0)
            )
        elif definition.right is not None:
            sources[definition.variable] = set()
    return np.flatnonzero(np.isin(model.independent, list(set().union(*(sources[k] for k in model.active)))))


@dataclass(frozen=True, eq=False)
class _Limits:
    """Capacities, and what loads them per unit of each variable."""

    model: LoadModel
    coefficients: Floats  # (limits, D)
    capacity_cores: Floats  # (limits,)

    def fits(self, rates: Floats) -> bool:
        loads = self.coefficients @ self.model.resolved(rates)
        return bool((loads <= self.capacity_cores).all())

    def reaches(self, start: Floats, steps: Floats) -> Floats:
        """Per row of `steps`, how many of them lead from `start` to the boundary."""

        def loads_at(t: Floats) -> Floats:
            values = self.model.resolved(start + t[:, None] * steps)
            return np.asarray(values @ self.coefficients.T)

        return largest_multiples(loads_at, len(steps), self.capacity_cores, linear=not self.model.bends)


def _axis_reaches(model: LoadModel, ideal: _Limits, start: Floats, own: Ints) -> Floats:
    """Rows of length d: from `start` along each axis to where the total load fills the capacity."""
    axes = np.zeros((len(own), len(model.independent)))
    axes[np.arange(len(own)), own] = 1.0
    reaches = ideal.reaches(start, axes)
    unbounded = [model.variables[k].name for k in model.independent[own[np.isinf(reaches)]]]
    if unbounded:
        raise UnsupportedError(
            f"the true feasible set is unbounded: at the minimum rates, {', '.join(unbounded)} loads nothing",
            remedy="give the streams it is joined with a min_rate above zero",
        )
    return axes * reaches[:, None]


def _mean_powers(
    directions: Floats, steps: Floats, start: Floats, limits: tuple[_Limits, ...]
) -> list[float]:
    """Means over the directions of reach ** variables, in proportion to volume, for each of the limits."""
    rays = directions.T @ steps
    return [float(np.mean(limit.reaches(start, rays) ** len(steps))) for limit in limits]


def _ratio_of_means(placed: Floats, ideal: Floats) -> Estimate:
    """The ratio of two means over the same blocks, and its error to first order."""
    ratio = placed.mean() / ideal.mean()
    residuals = (placed - ratio * ideal) / ideal.mean()
    error = residuals.std(ddof=1) / np.sqrt(len(residuals))
    return Estimate(min(1.0, float(ratio)), float(error), len(residuals) - 1)
