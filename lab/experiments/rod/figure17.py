"""Figure 17 of the ROD paper: communication that costs CPU, and clustering against it (section 7.3.4).

All arcs and all operators cost alike per tuple; the ratio of the two is varied, and so is the number of
operators per stream. ROD with and without clustering, Connected, and `resilient`, which charges crossings
as it searches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.experiment import Experiment
from lab.experiments.figures import panels
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

COST_US = 500.0
RATIOS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
OPERATORS_PER_STREAM = (5, 10, 20)
STREAMS = 5
GRAPHS, QUICK_GRAPHS = 10, 2
POLICIES = {
    "rod": ("rod", {"clustering": "sweep"}),
    "rod unclustered": ("rod", {"clustering": "none"}),
    "connected": ("connected", {}),
    "resilient": ("resilient", {}),
}


@dataclass(frozen=True)
class Graph:
    per_stream: int
    communication: float
    number: int
    seed: int
    steps: int


def trial(graph: Graph) -> list[Row]:
    parameters = GraphParameters(
        operators=STREAMS * graph.per_stream,
        cost_us=(COST_US, COST_US),
        comm_us=COST_US * graph.communication,
    )
    problem = generate_problem(
        parameters, np.random.default_rng((graph.seed, graph.per_stream, graph.number))
    )
    model = build_load_model(problem)
    plans = {
        name: plan_sites(policy, problem, model, graph.number, graph.steps, **settings)
        for name, (policy, settings) in POLICIES.items()
    }
    ratios = {name: ratio_of(model, sites) for name, sites in plans.items()}
    bound = bound_of(model, list(plans.values()))
    return [
        {
            "operators_per_stream": graph.per_stream,
            "communication": graph.communication,
            "policy": name,
            "ratio_to_rod": ratio / max(ratios["rod"], 1e-12),
            "ratio_to_ideal": ratio,
            "bound": bound,
        }
        for name, ratio in ratios.items()
    ]


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    graphs, steps = (QUICK_GRAPHS, QUICK_STEPS) if quick else (GRAPHS, STEPS)
    trials = [
        Graph(per_stream, communication, number, seed, steps)
        for per_stream in OPERATORS_PER_STREAM
        for communication in RATIOS
        for number in range(graphs)
    ]
    return averaged(
        run_trials(trial, trials, report),
        ("operators_per_stream", "communication", "policy"),
        ("ratio_to_rod", "ratio_to_ideal", "bound"),
    )


def draw(rows: Sequence[Row]) -> Figure:
    figure, sides = panels(13, 4, 3)
    for axes, per_stream in zip(sides, OPERATORS_PER_STREAM, strict=True):
        own = [row for row in rows if row["operators_per_stream"] == per_stream]
        draw_lines(axes, own, "communication", "ratio_to_rod")
        axes.set(xlabel="communication cost / processing cost", ylabel="feasible set / clustered ROD's")
        axes.set(yscale="log", title=f"{per_stream} operators per stream")
    return figure


def _beside_rod(per_stream: int) -> Summary:
    return Summary(
        title=f"{per_stream} operators per stream, over clustered ROD's",
        by=("communication",),
        across="policy",
        where=lambda row: row["operators_per_stream"] == per_stream,
        shown=(Shown("ratio_to_rod", error_column="standard_error"),),
    )


ROD_FIGURE_17 = Experiment(
    name="rod_figure17",
    title="Communication costs and clustering",
    source="Resilient operator distribution, Figure 17 (a) and (b), section 7.3.4",
    columns={
        "operators_per_stream": "operators of each of five streams",
        "communication": "per-tuple communication cost over processing cost",
        "policy": "policy; rod clusters as section 6.3 says",
        "ratio_to_rod": "mean over the graphs of the feasible set over clustered ROD's",
        "ratio_to_ideal": "mean ratio to the ideal set, which knows no communication",
        "bound": "mean upper bound on that ratio, communication left out",
        "standard_error": "of the ratio to ROD",
        "trials": "random graphs averaged",
    },
    summaries=tuple(_beside_rod(per_stream) for per_stream in OPERATORS_PER_STREAM),
    setting="Ten sites, five streams, trees that grow breadth first, all operators of equal cost.",
    run=run,
    draw=draw,
)
