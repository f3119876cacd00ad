"""Largest load first: balance the load of one rate point (ROD paper, section 7.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mooring.arrays import Floats, Ints
from mooring.contracts.policy import Context
from mooring.model.evaluation.explanation import Subject
from mooring.model.load.model import LoadModel
from mooring.model.placement.placement import Placement
from mooring.model.placement.site_limits import SiteLimits, first_that_fits, no_room
from mooring.model.problem.problem import Problem


def fragment_loads(model: LoadModel, values: Floats) -> Floats:
    """Load of every fragment in cores where the variables have these values, fixed load included."""
    return np.asarray(model.coefficients @ values + model.fixed_cores)


def least_loaded_assign(model: LoadModel, values: Floats, problem: Problem | None = None) -> Ints:
    """Fragments by descending load, each to the site that is least loaded for its capacity."""
    loads = fragment_loads(model, values)

    def attempt(order: Ints) -> Ints:
        limits = SiteLimits(model)
        relative_load = np.zeros(model.site_count)
        sites = np.empty(model.fragment_count, np.int64)
        for j in order:
            allowed = limits.allowed(j)
            if not allowed.any():
                raise no_room(model, j, limits.capacity_left_cores, limits.memory_left_mb, problem)
            chosen = int(np.argmin(np.where(allowed, relative_load, np.inf)))
            sites[j] = chosen
            relative_load[chosen] += loads[j] / model.capacity_cores[chosen]
            limits.take(j, chosen)
        return sites

    return first_that_fits(model, np.argsort(-loads, kind="stable"), attempt)


@dataclass(frozen=True)
class LargestLoadFirst:
    """Policy `llf`: balances the load at the present rates."""

    name: ClassVar[str] = "llf"
    as_published: ClassVar[bool] = True
    about: ClassVar[Subject] = "resilience"

    def unsupported(self, problem: Problem) -> str | None:
        return None

    def place(self, problem: Problem, context: Context) -> Placement:
        sites = least_loaded_assign(context.load, context.load.present, problem)
        return Placement(problem, sites)
