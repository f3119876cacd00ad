"""Figure 5 of the chunk paper: Global, Local and Tiered on two plans, relative to the worst of them.

The paper's Simple plan joins two operators; its Complex one is a tree of 20 operators with 6 joins over 7
inputs. Section 3.2 also says that Global is best where operators are independent: a third plan shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.chunks.plans import PLANS, SITES, drawn_problem
from lab.experiments.experiment import Experiment
from lab.experiments.figures import finish, panels
from lab.experiments.summary import Shown, Summary
from lab.experiments.trials import Row, run_trials
from mooring.chunks.assignment.balancing import Balancer, Scope
from mooring.chunks.partitioning import Partitioning
from mooring.chunks.timing.arrays import WorkTables
from mooring.chunks.timing.latency_bound import latency_bound
from mooring.chunks.timing.simulate import FrameSimulation
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTITIONING = Partitioning((4, 4))
LOAD = 0.5
FRAMES, SKIP = 24, 4
ORDER = (Scope.TIERED, Scope.LOCAL, Scope.GLOBAL)


@dataclass(frozen=True)
class Case:
    plan: str
    sites: str
    number: int
    seed: int


def balance_all(case: Case) -> list[Row]:
    """Every scope from the same random assignment, until nothing moves."""
    rng = np.random.default_rng([case.seed, case.number])
    problem = drawn_problem(case.plan, case.sites, LOAD, rng)
    work = WorkTables(problem, 1).of([PARTITIONING] * len(problem.operators))
    start = rng.integers(0, len(problem.sites), len(work.operator))
    simulation, latencies_ms = FrameSimulation(problem), {}
    for scope in ORDER:
        balancer, site_of = Balancer.of(problem, scope), start.copy()
        balancer.settle(work.cycles[0], work.first, site_of)
        latencies_ms[scope] = simulation.assigned(work, site_of, FRAMES).mean_ms(SKIP)
    bound_ms = latency_bound(problem, PARTITIONING.count, FRAMES).mean_ms(SKIP)
    return [
        {
            "plan": case.plan,
            "sites": case.sites,
            "number": case.number,
            "scope": str(scope),
            "latency_ms": latency_ms,
            "to_worst": latency_ms / max(latencies_ms.values()),
            "to_bound": latency_ms / bound_ms,
        }
        for scope, latency_ms in latencies_ms.items()
    ]


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    numbers = 2 if quick else 12
    cases = [Case(plan, sites, k, seed) for plan in PLANS for sites in SITES for k in range(numbers)]
    return run_trials(balance_all, cases, report)


def mean_to_worst(rows: Sequence[Row], plan: str, sites: str) -> dict[str, float]:
    return {
        str(scope): float(
            np.mean(
                [
                    float(row["to_worst"])
                    for row in rows
                    if (row["plan"], row["sites"], row["scope"]) == (plan, sites, str(scope))
                ]
            )
        )
        for scope in ORDER
    }


def conclude(rows: Sequence[Row]) -> list[str]:
    said = []
    for plan in PLANS:
        for sites in SITES:
            means = mean_to_worst(rows, plan, sites)
            ranked = sorted(means, key=means.__getitem__)
            listed = ", ".join(f"{scope} {means[scope]:.2f}" for scope in ranked)
            said.append(f"{plan.capitalize()} on {sites} sites, best first: {listed}.")
    return said


def draw(rows: Sequence[Row]) -> Figure:
    figure, sides = panels(8, 3.5, len(SITES), sharey=True)
    for axes, sites in zip(sides, SITES, strict=True):
        for shift, scope in enumerate(ORDER):
            heights = [mean_to_worst(rows, plan, sites)[str(scope)] for plan in PLANS]
            axes.bar(np.arange(len(PLANS)) + 0.25 * (shift - 1), heights, width=0.25, label=str(scope))
        axes.set(title=f"Figure 5, {sites} sites", ylabel="latency to the worst", ylim=(0, 1.05))
        axes.set_xticks(range(len(PLANS)), PLANS)
        finish(axes, ncols=3)
    return figure


CHUNKS_FIGURE_5 = Experiment(
    name="chunks_figure5",
    title="Three ways of balancing chunks over sites, relative to the worst",
    source="chunk paper, figure 5, section 3.2",
    columns={
        "plan": "simple (2 operators and their join), complex (20 operators) or independent (6 operators)",
        "sites": "like (equal speeds) or unlike (half to one and a half times the average)",
        "number": "number of the draw",
        "scope": "whose chunks burden a site: those of all operators, of the operator alone, of its tier",
        "latency_ms": "mean latency of a frame",
        "to_worst": "latency to that of the worst of the three in the same draw",
        "to_bound": "latency to its lower bound",
    },
    summaries=(Summary(by=("plan", "sites", "scope"), shown=(Shown("to_worst"), Shown("to_bound"))),),
    setting="16 chunks per operator, uneven costs, load .5; 6 sites, 12 for the complex plan.",
    run=run,
    draw=draw,
    conclude=conclude,
)
