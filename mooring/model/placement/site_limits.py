"""Limits of sites: memory, and capacity for the load at rate zero.

Rates may fall, so the load per tuple never forbids a placement; fixed load and memory do. Every policy keeps
to these limits while it places, and says who lacked what when nothing is left.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mooring.arrays import Bools, Floats, Ints
from mooring.errors import InfeasibleError
from mooring.model.load.model import LoadModel
from mooring.model.problem.problem import Problem
from mooring.quantity import decimal

SLACK = 1e-9
"""Relative to a site's capacity: rounding in sums of up to a million parts must not forbid an exact fit."""


class SiteLimits:
    """Capacity and memory left on every site while fragments are placed one by one."""

    def __init__(self, model: LoadModel) -> None:
        self._model = model
        self.capacity_left_cores = model.capacity_cores.astype(np.float64)
        self.memory_left_mb = model.memory_limit_mb.astype(np.float64)
        self._slack_cores = SLACK * model.capacity_cores

    def allowed(self, fragment: int) -> Bools:
        """Which sites can still take this fragment; a pinned fragment only its own."""
        fits = self.capacity_left_cores - self._model.fixed_cores[fragment] >= -self._slack_cores
        fits &= self.memory_left_mb >= self._model.memory_mb[fragment] * (1.0 - SLACK)
        pin = int(self._model.pinned_site[fragment])
        if pin >= 0:
            fits &= np.arange(len(fits)) == pin
        return np.asarray(fits)

    def take(self, fragment: int, site: int) -> None:
        self.capacity_left_cores[site] -= self._model.fixed_cores[fragment]
        self.memory_left_mb[site] -= self._model.memory_mb[fragment]


def without_room(model: LoadModel, problem: Problem) -> list[InfeasibleError]:
    """What no placement can satisfy: pinned fragments that their sites cannot take together, and fragments
    that fit nowhere once these are placed.
    """
    limits, found = SiteLimits(model), list[InfeasibleError]()
    pinned = model.pinned_site >= 0

    def error(fragment: int) -> InfeasibleError:
        return no_room(model, fragment, limits.capacity_left_cores, limits.memory_left_mb, problem)

    for fragment in np.flatnonzero(pinned).tolist():
        if limits.allowed(fragment).any():
            limits.take(fragment, int(model.pinned_site[fragment]))
        else:
            found.append(error(fragment))
    most_cores = limits.capacity_left_cores.max() + SLACK * model.capacity_cores.max()
    too_large = (model.fixed_cores > most_cores) | (
        model.memory_mb * (1.0 - SLACK) > limits.memory_left_mb.max()
    )
    return found + [error(fragment) for fragment in np.flatnonzero(too_large & ~pinned).tolist()]


def pinned_first(model: LoadModel, order: Ints) -> Ints:
    """The same order with pinned fragments in front: they have no choice, the others can go around them."""
    pinned = model.pinned_site[order] >= 0
    return np.concatenate([order[pinned], order[~pinned]])


def first_that_fits(model: LoadModel, preferred: Ints, attempt: Callable[[Ints], Ints]) -> Ints:
    """Place in the preferred order; where that paints itself into a corner, hardest to fit first.

    A policy's own order looks at load per tuple, which says nothing about memory and fixed load. Only when
    these run out is its order given up, for the usual one of bin packing.
    """
    try:
        return attempt(pinned_first(model, preferred))
    except InfeasibleError as first_error:
        demand = np.maximum(
            model.fixed_cores / max(float(model.capacity_cores.max()), 1e-300),
            model.memory_mb / max(float(model.memory_limit_mb.max()), 1e-300),
        )
        hardest = preferred[np.argsort(-demand[preferred], kind="stable")]
        try:
            return attempt(pinned_first(model, hardest))
        except InfeasibleError:
            raise first_error from None


def no_room(
    model: LoadModel,
    fragment: int,
    capacity_left_cores: Floats,
    memory_left_mb: Floats,
    problem: Problem | None = None,
) -> InfeasibleError:
    """The error for a fragment that no site can take: what it needs, and what the sites have left."""
    fragment_name = f"number {fragment}" if problem is None else repr(problem.fragment_names[fragment])
    pin = int(model.pinned_site[fragment])
    if pin < 0:
        where, most = "no site has more than", (capacity_left_cores.max(), memory_left_mb.max())
    else:
        site = f"site number {pin}" if problem is None else f"site {problem.sites[pin].name!r}"
        where, most = f"{site}, where it is pinned, has", (capacity_left_cores[pin], memory_left_mb[pin])
    needs = f"{decimal(model.fixed_cores[fragment], 4)} cores at rate zero"
    left = f"{decimal(max(float(most[0]), 0.0), 4)} cores"
    if model.memory_mb[fragment] > 0.0:
        needs += f" and {decimal(model.memory_mb[fragment], 4)} MB"
        left += f" and {decimal(max(float(most[1]), 0.0), 4)} MB"
    return InfeasibleError(
        f"fragment {fragment_name} needs {needs}; with the others placed, {where} {left} left",
        remedy="add capacity or memory, unpin an operator, or merge fragments",
    )
