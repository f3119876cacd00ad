"""Balance the load while keeping connected operators together (ROD paper, section 7.2).

A site is filled along the arcs: it gets the heaviest fragment that is left, then fragments connected to what
it holds, as long as its load stays below its share of the total load ("the average load" read as total load
over nodes; in proportion to capacity where sites differ). Then the least loaded site is next.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mooring.algorithms.baselines.llf import fragment_loads
from mooring.arrays import Floats, Ints
from mooring.contracts.policy import Context
from mooring.model.evaluation.explanation import Subject
from mooring.model.load.model import LoadModel
from mooring.model.placement.placement import Placement
from mooring.model.placement.site_limits import SiteLimits, first_that_fits, no_room
from mooring.model.problem.problem import Problem


def connected_assign(model: LoadModel, values: Floats, problem: Problem | None = None) -> Ints:
    loads = fragment_loads(model, values)
    neighbours = fragment_neighbours(model)

    def attempt(order: Ints) -> Ints:
        return _Filling(model, loads, neighbours, problem).run(order)

    return first_that_fits(model, np.argsort(-loads, kind="stable"), attempt)


def fragment_neighbours(model: LoadModel) -> list[list[int]]:
    """Per fragment: the fragments it shares an arc with."""
    result: list[list[int]] = [[] for _ in range(model.fragment_count)]
    for a, b in zip(model.arcs.source_fragment.tolist(), model.arcs.target_fragment.tolist(), strict=True):
        if a >= 0 and b >= 0:
            result[a].append(b)
            result[b].append(a)
    return result


class _Filling:
    def __init__(
        self, model: LoadModel, loads: Floats, neighbours: list[list[int]], problem: Problem | None
    ) -> None:
        self._model, self._loads, self._neighbours, self._problem = model, loads, neighbours, problem
        self._limits = SiteLimits(model)
        self._average = float(loads.sum() / model.capacity_cores.sum())
        self._relative_load = np.zeros(model.site_count)
        self._sites = np.full(model.fragment_count, -1, np.int64)

    def run(self, order: Ints) -> Ints:
        """Step 1 for every fragment that is still left, in order; step 2 after each."""
        for j in order.tolist():
            if self._sites[j] >= 0:
                continue
            allowed = self._limits.allowed(j)
            if not allowed.any():
                limits = self._limits
                raise no_room(
                    self._model, j, limits.capacity_left_cores, limits.memory_left_mb, self._problem
                )
            site = int(np.argmin(np.where(allowed, self._relative_load, np.inf)))
            self._put(j, site)
            if self._model.pinned_site[j] < 0:
                self._follow_arcs(site)
        return self._sites

    def _put(self, j: int, site: int) -> None:
        self._sites[j] = site
        self._relative_load[site] += self._loads[j] / self._model.capacity_cores[site]
        self._limits.take(j, site)

    def _follow_arcs(self, site: int) -> None:
        """Step 2: the heaviest connected fragment that fits, again and again."""
        reachable = [
            (-self._loads[other], other)
            for j in np.flatnonzero(self._sites == site).tolist()
            for other in self._neighbours[j]
        ]
        heapq.heapify(reachable)
        while reachable:
            _, j = heapq.heappop(reachable)
            after = self._relative_load[site] + self._loads[j] / self._model.capacity_cores[site]
            if self._sites[j] >= 0 or after >= self._average or not self._limits.allowed(j)[site]:
                continue
            self._put(j, site)
            for other in self._neighbours[j]:
                heapq.heappush(reachable, (-self._loads[other], other))


@dataclass(frozen=True)
class Connected:
    """Policy `connected`."""

    name: ClassVar[str] = "connected"
    as_published: ClassVar[bool] = True
    about: ClassVar[Subject] = "resilience"

    def unsupported(self, problem: Problem) -> str | None:
        return None

    def place(self, problem: Problem, context: Context) -> Placement:
        sites = connected_assign(context.load, context.load.present, problem)
        return Placement(problem, sites)
