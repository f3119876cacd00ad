"""Figure 9 of the ROD paper: the smallest plane distance against the size of the feasible set.

Random load coefficient matrices of ten sites and three streams (section 4.2): every column is spread over
the sites by random weights. The curve is the part of a sphere of radius r that lies in the simplex, a lower
bound. Added to the paper: where the plans of ROD and `resilient` for section 7.1 graphs lie.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.experiment import Experiment
from lab.experiments.figures import finish, panels
from lab.experiments.rod.trials import QUICK_STEPS, STEPS, bound_of, plan_sites, ratio_of
from lab.experiments.summary import Shown, Summary
from lab.experiments.trials import Row, run_trials
from mooring.figure_style import colour_of
from mooring.model.load.build import build_load_model
from mooring.model.load.feasible.directions import Directions
from mooring.model.load.feasible.feasible_set import FeasibleSet
from mooring.model.problem.generate import GraphParameters, generate_problem
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SITES, STREAMS = 10, 3
MATRICES, QUICK_MATRICES = 10_000, 500
GRAPHS, QUICK_GRAPHS = 10, 2
OPERATORS = (30, 60, 120)
POINTS = 2**10


@dataclass(frozen=True)
class Batch:
    """One trial: some random matrices, or one graph of so many operators."""

    seed: int
    number: int
    matrices: int
    operators: int
    steps: int


def trial(batch: Batch) -> list[Row]:
    rng = np.random.default_rng((batch.seed, batch.number, batch.operators))
    return _graph(batch, rng) if batch.operators else _matrices(batch.matrices, rng)


def _matrices(count: int, rng: np.random.Generator) -> list[Row]:
    directions = Directions.draw(STREAMS, POINTS, 0)
    rows: list[Row] = []
    for _ in range(count):
        # Powers of uniform weights: from nearly even to nearly everything on one site.
        spread = rng.random((SITES, STREAMS)) ** rng.uniform(0.0, 4.0)
        weights = spread / spread.sum(axis=0) * SITES
        plan = FeasibleSet(weights, np.zeros(STREAMS), tuple(f"s{k}" for k in range(STREAMS)))
        rows.append(_row("random matrix", plan, plan.ratio(directions=directions).value, 1.0))
    return rows


def _graph(batch: Batch, rng: np.random.Generator) -> list[Row]:
    parameters = GraphParameters(streams=STREAMS, operators=batch.operators, sites=SITES)
    problem = generate_problem(parameters, rng)
    model = build_load_model(problem)
    plans = {p: plan_sites(p, problem, model, batch.number, batch.steps) for p in ("rod", "resilient")}
    bound = bound_of(model, list(plans.values()))
    return [
        _row(p, FeasibleSet.of(model, sites), ratio_of(model, sites), bound) for p, sites in plans.items()
    ]


def _row(policy: str, plan: FeasibleSet, ratio: float, bound: float) -> Row:
    distance = plan.plane_distance * math.sqrt(STREAMS)
    return {
        "policy": policy,
        "distance_to_ideal": distance,
        "ratio_to_ideal": ratio,
        "sphere": sphere_ratio(distance),
        "bound": bound,
    }


def sphere_ratio(distance: float) -> float:
    """The part of the ideal set in the sphere of radius r = distance x r*, all of it in the positive part."""
    radius = distance / math.sqrt(STREAMS)
    ball = math.pi ** (STREAMS / 2) / math.gamma(STREAMS / 2 + 1) * radius**STREAMS
    return float(ball / 2**STREAMS * math.factorial(STREAMS))


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    matrices, graphs = (QUICK_MATRICES, QUICK_GRAPHS) if quick else (MATRICES, GRAPHS)
    steps = QUICK_STEPS if quick else STEPS
    batches = [Batch(seed, number, matrices // 10, 0, steps) for number in range(10)]
    batches += [Batch(seed, number, 0, size, steps) for size in OPERATORS for number in range(graphs)]
    return run_trials(trial, batches, report)


def draw(rows: Sequence[Row]) -> Figure:
    figure, (axes,) = panels(6, 4.5)
    for policy in dict.fromkeys(str(row["policy"]) for row in rows):
        own = [row for row in rows if row["policy"] == policy]
        size, colour = (3, "#bbbbbb") if policy == "random matrix" else (22, colour_of(policy))
        at = [float(r["distance_to_ideal"]) for r in own], [float(r["ratio_to_ideal"]) for r in own]
        axes.scatter(*at, s=size, label=policy, color=colour)
    grid = np.linspace(0.0, 1.0, 100)
    axes.plot(grid, [sphere_ratio(x) for x in grid], color="#222222", label="lower bound (sphere)")
    axes.set(xlabel="r / r*", ylabel="feasible set / ideal", xlim=(0, 1.02), ylim=(0, 1.02))
    finish(axes)
    return figure


ROD_FIGURE_9 = Experiment(
    name="rod_figure9",
    title="Plane distance against the size of the feasible set",
    source="Resilient operator distribution, Figure 9, section 4.2",
    columns={
        "policy": "random matrix, or the policy that made the plan",
        "distance_to_ideal": "least plane distance over that of the ideal plane, r / r*",
        "ratio_to_ideal": "feasible set over the ideal one",
        "sphere": "the lower bound that the sphere of that radius gives",
        "bound": "upper bound on what any plan of the graph reaches (1 for matrices)",
    },
    summaries=(
        Summary(
            by=("distance_to_ideal", "policy"),
            steps={"distance_to_ideal": 0.1},
            shown=(
                Shown("ratio_to_ideal"),
                Shown("ratio_to_ideal", "least", how="least"),
                Shown("sphere", "sphere (lower bound)", how="mean alone"),
                Shown("bound", "upper bound", how="mean alone"),
            ),
            counted="plans",
        ),
    ),
    setting="Ten sites, three streams; random matrices, and plans for trees of 30 to 120 operators.",
    run=run,
    draw=draw,
)
