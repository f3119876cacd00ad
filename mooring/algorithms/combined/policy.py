"""Policy `combined`: the plan of least cost by all preferences together, under hard goals.

It starts from the best plan of the others that fit the problem, and anneals on the weighted costs themselves:
feasible set, flows, queues, moves, prices. The finalists are judged by the metrics that are reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from mooring.algorithms.ants.descent import Descent, why_not_by_latency
from mooring.algorithms.baselines.llf import LargestLoadFirst
from mooring.algorithms.combined.search import WeightedSearch
from mooring.algorithms.relaxation.policy import Relaxation
from mooring.algorithms.resilient.policy import Resilient
from mooring.algorithms.rod.policy import Rod
from mooring.arrays import Ints
from mooring.contracts.policy import Context, Policy
from mooring.errors import InfeasibleError, MooringError
from mooring.model.evaluation.explanation import Subject
from mooring.model.evaluation.value import Preferences
from mooring.model.goals.mending import mended
from mooring.model.placement.checker import violations
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem
from mooring.progress import silent

STRETCHES = 4
"""Coolings, each from the best so far."""
TIMED_STEPS = 2_000
"""Of the first stretch against a clock, which says how many steps fit."""
MOST_RELAXED = 3_000
"""Fragments x sites, in thousands, up to which plans by springs and by descent are among the starts."""


@dataclass(frozen=True)
class Combined:
    """Policy `combined`. Anytime: a budget in seconds, or steps for results that repeat exactly."""

    name: ClassVar[str] = "combined"
    about: ClassVar[Subject] = "resilience"

    default_steps: int = 200_000
    """Steps (candidates looked at) where neither a budget nor steps are given."""
    scenarios: int = 512
    """Directions in rate space that the feasible set is searched along, up to ten variables."""
    reserve: float = 0.03
    """The share of every site that is left free at the present rates, where that is possible."""

    def unsupported(self, problem: Problem) -> str | None:
        return None

    def place(self, problem: Problem, context: Context) -> Placement:
        placement = Placement(problem, self.search(problem, context)[0])
        if wrong := violations(problem, context.load, placement):
            raise InfeasibleError(
                f"combined found no placement that keeps every rule: {wrong[0]}",
                remedy="whether there is one is not proven; relax what is short, or search longer",
            )
        return placement

    def search(self, problem: Problem, context: Context) -> tuple[Ints, dict[str, float], float]:
        """The best sites, the value of every start by the policy that made it, and that of the best."""
        model = context.load
        resilient = Resilient(reserve=self.reserve)
        search = WeightedSearch.of(
            problem, model, Preferences(problem, model), resilient.objective_for(problem, model),
            resilient.count_for(model, self.scenarios), context.rng, reserve=self.reserve,
            current=context.current, most_away=context.max_moves,
        )  # fmt: skip
        starts = dict(self._starts(problem, context, search))
        tried = {name: search.value(sites) for name, sites in starts.items()}
        best = min(starts.values(), key=search.rank)
        for sites in self._annealed(search, best, context):
            best = min([best, sites], key=search.rank)
        return best, tried, search.value(best)

    def _starts(
        self, problem: Problem, context: Context, search: WeightedSearch
    ) -> Iterator[tuple[str, Ints]]:
        """Plans of the policies that weigh what is weighed here, mended where they break rules."""
        model, rng = context.load, context.rng
        if context.current is not None:
            running = np.where(model.pinned_site >= 0, model.pinned_site, context.current.site_of_fragment)
            homes = context.current.site_of_fragment
            yield "running", mended(search.book, running, rng, homes=homes, most_away=context.max_moves)
            return
        weights, policies = search.preferences.weights, list[Policy]([LargestLoadFirst(), Rod()])
        small = len(problem.fragments) * len(problem.sites) <= 1_000 * MOST_RELAXED
        if "bytes_in_flight" in weights and small:
            policies.append(Relaxation(mapping="estimated", probes=25))
        if "latency" in weights and small and why_not_by_latency(problem) is None:
            policies.append(Descent())
        if "feasible_ratio" in weights and model.site_count > 1 and len(search.book.free):
            policies.append(Resilient(reserve=self.reserve))
        part = context.deadline.part(0.5) if context.deadline.exists else context.deadline
        steps = None if context.deadline.exists else max((context.steps or self.default_steps) // 2, 1)
        inner = replace(context, deadline=part, steps=steps, progress=silent)
        found = 0
        for policy in policies:
            if found and context.deadline.share_spent > 0.5:
                break
            try:
                sites = policy.place(problem, inner).site_of_fragment
            except MooringError:
                continue
            found += 1
            yield policy.name, mended(search.book, sites, rng)
        if not found:
            yield "any", mended(search.book, np.where(model.pinned_site >= 0, model.pinned_site, 0), rng)

    def _annealed(self, search: WeightedSearch, start: Ints, context: Context) -> Iterator[Ints]:
        best, deadline = start, context.deadline
        if not deadline.exists:
            steps = context.steps or self.default_steps
            for number in range(STRETCHES):
                context.progress(number / STRETCHES, "annealing on all preferences")
                best = min(
                    [best, search.anneal(best, steps // (2 * STRETCHES), context.rng)], key=search.rank
                )
                yield best
            return
        before, steps = deadline.share_spent, TIMED_STEPS
        while before < 0.95:
            context.progress(before, "annealing on all preferences")
            best = min([best, search.anneal(best, steps, context.rng)], key=search.rank)
            yield best
            now = deadline.share_spent
            per_step = max((now - before) / steps, 1e-9)
            left = (0.95 - now) / per_step
            steps, before = int(np.clip(min(steps * 8, left), TIMED_STEPS, 5_000_000)), now
            if left < TIMED_STEPS:
                break
