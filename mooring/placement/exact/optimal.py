"""The best placement there is, for problems small enough to try all that could be best.

Branch and bound over fragments, largest first, starting from ROD's placement. Sites that nothing tells apart
are tried once. The search measures placements along a few directions; all that come close to the best are
then measured finely, so the answer is exact up to the fine estimator's error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from mooring.arrays import Floats, Ints
from mooring.errors import UnsupportedError
from mooring.load.feasible.directions import MANY_VARIABLES, Directions
from mooring.load.feasible.feasible_set import DEFAULT_POINTS, FeasibleSet
from mooring.load.model import LoadModel
from mooring.placement.adjacency import adjacency
from mooring.placement.exact import optimal_kernels
from mooring.placement.exact.network_optimum import network_optimum
from mooring.placement.placement import Placement
from mooring.placement.policy import Context
from mooring.placement.rod.rod import rod_assign
from mooring.placement.site_limits import pinned_first
from mooring.problem.problem import Problem

ObjectiveName = Literal["resilience", "network", "latency"]

# Placements kept for the fine measurement; those given up were measured as worse along the coarse directions.
_POOL = 1024
# Of these, the ones worth the finest measurement.
_FINALISTS = 32


def optimal_assign(
    model: LoadModel,
    *,
    points: int = 1024,
    tolerance: float = 0.01,
    node_budget: int = 20_000_000,
    problem: Problem | None = None,
) -> Ints:
    """The placement with the largest feasible ratio; `UnsupportedError` when the budget does not suffice."""
    start = rod_assign(model, problem=problem)
    if not len(model.active):
        return start
    coarse = Directions.draw(len(model.active), points, seed=0)
    pool_sites = np.empty((_POOL, model.fragment_count), np.int64)
    pool_values = np.zeros(_POOL)
    pooled, nodes, finished = optimal_kernels.search(
        *_tree(model, coarse.values),
        _coarse_ratio(model, start, coarse.values), tolerance, node_budget, pool_sites, pool_values,
    )  # fmt: skip
    if not finished:
        raise UnsupportedError(
            f"looked at {nodes - 1:,} partial placements of {model.fragment_count} fragments on "
            f"{model.site_count} sites without reaching the end",
            remedy="raise node_budget, or use a heuristic such as rod",
        )
    values = pool_values[:pooled]
    close = pool_sites[:pooled][values >= values.max(initial=0.0) * (1.0 - tolerance)]
    return _finest(model, [start, *close])


class _Tree(NamedTuple):
    """What the search needs to know, in parts of the whole and in the kernel's order."""

    order: Ints
    fragment_load: Floats
    fragment_lower: Floats
    fixed: Floats
    memory_mb: Floats
    pinned: Ints
    room: Floats
    memory_limit_mb: Floats
    alike: Ints
    span: float
    power: int
    arc_start: Ints
    arc_neighbour: Ints
    arc_fixed_end: Ints
    arc_load: Floats
    arc_lower: Floats


def _tree(model: LoadModel, directions: Floats) -> _Tree:
    total_left_cores, active = model.capacity_left_cores, model.active
    totals = model.totals[active]
    parts = model.coefficients[:, active].toarray() / totals
    lower = model.lower[active] * totals / total_left_cores
    order = pinned_first(model, np.argsort(-np.linalg.norm(parts, axis=1), kind="stable"))
    starts, neighbours, fixed_ends, arc_parts = _arcs(model, totals)
    return _Tree(
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


@dataclass(frozen=True)
class Optimal:
    """Policy `optimal`."""

    name: ClassVar[str] = "optimal"

    objective: ObjectiveName = "resilience"
    """What is best: the largest feasible ratio (resilience), or the fewest bytes in flight (network). The
    latency is not yet searched for."""
    node_budget: int = 20_000_000
    """The most partial placements looked at; some two million a second for two sites and five streams."""

    def unsupported(self, problem: Problem) -> str | None:
        if self.objective == "latency":
            return "objective=latency is not supported yet; objective=resilience and objective=network are"
        if self.objective == "network" and problem.network.latency_ms is None and len(problem.sites) > 1:
            return "it states no latency_ms between its sites"
        return None

    def place(self, problem: Problem, context: Context) -> Placement:
        reason = self.unsupported(problem)
        if reason is not None:
            raise UnsupportedError(reason, field="objective")
        if self.objective == "network":
            return Placement(problem, network_optimum(problem, context.load, self.node_budget))
        sites = optimal_assign(context.load, node_budget=self.node_budget, problem=problem)
        return Placement(problem, sites)
