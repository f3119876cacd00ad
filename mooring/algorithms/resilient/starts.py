"""Plans to start a search from: the best of several greedies."""

from __future__ import annotations

from dataclasses import replace

from mooring.algorithms.resilient.surrogate import Surrogate
from mooring.algorithms.rod.clustering import cluster, clustered, sweep
from mooring.algorithms.rod.policy import Rod, rod_assign
from mooring.arrays import Ints
from mooring.contracts.deadline import Deadline
from mooring.contracts.policy import Context
from mooring.errors import InfeasibleError
from mooring.model.load.model import LoadModel
from mooring.model.problem.problem import Problem
from mooring.model.rate_scenarios.scenarios import Scenarios, crossings_cost, scenario_value
from mooring.progress import silent

CLIMB_STEPS_PER_FRAGMENT = 100
MOST_CLUSTERED = 2_000
"""Fragments up to which the whole sweep of clusterings is tried."""


def greedy_plans(problem: Problem, context: Context) -> list[Ints]:
    """ROD's plan first (the search must not do worse), then others; `InfeasibleError` where nothing fits."""
    model, rng, deadline = context.load, context.rng, context.deadline
    plans: list[Ints] = []
    refused: InfeasibleError | None = None
    try:
        # The search reports on the whole of its work, in which ROD's sweep is a moment.
        plans.append(Rod().place(problem, replace(context, progress=silent)).site_of_fragment)
    except InfeasibleError as error:
        refused = error
    if Surrogate.supports(model) and model.capacity_left_cores > 0.0 and not deadline.expired:
        surrogate = Surrogate(model)
        placed = surrogate.greedy(deadline)
        for plan in [*plans[:1], *([] if placed is None else [placed])]:
            steps = CLIMB_STEPS_PER_FRAGMENT * model.fragment_count
            plans.append(surrogate.climb(plan, steps, rng, deadline))
    if crossings_cost(model) and model.fragment_count <= MOST_CLUSTERED:
        plans.extend(clustered_plans(model, deadline))
    if not plans and refused is not None:
        raise refused
    return plans


def clustered_plans(model: LoadModel, deadline: Deadline) -> list[Ints]:
    """ROD over every clustering of the sweep (section 6.3)."""
    plans: list[Ints] = []
    known: set[bytes] = set()
    for how in sweep(model):
        if deadline.expired:
            break
        cluster_of = cluster(model, how)
        if cluster_of.tobytes() in known:
            continue
        known.add(cluster_of.tobytes())
        try:
            plans.append(rod_assign(clustered(model, cluster_of))[cluster_of])
        except InfeasibleError:
            continue
    return plans


def best_of(model: LoadModel, scenarios: Scenarios, plans: list[Ints]) -> Ints:
    return max(plans, key=lambda plan: scenario_value(model, scenarios, plan))
