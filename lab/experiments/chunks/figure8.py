"""Figure 8 of the chunk paper: costs move within a plan, and three ways of adapting to it (section 5.1).

The Simple plan on six sites, three of them twice as fast. At first all operators cost the same, evenly.
Then most of one input's cost moves to the other, and most of the join's onto one half of its array. Dedicated
and shared sets of sites keep the partitionings that were best before; the search may choose anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.chunks.plans import SIMPLE, SITE_HZ, plan_problem
from lab.experiments.chunks.searches import searched
from lab.experiments.experiment import Experiment
from lab.experiments.figures import finish, panels, plot_means
from lab.experiments.summary import Key, Reference, Shown, Summary
from lab.experiments.trials import Row, run_trials
from mooring.chunks.complexity import ComplexityMap
from mooring.chunks.model import ChunkProblem, ChunkSite
from mooring.chunks.search.evaluation import Assignment, ChunkEvaluator
from mooring.chunks.timing.latency_bound import latency_bound
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOADS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
MOVED_COSTS = (0.2, 1.8, 1.0)
"""Of the two inputs and the join, 1 being what each had before."""
BUSY_HALF = ComplexityMap(np.array([[0.8, 0.2]]))
MOST_CHUNKS = 32
FRAMES, SKIP = 40, 10
WAYS = ("dedicated", "shared", "search + tiered", "search + earliest finish")
PROTOTYPE: dict[Key, float] = {("dedicated",): 2.82, ("shared",): 2.34, ("search + tiered",): 1.02}


@dataclass(frozen=True)
class Case:
    load: float
    seed: int


def before_and_after(load: float) -> tuple[ChunkProblem, ChunkProblem]:
    sites = tuple(ChunkSite(f"s{k}", SITE_HZ * (2.0 if k < 3 else 1.0)) for k in range(6))
    even = ComplexityMap.even(1.0, 2)
    before = plan_problem(SIMPLE, sites, load)
    return before, plan_problem(SIMPLE, sites, load, [even, even, BUSY_HALF], MOVED_COSTS)


def adapt(case: Case) -> list[Row]:
    rng = np.random.default_rng(case.seed)
    before, after = before_and_after(case.load)
    bound_ms = latency_bound(after, MOST_CHUNKS, FRAMES).mean_ms(SKIP)
    rows: list[Row] = []
    for way, assignment, searches_anew in (
        (WAYS[0], Assignment.DEDICATED, False),
        (WAYS[1], Assignment.SHARED, False),
        (WAYS[2], Assignment.TIERED, True),
        (WAYS[3], Assignment.EARLIEST_FINISH, True),
    ):
        log = searched(before, assignment, MOST_CHUNKS, rng)
        if searches_anew:
            log = searched(after, assignment, MOST_CHUNKS, rng, seeds=[log.best])
        partitionings = log.space.partitionings(log.best)
        latency_ms = ChunkEvaluator(after, assignment, FRAMES, SKIP).latency_ms(partitionings)
        rows.append(
            {
                "load": case.load,
                "way": way,
                "latency_ms": latency_ms,
                "bound_ms": bound_ms,
                "to_bound": latency_ms / bound_ms,
                "chunks": ", ".join(str(each) for each in partitionings),
            }
        )
    return rows


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    return run_trials(adapt, [Case(load, seed) for load in (LOADS[:1] if quick else LOADS)], report)


def draw(rows: Sequence[Row]) -> Figure:
    figure, (axes,) = panels(6, 4)
    for way in WAYS:
        plot_means(axes, rows, "load", "latency_ms", {"way": way}, marker="o", label=way)
    plot_means(axes, rows, "load", "bound_ms", {"way": WAYS[0]}, color="black", linestyle=":", label="bound")
    axes.set(title="Figure 8", xlabel="load", ylabel="latency (ms)", yscale="log")
    finish(axes)
    return figure


CHUNKS_FIGURE_8 = Experiment(
    name="chunks_figure8",
    title="Adapting to costs that have moved: dedicated, shared and searched",
    source="chunk paper, figure 8, section 5.1",
    columns={
        "load": "part of all sites' cycles that the frames need",
        "way": "sites of its own per operator with Local, fixed overlapping sets with Tiered, or a search",
        "latency_ms": "mean latency of a frame after costs have moved",
        "bound_ms": "its lower bound",
        "to_bound": "latency to the bound",
        "chunks": "the partitionings of the two inputs and the join",
    },
    summaries=(
        Summary(
            title="At load .1",
            by=("way",),
            where=lambda row: row["load"] == LOADS[0],
            shown=(
                Shown("latency_ms", how="mean alone"),
                Shown("bound_ms", how="mean alone"),
                Shown("to_bound", how="mean alone", beside=Reference("prototype", PROTOTYPE)),
            ),
            counted="",
        ),
        Summary(
            title="Latency to the bound, by load",
            by=("load",),
            across="way",
            shown=(Shown("to_bound", how="mean alone"),),
            counted="",
        ),
    ),
    setting="Simple plan; 6 sites, 3 twice as fast; inputs cost .2 and 1.8, 80% of the join on a half.",
    run=run,
    draw=draw,
)
