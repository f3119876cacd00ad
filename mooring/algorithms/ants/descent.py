"""Minimises the mean latency of all queries, queues included, by coordinate descent with global knowledge:
each fragment in turn moves to its best site.

The centralised peer that the ants paper compares with. From a random start it ends in a poor place; from a
good one (each chain on its quickest way, given the chains before) it is what decentralised policies are
measured against.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from mooring.algorithms.ants.latency_search import LatencySearch
from mooring.algorithms.baselines.random_placement import random_assign
from mooring.arrays import Ints
from mooring.contracts.policy import Context
from mooring.errors import InputError
from mooring.model.evaluation.explanation import Subject
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem


def why_not_by_latency(problem: Problem) -> str | None:
    """Why a problem cannot be placed by its queries' latency; None if it can."""
    if not problem.queries:
        return "it has no queries, whose latency this policy minimises"
    if problem.network.latency_ms is None and len(problem.sites) > 1:
        return "it states no latency_ms between its sites"
    return None


@dataclass(frozen=True)
class Descent:
    """Policy `descent`."""

    name: ClassVar[str] = "descent"
    about: ClassVar[Subject] = "latency"

    start: Literal["good", "random"] = "good"
    """Each chain on its quickest way given those before, or every site equally likely. From a running
    placement it starts there."""
    passes: int = 50
    """Times that all fragments are gone through at most; it ends earlier when nothing changes."""

    def __post_init__(self) -> None:
        if self.passes < 0:
            raise InputError(f"found {self.passes}, expected 0 or more", field="descent.passes")

    def unsupported(self, problem: Problem) -> str | None:
        return why_not_by_latency(problem)

    def place(self, problem: Problem, context: Context) -> Placement:
        search = LatencySearch.of(problem, context.load)
        if context.current is not None:
            at = np.where(
                context.load.pinned_site >= 0, context.load.pinned_site, context.current.site_of_fragment
            )
            found = self._descend(search, at, context, context.max_moves)
            return Placement(problem, found)
        good = search.shortest_ways(deadline=context.deadline) if self.start == "good" else None
        if good is None:
            good = random_assign(context.load, context.rng, balanced=False, problem=problem)
        return Placement(problem, self._descend(search, good, context, None))

    def _descend(self, search: LatencySearch, at: Ints, context: Context, most_moves: int | None) -> Ints:
        found, _ = search.descend(
            at,
            passes=self.passes,
            most_moves=most_moves,
            deadline=context.deadline,
            progress=context.progress,
        )
        return found
