"""ROD and `resilient` against the optimum on two sites (section 7.3.1, the paragraph before 7.3.2).

Small graphs of two to five streams and at most twenty operators, where the best plan can be found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.experiment import Experiment
from lab.experiments.figures import finish, panels
from lab.experiments.rod.trials import QUICK_STEPS, bound_of, plan_sites, ratio_of
from lab.experiments.summary import Reference, Shown, Summary
from lab.experiments.trials import Row, run_trials
from mooring.figure_style import colour_of
from mooring.model.load.build import build_load_model
from mooring.model.problem.generate import GraphParameters, generate_problem
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GRAPHS, QUICK_GRAPHS = 100, 12
MOST_OPERATORS = 20
PAPER_MEAN, PAPER_LEAST = 0.95, 0.82
"""Of ROD's feasible set over the optimum's."""


@dataclass(frozen=True)
class Graph:
    number: int
    seed: int


def trial(graph: Graph) -> list[Row]:
    rng = np.random.default_rng((graph.seed, graph.number))
    streams = int(rng.integers(2, 6))
    operators = streams * int(rng.integers(2, MOST_OPERATORS // streams + 1))
    problem = generate_problem(GraphParameters(streams=streams, operators=operators, sites=2), rng)
    model = build_load_model(problem)
    policies = ("optimal", "rod", "resilient")
    plans = {p: plan_sites(p, problem, model, graph.number, QUICK_STEPS) for p in policies}
    ratios = {policy: ratio_of(model, sites) for policy, sites in plans.items()}
    # The bound starts from the searched plan, as it does for a user, not from the optimum.
    bound = bound_of(model, [plans["resilient"]])
    return [
        {
            "graph": graph.number,
            "streams": streams,
            "operators": operators,
            "optimum": ratios["optimal"],
            "rod_to_optimum": ratios["rod"] / ratios["optimal"],
            "resilient_to_optimum": ratios["resilient"] / ratios["optimal"],
            "bound_to_optimum": bound / ratios["optimal"],
            "bound": bound,
        }
    ]


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    trials = [Graph(number, seed) for number in range(QUICK_GRAPHS if quick else GRAPHS)]
    return run_trials(trial, trials, report)


def draw(rows: Sequence[Row]) -> Figure:
    figure, (axes,) = panels(6, 4.5)
    for policy in ("rod", "resilient", "bound"):
        values = sorted(float(row[f"{policy}_to_optimum"]) for row in rows)
        axes.plot(np.linspace(0, 1, len(values)), values, label=policy, color=colour_of(policy))
    axes.axhline(PAPER_MEAN, color="#888888", linestyle=":", label="paper: ROD's mean")
    axes.axhline(PAPER_LEAST, color="#bbbbbb", linestyle=":", label="paper: ROD's minimum")
    axes.set(xlabel="share of graphs", ylabel="feasible set / optimum")
    finish(axes)
    return figure


ROD_OPTIMUM = Experiment(
    name="rod_optimum",
    title="ROD and resilient against the optimum on two sites",
    source="Resilient operator distribution, section 7.3.1 (mean .95, minimum .82 of the optimum)",
    columns={
        "graph": "number of the graph",
        "streams": "number of input streams",
        "operators": "number of operators",
        "optimum": "ratio to the ideal set of the optimal plan",
        "rod_to_optimum": "ROD's feasible set over the optimum's",
        "resilient_to_optimum": "the same for resilient",
        "bound_to_optimum": "the upper bound over the optimum",
        "bound": "upper bound on the ratio to the ideal set",
    },
    summaries=(
        Summary(
            by=(),
            shown=(
                Shown("rod_to_optimum", beside=Reference("paper", {(): PAPER_MEAN})),
                Shown("rod_to_optimum", "least", how="least", beside=Reference("paper", {(): PAPER_LEAST})),
                Shown("resilient_to_optimum"),
                Shown("resilient_to_optimum", "least", how="least"),
                Shown("bound_to_optimum"),
            ),
        ),
    ),
    setting="Two sites, two to five streams, at most twenty operators in trees that grow breadth first.",
    run=run,
    draw=draw,
)
