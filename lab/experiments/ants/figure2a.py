"""Figure 2a of the ants paper: latency of one query by the number of its tasks, beside the optimum.

Up to three tasks on 40 sites, up to eight on smaller networks, where the optimum can still be found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.ants.mixed_queries import drawn_queries
from lab.experiments.experiment import Experiment
from lab.experiments.figures import finish, panels, plot_means
from lab.experiments.summary import Shown, Summary
from lab.experiments.trials import Row, run_trials
from mooring.algorithms.ants.latency_search import LatencySearch
from mooring.algorithms.ants.policy import Ants
from mooring.algorithms.exact.latency_optimum import latency_optimum
from mooring.contracts.policy import Context
from mooring.figure_style import colour_of
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SITES = {1: 40, 2: 40, 3: 40, 4: 16, 5: 16, 6: 10, 7: 10, 8: 10}
"""Per number of tasks."""


@dataclass(frozen=True)
class Trial:
    tasks: int
    number: int
    seed: int


def place_one(trial: Trial) -> list[Row]:
    rng = np.random.default_rng([trial.seed, trial.tasks, trial.number])
    sites, tasks = SITES[trial.tasks], (trial.tasks, trial.tasks)
    problem = drawn_queries(rng, sites, 1, tasks=tasks, chains_only=True).problem
    context = Context.of(problem, trial.seed + trial.number)
    search = LatencySearch.of(problem, context.load)
    found = {
        "optimal": latency_optimum(problem, context.load, node_budget=200_000_000),
        "ants": Ants().place(problem, context).site_of_fragment,
    }
    least_s = search.mean_latency_s(found["optimal"])
    return [
        {
            "tasks": trial.tasks,
            "policy": policy,
            "number": trial.number,
            "sites": sites,
            "latency_ms": 1e3 * search.mean_latency_s(where),
            "over_optimal": search.mean_latency_s(where) / least_s - 1.0,
        }
        for policy, where in found.items()
    ]


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    tasks, numbers = ((1, 3, 5), 2) if quick else (tuple(SITES), 100)
    return run_trials(place_one, [Trial(k, n, seed) for k in tasks for n in range(numbers)], report)


def draw(rows: Sequence[Row]) -> Figure:
    figure, (axes,) = panels(6, 4)
    for policy in ("optimal", "ants"):
        plot_means(
            axes,
            rows,
            "tasks",
            "latency_ms",
            {"policy": policy},
            marker=".",
            label=policy,
            color=colour_of(policy),
        )
    axes.set(title="Figure 2a", xlabel="tasks of the query", ylabel="end-to-end latency, ms", ylim=(0, None))
    finish(axes)
    return figure


ANTS_FIGURE_2A = Experiment(
    name="ants_figure2a",
    title="Latency of one query by its tasks, by ants and by exhaustive search",
    source="Ants, figure 2a, section 4",
    columns={
        "tasks": "tasks of the query, a chain",
        "policy": "optimal (exhaustive, by branch and bound) or ants",
        "number": "number of the network and query",
        "sites": "sites of the network",
        "latency_ms": "latency of the query, queues included",
        "over_optimal": "latency over the optimum, less 1",
    },
    summaries=(
        Summary(
            by=("tasks", "sites"),
            shown=(
                Shown("latency_ms", "ants, ms"),
                Shown("over_optimal"),
                Shown("over_optimal", "largest", how="largest"),
            ),
            where=lambda row: row["policy"] == "ants",
        ),
    ),
    setting="Transit-stub networks of 200 ms across, sites of 1, 2 or 4 cores; 20 routing ants, 60 scouts.",
    run=run,
    draw=draw,
)
