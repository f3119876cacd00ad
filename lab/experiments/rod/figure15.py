"""Figure 15 of the ROD paper: how the policies compare as the number of input streams grows (section 7.3.2).

The paper plots each policy's feasible set over ROD's; `resilient` stands above one. Operators per stream
are the same for every number of streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
from lab.experiments.summary import Shown, Summary
from lab.experiments.trials import Row, run_trials
from mooring.model.load.build import build_load_model
from mooring.model.problem.generate import GraphParameters, generate_problem
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STREAMS = (2, 3, 4, 5, 6, 7)
OPERATORS_PER_STREAM = 20
"""The paper does not say how many; this keeps all policies' sets large enough to measure at seven streams."""
POLICIES = ("resilient", "rod", "correlation", "llf", "random", "connected")
GRAPHS, QUICK_GRAPHS = 20, 3


@dataclass(frozen=True)
class Graph:
    streams: int
    number: int
    seed: int
    steps: int


def trial(graph: Graph) -> list[Row]:
    rng = np.random.default_rng((graph.seed, graph.streams, graph.number))
    parameters = GraphParameters(streams=graph.streams, operators=graph.streams * OPERATORS_PER_STREAM)
    base = generate_problem(parameters, rng)
    problem = with_random_rates(base, build_load_model(base).totals, rng)
    model = build_load_model(problem)
    plans = {policy: plan_sites(policy, problem, model, graph.number, graph.steps) for policy in POLICIES}
    ratios = {policy: ratio_of(model, sites) for policy, sites in plans.items()}
    bound = bound_of(model, list(plans.values()))
    return [
        {
            "streams": graph.streams,
            "policy": policy,
            "ratio_to_rod": ratio / ratios["rod"],
            "ratio_to_ideal": ratio,
            "bound": bound,
        }
        for policy, ratio in ratios.items()
    ]


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    graphs, steps = (QUICK_GRAPHS, QUICK_STEPS) if quick else (GRAPHS, STEPS)
    trials = [Graph(streams, number, seed, steps) for streams in STREAMS for number in range(graphs)]
    rows = run_trials(trial, trials, report)
    return averaged(rows, ("streams", "policy"), ("ratio_to_rod", "ratio_to_ideal", "bound"))


def draw(rows: Sequence[Row]) -> Figure:
    figure, (axes,) = panels(6, 4.5)
    draw_lines(axes, rows, "streams", "ratio_to_rod")
    axes.set(xlabel="number of input streams", ylabel="feasible set / ROD's", yscale="log")
    return figure


ROD_FIGURE_15 = Experiment(
    name="rod_figure15",
    title="Feasible sets against ROD's for more and more input streams",
    source="Resilient operator distribution, Figure 15, section 7.3.2",
    columns={
        "streams": "number of input streams, twenty operators each",
        "policy": "policy",
        "ratio_to_rod": "mean over the graphs of the feasible set over ROD's",
        "ratio_to_ideal": "mean ratio to the ideal set",
        "bound": "mean upper bound on that ratio for any plan",
        "standard_error": "of the ratio to ROD",
        "trials": "random graphs averaged",
    },
    summaries=(
        Summary(
            title="(a) over ROD's",
            by=("streams",),
            across="policy",
            shown=(Shown("ratio_to_rod", error_column="standard_error"),),
        ),
        Summary(
            title="(b) over the ideal", by=("streams",), across="policy", shown=(Shown("ratio_to_ideal"),)
        ),
    ),
    setting="Ten sites, twenty operators per stream in trees that grow breadth first.",
    run=run,
    draw=draw,
)
