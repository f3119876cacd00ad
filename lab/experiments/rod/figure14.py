"""Figure 14 of the ROD paper: how large each policy's feasible set is, against the ideal and against ROD's.

Section 7.3.1: ten sites, five streams, random trees of more and more operators. Every policy but ROD depends
on rates or chance, so it is repeated (ten times in the paper) with random rates, random rate histories
(correlation) or another seed (random), and averaged.

Section 7.1 does not say in which order the trees grow. Breadth first they are shallower, their operators more
alike, and the policies a little better (ROD .64 instead of .61 at 100 operators). They grow at random here:
of the orders we tried, that one comes nearest to the figures of the prototype.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.experiment import Experiment
from lab.experiments.figures import panels
from lab.experiments.summary import Reference, Shown, Summary
from lab.experiments.trials import Row, run_trials
from mooring.algorithms.catalogue import make_policy
from mooring.arrays import Floats
from mooring.contracts.policy import Context
from mooring.figure_style import colour_of, tidy
from mooring.model.bounds.upper_bound import upper_bound
from mooring.model.load.build import build_load_model
from mooring.model.load.feasible.feasible_set import FeasibleSet
from mooring.model.load.model import LoadModel
from mooring.model.problem.generate import GraphParameters, generate_problem
from mooring.model.problem.history import RateHistory
from mooring.model.problem.problem import Problem
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OPERATORS = (25, 50, 100, 150, 200)
POLICIES = ("resilient", "rod", "correlation", "llf", "random", "connected")
"""In the paper's order, best first, after the one that is not in the paper."""
YARDSTICK = {
    "resilient": (0.112, 0.346, 0.84, math.nan, 0.986),
    "rod": (0.080, 0.288, 0.585, 0.753, 0.811),
    "correlation": (0.057, 0.152, 0.327, 0.353, 0.379),
    "llf": (0.047, 0.116, 0.188, 0.261, 0.290),
    "random": (0.033, 0.079, 0.136, 0.183, 0.228),
    "connected": (0.031, 0.051, 0.050, 0.049, 0.053),
}
"""Means that an independent prototype reached on graphs of the same kind, per number of operators. The paper
prints a figure without numbers."""
_PROTOTYPE = Reference(
    "prototype",
    {
        (operators, policy): ratio
        for policy, ratios in YARDSTICK.items()
        for operators, ratio in zip(OPERATORS, ratios, strict=True)
        if math.isfinite(ratio)
    },
)
GRAPHS, REPEATS = 20, 10
QUICK_GRAPHS, QUICK_REPEATS = 4, 2
HISTORY_SAMPLES = 100
"""Samples of a random rate history; the paper does not say how long its series are."""
POINTS = 2**14
"""Directions per feasible set: an error of 6e-4 at five streams."""
STEPS = 400_000
"""Of a search, so that the figure does not depend on the machine's speed."""


@dataclass(frozen=True)
class Graph:
    """One trial: all policies on one random graph."""

    operators: int
    number: int
    repeats: int
    seed: int


def place_all(graph: Graph) -> list[Row]:
    """The trial: the mean ratio to the ideal set of every policy, each under its own rates and seeds."""
    stream_of = np.random.SeedSequence((graph.seed, graph.operators, graph.number))
    graph_seed, *repeat_seeds = stream_of.spawn(1 + graph.repeats)
    parameters = GraphParameters(operators=graph.operators, order="random")
    base = generate_problem(parameters, np.random.default_rng(graph_seed))
    totals = build_load_model(base).totals
    problems = [with_random_rates(base, totals, np.random.default_rng(each)) for each in repeat_seeds]
    models = [build_load_model(problem) for problem in problems]
    rows: list[Row] = []
    bound = _bound(problems[0], models[0])
    for policy in POLICIES:
        ratios = [
            _ratio(policy, problem, model, repeat)
            for repeat, (problem, model) in enumerate(zip(problems, models, strict=True))
            if repeat == 0 or policy not in ("rod", "resilient")  # they look at no rates: once is enough
        ]
        row: Row = {"operators": graph.operators, "graph": graph.number, "policy": policy}
        rows.append(row | {"ratio": fmean(ratios), "bound": bound})
    return rows


def with_random_rates(base: Problem, totals: Floats, rng: np.random.Generator) -> Problem:
    """A random point of the ideal feasible set as present rates, and a history of such points."""
    spread = rng.exponential(size=(HISTORY_SAMPLES, len(totals) + 1))
    points = spread[:, :-1] / spread.sum(axis=1, keepdims=True)
    history = points * base.capacity_cores.sum() / totals
    return replace(base.with_rates(history[0]), history=RateHistory(history))


def _ratio(policy: str, problem: Problem, model: LoadModel, seed: int) -> float:
    context = Context(load=model, rng=np.random.default_rng(seed), steps=STEPS)
    placement = make_policy(policy, {}).place(problem, context)
    return FeasibleSet.of(model, placement.site_of_fragment).ratio(POINTS).value


def _bound(problem: Problem, model: LoadModel) -> float:
    """What no plan exceeds, from ROD's."""
    rod = make_policy("rod", {}).place(problem, Context(load=model, rng=np.random.default_rng(0)))
    return upper_bound(model, rod.site_of_fragment)


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    graphs, repeats = (QUICK_GRAPHS, QUICK_REPEATS) if quick else (GRAPHS, REPEATS)
    trials = [Graph(operators, number, repeats, seed) for operators in OPERATORS for number in range(graphs)]
    return summarise(run_trials(place_all, trials, report))


def summarise(trials: Sequence[Row]) -> list[Row]:
    """Mean and standard error over the graphs; the ratio to ROD graph by graph, then averaged."""
    ratios: dict[tuple[int, str], list[float]] = {}
    bounds: dict[tuple[int, str], list[float]] = {}
    for trial in trials:
        key = int(trial["operators"]), str(trial["policy"])
        ratios.setdefault(key, []).append(float(trial["ratio"]))
        bounds.setdefault(key, []).append(float(trial["bound"]))
    rows: list[Row] = []
    for (operators, policy), own in ratios.items():
        best = ratios[operators, "rod"]
        rows.append(
            {
                "operators": operators,
                "policy": policy,
                "ratio_to_ideal": fmean(own),
                "standard_error": stdev(own) / len(own) ** 0.5 if len(own) > 1 else 0.0,
                "ratio_to_rod": fmean(mine / rod for mine, rod in zip(own, best, strict=True)),
                "yardstick": YARDSTICK[policy][OPERATORS.index(operators)],
                "bound": fmean(bounds[operators, policy]),
                "graphs": len(own),
            }
        )
    return rows


def draw(rows: Sequence[Row]) -> Figure:
    figure, (to_ideal, to_rod) = panels(10, 4, 2)
    for policy in POLICIES:
        own = [row for row in rows if row["policy"] == policy]
        operators = [row["operators"] for row in own]
        ratio = [row["ratio_to_ideal"] for row in own]
        error = [1.96 * float(row["standard_error"]) for row in own]
        colour = colour_of(policy)
        to_ideal.errorbar(operators, ratio, yerr=error, marker="o", capsize=2, label=policy, color=colour)
        to_ideal.plot(operators, [row["yardstick"] for row in own], "x", color=colour, alpha=0.45)
        to_rod.plot(operators, [row["ratio_to_rod"] for row in own], marker="o", label=policy, color=colour)
    to_ideal.set(xlabel="number of operators", ylabel="feasible set / ideal", ylim=(0, 1), title="(a)")
    to_rod.set(xlabel="number of operators", ylabel="feasible set / ROD's", title="(b)")
    to_ideal.legend(title="crosses: prototype", frameon=False)
    for axes in (to_ideal, to_rod):
        tidy(axes)
    return figure


ROD_FIGURE_14 = Experiment(
    name="rod_figure14",
    title="Feasible set of each policy against the ideal and against ROD",
    source="Resilient operator distribution, Figure 14 (a) and (b), section 7.3.1",
    columns={
        "operators": "number of operators in five trees",
        "policy": "policy",
        "ratio_to_ideal": "mean ratio of the feasible set to the ideal one",
        "standard_error": "of that mean, over the graphs",
        "ratio_to_rod": "mean over the graphs of the ratio to ROD's feasible set",
        "yardstick": "the same mean from an independent prototype",
        "bound": "mean upper bound on the ratio to the ideal set, for any plan",
        "graphs": "random graphs averaged",
    },
    summaries=(
        Summary(
            by=("operators", "policy"),
            shown=(
                Shown("ratio_to_ideal", error_column="standard_error", beside=_PROTOTYPE),
                Shown("ratio_to_rod"),
                Shown("bound", "upper bound"),
            ),
            counted="graphs",
        ),
    ),
    setting="Ten sites, five streams, trees that grow at random (ROD reaches more breadth first).",
    run=run,
    draw=draw,
)
