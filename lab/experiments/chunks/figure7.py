"""Figure 7 of the chunk paper: how close searches come to the optimum, on a plan whose optimum is known.

Ten like operators in a chain. The paper takes the best partitioning of one operator, for all, as the optimum;
its genetic search, from random candidates, ends within 2.5 ms of it on average.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.chunks.plans import chain_edges, plan_problem, unlike_sites
from lab.experiments.chunks.searches import FRAMES, SKIP, searched
from lab.experiments.experiment import Experiment
from lab.experiments.figures import finish, panels, plot_means
from lab.experiments.summary import Reference, Shown, Summary
from lab.experiments.trials import Row, run_trials
from mooring.chunks.search.evaluation import Assignment, ChunkEvaluator
from mooring.chunks.search.search_log import StoppingRules
from mooring.chunks.search.space import SearchSpace
from mooring.chunks.timing.latency_bound import latency_bound
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OPERATORS, SITES, LOAD, MOST_CHUNKS = 10, 6, 0.3, 16
SEARCHES = {"cyclical": None, "genetic": 64}
STEPS = (2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000)


@dataclass(frozen=True)
class Case:
    search: str
    number: int
    most_evaluations: int
    seed: int


def approach(case: Case) -> list[Row]:
    """One search from a random start; the sites are the same for all of one number."""
    problem = plan_problem(
        chain_edges(OPERATORS), unlike_sites(SITES, np.random.default_rng([case.seed, case.number])), LOAD
    )
    rng = np.random.default_rng([case.seed, case.number, 1])
    space = SearchSpace.of(problem, MOST_CHUNKS)
    evaluator = ChunkEvaluator(problem, Assignment.TIERED, FRAMES, SKIP)
    optimum_ms = min(evaluator.latency_ms([each] * OPERATORS) for each in space.choices[0])
    bound_ms = latency_bound(problem, MOST_CHUNKS, FRAMES).mean_ms(SKIP)
    rules = StoppingRules(most_evaluations=case.most_evaluations)
    population = SEARCHES[case.search]
    log = searched(problem, Assignment.TIERED, MOST_CHUNKS, rng, population=population, rules=rules)
    return [
        {
            "search": case.search,
            "number": case.number,
            "chunks": chunks,
            "best_ms": best_ms,
            "uniform_ms": optimum_ms,
            "bound_ms": bound_ms,
            "over_ms": best_ms - optimum_ms,
            "to_uniform": best_ms / optimum_ms,
        }
        for chunks in STEPS
        for best_ms in (log.best_after(chunks) if chunks < STEPS[-1] else log.best_ms,)
    ]


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    numbers, evaluations = (1, 1000) if quick else (10, 10_000)
    cases = [Case(search, k, evaluations, seed) for search in SEARCHES for k in range(numbers)]
    return run_trials(approach, cases, report)


def draw(rows: Sequence[Row]) -> Figure:
    figure, (axes,) = panels(6, 4)
    for search in SEARCHES:
        plot_means(axes, rows, "chunks", "over_ms", {"search": search}, marker="o", label=search)
    axes.axhline(0.0, color="black", linestyle=":", label="best uniform partitioning")
    axes.set(
        title="Figure 7", xlabel="chunks simulated per frame", ylabel="latency over it (ms)", xscale="log"
    )
    finish(axes)
    return figure


CHUNKS_FIGURE_7 = Experiment(
    name="chunks_figure7",
    title="Searches against the best uniform partitioning of a chain of ten",
    source="chunk paper, figure 7, section 4.1",
    columns={
        "search": "cyclical, or genetic with a population of 64, from a random start",
        "number": "number of the draw of sites and start",
        "chunks": "chunks simulated until then, per simulated frame: what a search's time goes into",
        "best_ms": "best latency found until then",
        "uniform_ms": "latency with the best partitioning that all operators share",
        "bound_ms": "lower bound",
        "over_ms": "best latency less that",
        "to_uniform": "best latency to it",
    },
    summaries=(
        Summary(
            title="At the end",
            by=("search",),
            where=lambda row: row["chunks"] == STEPS[-1],
            shown=(
                Shown("over_ms", "over it, ms", beside=Reference("paper", {("genetic",): 2.5})),
                Shown("to_uniform", "to it"),
                Shown("to_uniform", "to it, worst", how="largest"),
                Shown("uniform_ms", how="mean alone"),
                Shown("bound_ms", how="mean alone"),
            ),
        ),
        Summary(
            title="Best latency to the best uniform one, as chunks are simulated",
            by=("chunks",),
            across="search",
            shown=(Shown("to_uniform"),),
        ),
    ),
    setting="10 operators, 6 unlike sites, at most 16 chunks per operator, load .3, Tiered.",
    run=run,
    draw=draw,
)
