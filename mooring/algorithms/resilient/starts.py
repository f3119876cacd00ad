"""Plans to start a search from: the best of several greedies, each mended where it breaks rules."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from mooring.algorithms.baselines.llf import least_loaded_assign
from mooring.algorithms.resilient.surrogate import Surrogate
from mooring.algorithms.rod.clustering import cluster, clustered, sweep
from mooring.algorithms.rod.policy import Rod, rod_assign
from mooring.arrays import Ints
from mooring.contracts.deadline import Deadline
from mooring.contracts.policy import Context
from mooring.errors import InfeasibleError
from mooring.model.goals.mending import mended
from mooring.model.goals.rules import RuleBook
from mooring.model.load.model import LoadModel
from mooring.model.problem.problem import Problem
from mooring.model.rate_scenarios.scenarios import Scenarios, crossings_cost, scenario_value
from mooring.progress import silent

CLIMB_STEPS_PER_FRAGMENT = 100
MOST_CLUSTERED = 2_000
"""Fragments up to which the whole sweep of clusterings is tried."""


MOST_BALANCED = 20_000
"""Fragments up to which plans that balance the load of one rate point are tried."""


def greedy_plans(problem: Problem, context: Context, book: RuleBook) -> list[Ints]:
    """ROD's plan first, then others, those that break rules mended; `InfeasibleError` where nothing fits."""
    plans = _greedy_plans(problem, context)
    return [*plans[:1], *(mended(book, plan, context.rng) for plan in plans)]


def _greedy_plans(problem: Problem, context: Context) -> list[Ints]:
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
    if model.fragment_count <= MOST_BALANCED:
        for values in {each.tobytes(): each for each in (model.present, model.lower) if each.any()}.values():
            with contextlib.suppress(InfeasibleError):
                plans.append(least_loaded_assign(model, values))
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


def best_of(book: RuleBook, scenarios: Scenarios, plans: list[Ints]) -> Ints:
    """Of those that break least, the one of most value."""
    return max(plans, key=lambda plan: (-book.broken(plan), scenario_value(book.model, scenarios, plan)))
