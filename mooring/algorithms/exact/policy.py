"""A best placement, for problems small enough for an exhaustive search.

Branch and bound over fragments, largest first, starting from ROD's placement. Of interchangeable sites only
one is tried. The search measures placements along a few directions; all that come close to the best are then
measured finely, so the answer is exact up to the fine estimator's error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from mooring.algorithms.ants.descent import why_not_by_latency
from mooring.algorithms.exact.latency_optimum import latency_optimum
from mooring.algorithms.exact.network_optimum import network_optimum
from mooring.algorithms.exact.optimal_kernels import Tree
from mooring.algorithms.exact.tree_walk import TreeWalk
from mooring.algorithms.rod.policy import rod_assign
from mooring.arrays import Floats, Ints
from mooring.contracts.deadline import NO_DEADLINE, Deadline
from mooring.contracts.policy import Context
from mooring.errors import UnsupportedError
from mooring.model.evaluation.explanation import Subject
from mooring.model.load.feasible.directions import MANY_VARIABLES, Directions
from mooring.model.load.feasible.feasible_set import DEFAULT_POINTS, FeasibleSet
from mooring.model.load.model import LoadModel
from mooring.model.placement.adjacency import adjacency
from mooring.model.placement.placement import Placement
from mooring.model.placement.site_limits import pinned_first
from mooring.model.problem.latencies import why_no_matrix
from mooring.model.problem.problem import Problem
from mooring.progress import Report, silent

ObjectiveName = Literal["resilience", "network", "latency"]

_FINALISTS = 32
"""Placements that come close to the best along the coarse directions and are worth the finest measurement."""
MOST_CELLS = 1 << 27
"""Of what a search keeps per fragment, site and direction: 1 GB. Trees of that size are beyond reach."""


def optimal_assign(
    model: LoadModel,
    *,
    points: int = 1024,
    tolerance: float = 0.01,
    node_budget: int = 20_000_000,
    problem: Problem | None = None,
    deadline: Deadline = NO_DEADLINE,
    progress: Report = silent,
) -> Ints:
    """The placement with the largest feasible ratio; `UnsupportedError` when the budget does not suffice."""
    if len(model.active) and model.fragment_count * model.site_count * points > MOST_CELLS:
        raise UnsupportedError(
            f"{model.fragment_count:,} fragments on {model.site_count:,} sites are too many to search",
            remedy="use a heuristic such as rod",
        )
    start = rod_assign(model, problem=problem)
    if not len(model.active):
        return start
    coarse = Directions.draw(len(model.active), points, seed=0).values
    walk = TreeWalk(_tree(model, coarse), _coarse_ratio(model, start, coarse), tolerance)
    walk.run(node_budget, deadline, progress)
    return _finest(model, [start, *walk.close_to_best()])


def _tree(model: LoadModel, directions: Floats) -> Tree:
    total_left_cores, active = model.capacity_left_cores, model.active
    totals = model.totals[active]
    parts = model.coefficients[:, active].toarray() / totals
    lower = model.lower[active] * totals / total_left_cores
    order = pinned_first(model, np.argsort(-np.linalg.norm(parts, axis=1), kind="stable"))
    starts, neighbours, fixed_ends, arc_parts = _arcs(model, totals)
    return Tree(
        order,
        parts @ directions,
        parts @ lower,
        model.fixed_cores / total_left_cores,
        model.memory_mb,
        model.pinned_site,
        model.capacity_cores / total_left_cores,
        model.memory_limit_mb,
        _alike(model),
        1.0 - float(lower.sum()),
        min(len(active), MANY_VARIABLES),
        starts,
        neighbours,
        fixed_ends,
        arc_parts @ directions,
        arc_parts @ lower,
    )


def _arcs(model: LoadModel, totals: Floats) -> tuple[Ints, Ints, Ints, Floats]:
    """Every arc from both its ends, with what each end pays when it crosses; none where crossing is free."""
    arcs, variables = model.arcs, len(totals)
    if arcs.comm_us == 0.0:
        empty = np.zeros(0, np.int64)
        return np.zeros(model.fragment_count + 1, np.int64), empty, empty, np.zeros((0, variables))
    starts, neighbours, fixed_ends, arc_of = adjacency(model)
    parts = arcs.rates[:, model.active].toarray() * (arcs.comm_us / 1e6) / totals
    return starts, neighbours, fixed_ends, parts[arc_of]


def _alike(model: LoadModel) -> Ints:
    """Sites with equal numbers are interchangeable while empty; one that arcs lead to is like no other."""
    rows = np.column_stack([model.capacity_cores, model.memory_limit_mb])
    groups: Ints = np.unique(rows, axis=0, return_inverse=True)[1].ravel().astype(np.int64)
    if model.arcs.comm_us > 0.0:
        fixed = np.concatenate([model.arcs.source_site, model.arcs.target_site])
        for site in np.unique(fixed[fixed >= 0]):
            groups[site] = model.site_count + site
    return groups


def _coarse_ratio(model: LoadModel, sites: Ints, directions: Floats) -> float:
    feasible = FeasibleSet.of(model, sites)
    if feasible.is_empty:
        return 0.0
    reach = np.maximum(1.0, (feasible.weights_above_lower() @ directions).max(axis=0))
    return float(np.mean(reach ** -float(min(len(feasible.variables), MANY_VARIABLES))))


def _finest(model: LoadModel, candidates: list[Ints]) -> Ints:
    """The best of several placements, all measured along the same directions; finely only the last few."""
    for points in (DEFAULT_POINTS // 8, DEFAULT_POINTS):
        net = Directions.draw(len(model.active), points, seed=0)
        ratios = np.array(
            [FeasibleSet.of(model, sites).comparable_ratio(directions=net) for sites in candidates]
        )
        best_first = np.argsort(-ratios, kind="stable")[:_FINALISTS]
        candidates = [candidates[at] for at in best_first]
    return candidates[0]


def _why_not_compiled(problem: Problem) -> str | None:
    if problem.network.comm_us > 0.0:
        return "its crossings cost CPU (comm_us), which the search by latency leaves out"
    return None


@dataclass(frozen=True)
class Optimal:
    """Policy `optimal`."""

    name: ClassVar[str] = "optimal"
    as_published: ClassVar[bool] = True

    objective: ObjectiveName = "resilience"
    """Objective: the largest feasible ratio (resilience), the fewest bytes in flight (network), or the
    least mean latency of all queries with queues (latency)."""
    node_budget: int = 20_000_000
    """The most partial placements looked at; some two million a second for two sites and five streams. Where
    four times as many would hardly do, the search soon says so and ends."""

    @property
    def about(self) -> Subject:
        return self.objective

    def unsupported(self, problem: Problem) -> str | None:
        if self.objective == "latency":
            return (
                why_not_by_latency(problem)
                or _why_not_compiled(problem)
                or why_no_matrix(problem.network.latency_ms)
            )
        if self.objective == "network" and problem.network.latency_ms is None and len(problem.sites) > 1:
            return "it states no latency_ms between its sites"
        return why_no_matrix(problem.network.latency_ms) if self.objective == "network" else None

    def place(self, problem: Problem, context: Context) -> Placement:
        reason = self.unsupported(problem)
        if reason is not None:
            raise UnsupportedError(reason, field="objective")
        if self.objective == "latency":
            found = latency_optimum(problem, context.load, self.node_budget, context.deadline)
            return Placement(problem, found)
        if self.objective == "network":
            sites = network_optimum(problem, context.load, self.node_budget, context.deadline)
            return Placement(problem, sites)
        sites = optimal_assign(
            context.load,
            node_budget=self.node_budget,
            problem=problem,
            deadline=context.deadline,
            progress=context.progress,
        )
        return Placement(problem, sites)
