"""A problem made ready for the search by all preferences: what is weighed, in the arrays of its kernel."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mooring.algorithms.ants.latency_search import LatencySearch
from mooring.algorithms.combined import combined_kernels
from mooring.algorithms.combined.combined_kernels import (
    FLIGHT,
    HEADROOM,
    LATENCY,
    MOVES,
    PRICE,
    SITES,
    VOLUME,
)
from mooring.arrays import Floats, Ints
from mooring.model.evaluation.metrics import evaluate_placement
from mooring.model.evaluation.value import Preferences
from mooring.model.goals.rules import RuleBook
from mooring.model.load.model import LoadModel
from mooring.model.load.queued.kept_latency_kernels import kept_latencies
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem
from mooring.model.rate_scenarios.objective import Objective
from mooring.model.rate_scenarios.scenarios import ArcIndex, Scenarios

NEAR = 12
"""Sites beside a site that are proposed."""
MOST_NEAR = 5_000
"""Sites up to which they are looked for."""


@dataclass(frozen=True, eq=False)
class WeightedSearch:
    """Everything that the kernel needs of one problem, for one set of weights."""

    problem: Problem
    book: RuleBook
    preferences: Preferences
    scenarios: Scenarios
    near: Ints
    latency: LatencySearch | None
    current: Placement | None = None
    most_away: int | None = None
    judged: dict[bytes, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        problem: Problem,
        model: LoadModel,
        preferences: Preferences,
        objective: Objective,
        count: int,
        rng: np.random.Generator,
        *,
        reserve: float,
        current: Placement | None = None,
        most_away: int | None = None,
    ) -> WeightedSearch:
        weights = preferences.weights
        book = RuleBook(model, problem, reserve, flows="bytes_in_flight" in weights, soft_limits=True)
        latency = LatencySearch.of(problem, model) if "latency" in weights else None
        scenarios = objective.scenarios(count if "feasible_ratio" in weights else 1, rng)
        return cls(problem, book, preferences, scenarios, _near(problem), latency, current, most_away)

    def rank(self, sites: Ints) -> tuple[float, float]:
        """What is broken, then the value as it is reported: less is better."""
        return self.book.broken(sites), self.value(sites)

    def value(self, sites: Ints) -> float:
        key = np.asarray(sites, dtype=np.int64).tobytes()
        if key not in self.judged:
            placement = Placement(self.problem, sites)
            metrics = evaluate_placement(self.book.model, placement)
            costs = self.preferences.costs(placement, metrics, self.current)
            self.judged[key] = self.preferences.value(costs)
        return self.judged[key]

    def anneal(self, start: Ints, steps: int, rng: np.random.Generator) -> Ints:
        """The best placement on the way."""
        model, scenarios = self.book.model, self.scenarios
        free = self.book.free
        best = np.array(start, dtype=np.int64)
        if not len(free) or steps < 1:
            return best
        arcs = ArcIndex.build(model)
        names = [plane.name for plane in self.book.planes]
        present = names.index("the present rates") if "the present rates" in names else -1
        template, kept = None, None
        if self.latency is not None:
            template = self.latency.many.template
            kept = kept_latencies(template, self.latency.many.weights, best)
        homes = np.full(len(best), -1) if self.current is None else self.current.site_of_fragment
        weight = self._weights()
        if present < 0:
            weight[HEADROOM] = 0.0
        combined_kernels.anneal(
            self.book.rules, self.book.held(best), weight, max(present, 0),
            names.index("fixed load") if "fixed load" in names else -1,
            np.ascontiguousarray(model.capacity_cores, dtype=np.float64),
            np.ascontiguousarray(self.preferences.prices, dtype=np.float64), self.near, template, kept,
            scenarios.rows, scenarios.base, scenarios.weights, scenarios.exponent, scenarios.capacity,
            arcs.start, arcs.of, arcs.ends, free, np.asarray(homes, dtype=np.int64),
            len(best) if self.most_away is None else self.most_away, steps,
            rng.integers(1, 2**63, size=1).astype(np.uint64), best,
        )  # fmt: skip
        return best

    def _weights(self) -> Floats:
        """Each divided by what its cost is measured in."""
        given, preferences = self.preferences.weights, self.preferences
        found = np.zeros(7)
        found[HEADROOM] = given.get("headroom", 0.0)
        found[VOLUME] = given.get("feasible_ratio", 0.0)
        found[FLIGHT] = given.get("bytes_in_flight", 0.0) / (preferences.in_flight or 1.0)
        found[LATENCY] = given.get("latency", 0.0) * 1e3 / preferences.latency_ms
        found[MOVES] = given.get("moves", 0.0) / len(self.problem.fragments)
        found[PRICE] = given.get("price", 0.0)
        found[SITES] = given.get("sites", 0.0) / len(self.problem.sites)
        return found


def _near(problem: Problem) -> Ints:
    """Per site, the nearest others."""
    latency_ms, count = problem.network.latency_ms, len(problem.sites)
    if latency_ms is None or count > MOST_NEAR or count < 3:
        return np.zeros((count, 0), dtype=np.int64)
    every, most = np.arange(count), min(NEAR, count - 1)
    rows = [np.argsort(np.asarray(latency_ms[np.full(count, i), every]), kind="stable") for i in range(count)]
    return np.ascontiguousarray([row[row != i][:most] for i, row in enumerate(rows)], dtype=np.int64)
