"""Figure 19 of the ROD paper: statistics with errors (section 7.3.6).

Plans are made from measured costs and selectivities, each the truth times a factor uniform in [1 - e, 1 +
e], and judged by the truth. `resilient` is told e and plans for draws of the truth; `resilient unaware` is
not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from lab.experiments.experiment import Experiment
from lab.experiments.figures import panels
from lab.experiments.rod.figure14 import with_random_rates
from lab.experiments.rod.trials import (
    QUICK_STEPS,
    STEPS,
    averaged,
    bound_of,
    draw_lines,
    plan_sites,
    ratio_of,
)
from lab.experiments.summary import Reference, Shown, Summary
from lab.experiments.trials import Row, run_trials
from mooring.model.load.build import build_load_model
from mooring.model.problem.generate import GraphParameters, generate_problem
from mooring.model.problem.problem import Problem
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ERRORS = (0.0, 0.1, 0.25, 0.5)
OPERATORS = 100
YARDSTICK = {0.0: 0.61, 0.1: 0.55, 0.25: 0.41, 0.5: 0.28}
"""ROD's mean ratio in an independent prototype."""
POLICIES = {
    "resilient": ("resilient", {}),
    "resilient unaware": ("resilient", {"error": "0"}),
    "rod": ("rod", {}),
    "correlation": ("correlation", {}),
    "llf": ("llf", {}),
    "random": ("random", {}),
    "connected": ("connected", {}),
}
GRAPHS, QUICK_GRAPHS = 30, 3


@dataclass(frozen=True)
class Graph:
    error: float
    number: int
    seed: int
    steps: int


def trial(graph: Graph) -> list[Row]:
    rng = np.random.default_rng((graph.seed, graph.number))
    base = generate_problem(GraphParameters(operators=OPERATORS), rng)
    truth = with_random_rates(base, build_load_model(base).totals, rng)
    measured = with_errors(truth, graph.error, rng)
    model, seen = build_load_model(truth), build_load_model(measured)
    plans = {
        name: plan_sites(policy, measured, seen, graph.number, graph.steps, **settings)
        for name, (policy, settings) in POLICIES.items()
    }
    ratios = {name: ratio_of(model, sites) for name, sites in plans.items()}
    bound = bound_of(model, list(plans.values()))
    return [
        {
            "error": graph.error,
            "policy": name,
            "ratio_to_ideal": ratio,
            "ratio_to_rod": ratio / ratios["rod"],
            "bound": bound,
        }
        for name, ratio in ratios.items()
    ]


def with_errors(truth: Problem, error: float, rng: np.random.Generator) -> Problem:
    """As measured: every cost and selectivity off by its own factor, and the error stated."""

    def factor() -> float:
        return float(rng.uniform(1.0 - error, 1.0 + error))

    operators = tuple(
        msgspec.structs.replace(
            operator,
            cost_us=operator.cost_us * factor(),
            selectivity=operator.selectivity * factor(),
            error=error,
        )
        for operator in truth.operators
    )
    return replace(truth, operators=operators)


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    graphs, steps = (QUICK_GRAPHS, QUICK_STEPS) if quick else (GRAPHS, STEPS)
    trials = [Graph(error, number, seed, steps) for error in ERRORS for number in range(graphs)]
    rows = averaged(
        run_trials(trial, trials, report), ("error", "policy"), ("ratio_to_ideal", "ratio_to_rod", "bound")
    )
    for row in rows:
        row["rod_yardstick"] = YARDSTICK[float(row["error"])]
    return rows


def draw(rows: Sequence[Row]) -> Figure:
    figure, (axes,) = panels(6, 4.5)
    draw_lines(axes, rows, "error", "ratio_to_ideal")
    rod = [row for row in rows if row["policy"] == "rod"]
    axes.plot([r["error"] for r in rod], [r["rod_yardstick"] for r in rod], "x", color="#888888")
    axes.set(xlabel="error level", ylabel="feasible set / ideal", ylim=(0, 1))
    return figure


ROD_FIGURE_19 = Experiment(
    name="rod_figure19",
    title="Sensitivity to errors in the statistics",
    source="Resilient operator distribution, Figure 19, section 7.3.6",
    columns={
        "error": "error level e of costs and selectivities",
        "policy": "policy, planning with measured statistics",
        "ratio_to_ideal": "mean ratio of the true feasible set to the ideal one",
        "ratio_to_rod": "mean over the graphs of the ratio to ROD's",
        "bound": "mean upper bound on the ratio for any plan that knew the truth",
        "standard_error": "of the ratio to the ideal",
        "trials": "random graphs averaged",
        "rod_yardstick": "ROD's mean ratio in an independent prototype",
    },
    summaries=(
        Summary(
            by=("error", "policy"),
            shown=(
                Shown(
                    "ratio_to_ideal",
                    error_column="standard_error",
                    beside=Reference("prototype", {(e, "rod"): ratio for e, ratio in YARDSTICK.items()}),
                ),
                Shown("ratio_to_rod"),
                Shown("bound", "upper bound"),
            ),
        ),
    ),
    setting="Ten sites, five streams, 100 operators in trees that grow breadth first.",
    run=run,
    draw=draw,
)
