"""Random placement, the baseline that any policy has to beat (ROD paper, section 7.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mooring.arrays import Ints
from mooring.contracts.policy import Context
from mooring.model.evaluation.explanation import Subject
from mooring.model.load.model import LoadModel
from mooring.model.placement.placement import Placement
from mooring.model.placement.site_limits import SiteLimits, first_that_fits, no_room
from mooring.model.problem.problem import Problem


def random_assign(
    model: LoadModel, rng: np.random.Generator, balanced: bool = True, problem: Problem | None = None
) -> Ints:
    """Every fragment, in random order, on a random site among those allowed.

    Balanced: only among the sites that hold the fewest fragments so far.
    """

    def attempt(order: Ints) -> Ints:
        limits = SiteLimits(model)
        held = np.zeros(model.site_count, np.int64)
        sites = np.empty(model.fragment_count, np.int64)
        for j in order:
            candidates = np.flatnonzero(limits.allowed(j))
            if not len(candidates):
                raise no_room(model, j, limits.capacity_left_cores, limits.memory_left_mb, problem)
            if balanced:
                counts = held[candidates]
                candidates = candidates[counts == counts.min()]
            chosen = int(candidates[rng.integers(len(candidates))])
            sites[j] = chosen
            held[chosen] += 1
            limits.take(j, chosen)
        return sites

    return first_that_fits(model, rng.permutation(model.fragment_count), attempt)


@dataclass(frozen=True)
class Random:
    """Policy `random`."""

    name: ClassVar[str] = "random"
    as_published: ClassVar[bool] = True
    about: ClassVar[Subject] = "resilience"

    balanced: bool = True
    """Equal numbers of fragments on all sites, as in the paper; false: every site equally likely."""

    def unsupported(self, problem: Problem) -> str | None:
        return None

    def place(self, problem: Problem, context: Context) -> Placement:
        sites = random_assign(context.load, context.rng, self.balanced, problem)
        return Placement(problem, sites)
