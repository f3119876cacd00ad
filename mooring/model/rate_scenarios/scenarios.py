"""Scenarios: what a search judges plans by.

Each scenario is a way for rates to grow: along it, every fragment (and every arc, if crossings cost
anything) loads its site with a polynomial in the level t, and level 1 is where the scenario ends: no plan
can, or needs to, go beyond. A plan reaches the level at which its first site saturates; its value is the
weighted mean of level^exponent. What the scenarios are decides what is optimised: directions of the simplex
give the volume of the feasible set (here), draws of uncertain statistics a robust one, rays in rate space
the true set behind joins, past rates the share of them survived.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, vstack

from mooring.arrays import Floats, Ints, Singles
from mooring.model.load.feasible.directions import MANY_VARIABLES
from mooring.model.load.feasible.sobol import sobol_net
from mooring.model.load.model import LoadModel
from mooring.model.rate_scenarios import level_kernels

_LEAST_JUDGES, _MOST_JUDGES = 256, 4096
_MOST_CELLS = 32_000_000
"""Rows x scenarios that are kept for judging."""


@dataclass(frozen=True, eq=False)
class Scenarios:
    rows: Singles
    """(fragments + charged arcs) x powers of t x scenarios: load, as a part of the capacity left."""
    base: Floats
    """Per row, load at level zero (fixed load and load at the lower bounds), likewise."""
    capacity: Floats
    """Per site, the part of the capacity left that it has (fixed load not taken off)."""
    weights: Singles
    """Per scenario; they add up to one."""
    exponent: int

    @property
    def count(self) -> int:
        return int(self.rows.shape[2])


@dataclass(frozen=True, eq=False)
class ArcIndex:
    """The arcs of a model by fragment, for the kernels; empty where crossings cost nothing."""

    start: Ints
    of: Ints
    ends: Ints

    @classmethod
    def build(cls, model: LoadModel) -> ArcIndex:
        fragments = model.fragment_count
        if not crossings_cost(model):
            empty = np.empty(0, dtype=np.int64)
            return cls(np.zeros(fragments + 1, dtype=np.int64), empty, np.empty((0, 4), dtype=np.int64))
        arcs = model.arcs
        ends = np.stack([arcs.source_fragment, arcs.source_site, arcs.target_fragment, arcs.target_site], 1)
        numbers = np.arange(len(ends))
        owner = np.concatenate([arcs.source_fragment, arcs.target_fragment])
        arc = np.concatenate([numbers, numbers])[owner >= 0]
        owner = owner[owner >= 0]
        order = np.argsort(owner, kind="stable")
        start = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=fragments))])
        return cls(start.astype(np.int64), arc[order], np.ascontiguousarray(ends))


def judge_count(rows: int) -> int:
    """Scenarios of so many rows that a placement is judged by: as many as memory allows, within bounds."""
    return max(_LEAST_JUDGES, min(_MOST_JUDGES, _MOST_CELLS // max(rows, 1)))


def scenario_value(model: LoadModel, scenarios: Scenarios, site_of_fragment: Ints) -> float:
    """The value of a plan on its scenarios; 0 where a site is overloaded at level zero."""
    return float(
        level_kernels.plan_value(
            scenarios.rows,
            scenarios.base,
            scenarios.weights,
            scenarios.exponent,
            np.float32(1.0),
            scenarios.capacity,
            ArcIndex.build(model).ends,
            np.asarray(site_of_fragment, dtype=np.int64),
        )
    )


def simplex_directions(variables: int, count: int, rng: np.random.Generator) -> Floats:
    """Count x variables, uniform on the unit simplex, low-discrepancy where that helps."""
    if variables <= MANY_VARIABLES:
        uniform = sobol_net(variables, 2 ** int(np.ceil(np.log2(count))), rng)[:count]
        spread = -np.log1p(-np.clip(uniform, 0.0, 1.0 - 1e-12))
    else:
        spread = rng.exponential(size=(count, variables))
    spread = np.maximum(spread, 1e-12)
    return np.asarray(spread / spread.sum(axis=1, keepdims=True))


def charged_rows(model: LoadModel) -> csr_array:
    """Cores per unit of every variable: of each fragment, then of one end of each arc if crossings cost."""
    if not crossings_cost(model):
        return model.coefficients
    return csr_array(vstack([model.coefficients, model.arcs.rates * (model.arcs.comm_us / 1e6)]))


def crossings_cost(model: LoadModel) -> bool:
    return model.arcs.comm_us > 0.0 and len(model.arcs.source_site) > 0


def base_of_rows(model: LoadModel, cores: csr_array, lower: Floats) -> Floats:
    """Load of every row at level zero, where the variables have these values, as a part of the capacity
    left."""
    at_lower = np.asarray(cores @ lower)
    at_lower[: model.fragment_count] += model.fixed_cores
    return np.asarray(at_lower / model.capacity_left_cores)


def volume_scenarios(
    model: LoadModel, count: int, rng: np.random.Generator, upper: Floats | None = None
) -> Scenarios:
    """Directions of the simplex above the lower bounds: the value is the feasible ratio.

    With upper bounds on the variables the set is cut there: a direction ends where the ideal set or the box
    does, and counts by how much of the set lies along it. The value is then the share of the ideal set
    within the box that is feasible.
    """
    active = model.active
    directions = simplex_directions(len(active), count, rng)
    lower = model.lower[active] * model.totals[active] / model.capacity_left_cores
    room = 1.0 - float(lower.sum())
    exponent = min(len(active), MANY_VARIABLES)
    steps = room * directions
    weights = np.full(count, 1.0 / count)
    if upper is not None:
        top = np.where(np.isfinite(upper[active]), upper[active], np.inf)
        top = top * model.totals[active] / model.capacity_left_cores - lower
        ends = np.minimum((np.maximum(top, 1e-9) / np.maximum(steps, 1e-300)).min(axis=1), 1.0)
        steps = steps * ends[:, None]
        weights = ends**exponent
        weights /= weights.sum()
    cores = charged_rows(model)
    parts = csr_array(cores[:, active] * (1.0 / model.totals[active]))
    rows = np.asarray(parts @ steps.T, dtype=np.float32)
    return Scenarios(
        rows=np.ascontiguousarray(rows[:, None, :]),
        base=base_of_rows(model, cores, model.lower),
        capacity=model.capacity_cores / model.capacity_left_cores,
        weights=weights.astype(np.float32),
        exponent=exponent,
    )
