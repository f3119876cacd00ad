"""How far frames are above the latency bound, by load: balanced, and dispatched by earliest finish.

Complexity is spread unevenly and moves with every frame. Earliest finish knows the costs of the frame that it
scatters exactly, or has learned them from the frames that were done by then, measured with an error of 5%.
Balancing adapts by one round per frame, by the exact costs of the frame before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.chunks.learned_costs import estimates_by_frame
from lab.experiments.chunks.plans import SITES, drawn_problem
from lab.experiments.chunks.searches import evaluated_here
from lab.experiments.experiment import Experiment
from lab.experiments.figures import finish, panels, plot_means
from lab.experiments.summary import Shown, Summary
from lab.experiments.trials import Row, run_trials
from mooring.chunks.model import ChunkProblem
from mooring.chunks.partitioning import Partitioning
from mooring.chunks.search.cyclical import search_cyclically
from mooring.chunks.search.evaluation import Assignment, ChunkEvaluator
from mooring.chunks.search.search_log import SearchLog, StoppingRules
from mooring.chunks.search.space import SearchSpace
from mooring.chunks.timing.arrays import WorkTables
from mooring.chunks.timing.latency_bound import EARLIER_FRAMES, latency_bound, operator_limits
from mooring.chunks.timing.simulate import FrameSimulation
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLANS = ("simple", "complex")
LOADS = (0.2, 0.4, 0.6, 0.8, 0.9)
MOST_CHUNKS = 32
FRAMES, SKIP = 24, 4
NOISE = 0.05
EXACT, LEARNED = "earliest finish", "earliest finish, learned"
EXACTLY_KNOWN = {
    "tiered": Assignment.TIERED,
    "local": Assignment.LOCAL,
    "global": Assignment.GLOBAL,
    EXACT: Assignment.EARLIEST_FINISH,
}


@dataclass(frozen=True)
class Case:
    plan: str
    sites: str
    number: int
    most_evaluations: int
    seed: int


def measure_gaps(case: Case) -> list[Row]:
    rng = np.random.default_rng([case.seed, case.number])
    drawn = drawn_problem(case.plan, case.sites, 1.0, rng, moves=True)
    partitionings = _searched(replace(drawn, frames_per_s=0.5 * drawn.frames_per_s), case.most_evaluations)
    tables = WorkTables(drawn, FRAMES)
    limits = operator_limits(tables, MOST_CHUNKS)
    rows: list[Row] = []
    for load in LOADS:
        problem = replace(drawn, frames_per_s=load * drawn.frames_per_s)
        bound_ms, alone_ms = (
            latency_bound(problem, MOST_CHUNKS, FRAMES, limits=limits, earlier_frames=earlier).mean_ms(SKIP)
            for earlier in (EARLIER_FRAMES, 0)
        )
        for way, latency_ms in _latencies_ms(problem, tables, partitionings, rng).items():
            rows.append(
                {
                    "plan": case.plan,
                    "sites": case.sites,
                    "number": case.number,
                    "load": load,
                    "way": way,
                    "latency_ms": latency_ms,
                    "bound_ms": bound_ms,
                    "gap": latency_ms / bound_ms - 1.0,
                    "bound_to_alone": bound_ms / alone_ms,
                }
            )
    return rows


def _searched(problem: ChunkProblem, most_evaluations: int) -> list[Partitioning]:
    """Found for earliest finish on a few frames: the best that all share, then operator by operator."""
    space = SearchSpace.of(problem, MOST_CHUNKS)
    evaluator = ChunkEvaluator(problem, Assignment.EARLIEST_FINISH, frames=12, skip=2)
    log = SearchLog(space, evaluated_here(evaluator, space), StoppingRules(most_evaluations=most_evaluations))
    log.latencies_ms([space.uniform(each) for each in space.choices[0] if each.count >= MOST_CHUNKS // 4])
    search_cyclically(log, log.best)
    return space.partitionings(log.best)


def _latencies_ms(
    problem: ChunkProblem,
    tables: WorkTables,
    partitionings: Sequence[Partitioning],
    rng: np.random.Generator,
) -> dict[str, float]:
    found = {
        name: ChunkEvaluator(problem, each, FRAMES, SKIP, given_tables=tables).latency_ms(partitionings)
        for name, each in EXACTLY_KNOWN.items()
    }
    work = tables.of(partitionings)
    # Frames that are under way have not been measured yet.
    lag = 1 + int(found[EXACT] / 1e3 * problem.frames_per_s)
    believed = estimates_by_frame(problem, partitionings, work.cycles, lag, NOISE, rng)
    found[LEARNED] = FrameSimulation(problem).earliest_finish(work, FRAMES, believed).mean_ms(SKIP)
    return found


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    numbers, evaluations = (1, 60) if quick else (12, 1000)
    cases = [
        Case(plan, sites, k, evaluations, seed)
        for plan in (PLANS[:1] if quick else PLANS)
        for sites in (SITES[1:] if quick else SITES)
        for k in range(numbers)
    ]
    return run_trials(measure_gaps, cases, report)


def draw(rows: Sequence[Row]) -> Figure:
    figure, sides = panels(8, 4, 2)
    for axes, plan in zip(sides, PLANS, strict=True):
        for way in (*EXACTLY_KNOWN, LEARNED):
            plot_means(axes, rows, "load", "gap", {"plan": plan, "way": way}, marker="o", label=way)
        axes.set(title=f"Gap, {plan} plan", xlabel="load", ylabel="latency over the bound", ylim=(0, 1))
        finish(axes)
    return figure


def _gaps(plan: str, sites: str) -> Summary:
    return Summary(
        title=f"Latency over the bound: {plan}, {sites} sites",
        by=("load",),
        across="way",
        where=lambda row: (row["plan"], row["sites"]) == (plan, sites),
        shown=(Shown("gap"),),
    )


CHUNKS_BOUND = Experiment(
    name="chunks_bound",
    title="Latency of frames over their lower bound, by load",
    source="chunk paper, section 3; bound and earliest finish are ours",
    columns={
        "plan": "simple (2 operators and their join) or complex (20 operators)",
        "sites": "like (equal speeds) or unlike (half to one and a half times the average)",
        "number": "number of the draw",
        "load": "part of all sites' cycles that the frames need",
        "way": "how chunks find their sites",
        "latency_ms": "mean latency of a frame",
        "bound_ms": "its lower bound",
        "gap": "latency over the bound, as a part of it",
        "bound_to_alone": "the bound to what it is when earlier frames do not count",
    },
    summaries=(
        *(_gaps(plan, sites) for plan in PLANS for sites in SITES),
        Summary(
            title="What earlier frames add to the bound",
            by=("plan", "load"),
            where=lambda row: row["way"] == EXACT,
            shown=(
                Shown("bound_ms", how="mean alone"),
                Shown("bound_to_alone", how="mean alone"),
                Shown("bound_to_alone", "largest", how="largest"),
            ),
        ),
    ),
    setting="Moving uneven costs; up to 32 chunks per operator, searched for earliest finish at load .5.",
    run=run,
    draw=draw,
)
