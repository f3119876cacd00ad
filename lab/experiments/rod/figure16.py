"""Figure 16 and Table 3 of the ROD paper: what a known lower bound on the rates is worth (section 7.3.3).

B is a random point of the ideal set and really bounds the rates. A plan is made for B, for the origin, and
for another random point Z; the penalty is the part of the feasible set above B that a plan made for the
wrong bound loses. Penalties are against the same policy's own plan for B. The paper's Table 3 falls with
the number of operators in its text and rises in no column; it is a trend, not a target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.experiment import Experiment
from lab.experiments.figures import panels
from lab.experiments.rod.trials import QUICK_STEPS, averaged, bound_of, plan_sites, ratio_of
from lab.experiments.summary import Reference, Shown, Summary
from lab.experiments.trials import Row, run_trials
from mooring.arrays import Floats
from mooring.figure_style import colour_of, tidy
from mooring.model.load.build import build_load_model
from mooring.model.problem.generate import GraphParameters, generate_problem
from mooring.model.problem.problem import Problem
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POLICIES = ("rod", "resilient")
FIGURE_OPERATORS = 50
TABLE_OPERATORS = (25, 50, 100, 200)
TABLE_3 = {"origin": (0.90, 0.79, 0.56, 0.35), "random": (0.89, 0.83, 0.55, 0.32)}
"""The paper's, for the same numbers of operators."""
POINTS, QUICK_POINTS = 60, 8


@dataclass(frozen=True)
class Bound:
    """One trial: a graph, a real bound and an assumed one."""

    operators: int
    number: int
    seed: int


def trial(bound: Bound) -> list[Row]:
    rng = np.random.default_rng((bound.seed, bound.operators, bound.number))
    base = generate_problem(GraphParameters(operators=bound.operators), rng)
    totals, capacity = build_load_model(base).totals, float(base.capacity_cores.sum())
    real, wrong = _point(len(totals), rng), _point(len(totals), rng)

    def above(point: Floats) -> Problem:
        return base.with_min_rates(point * capacity / totals)

    judged = build_load_model(above(real))
    plans = {
        (policy, assumed): plan_sites(policy, problem, build_load_model(problem), bound.number, QUICK_STEPS)
        for policy in POLICIES
        for assumed, problem in (("real", above(real)), ("origin", base), ("random", above(wrong)))
    }
    ratios = {key: ratio_of(judged, sites) for key, sites in plans.items()}
    ceiling = bound_of(judged, list(plans.values()))
    return [
        {
            "operators": bound.operators,
            "policy": policy,
            "assumed": assumed,
            "number": bound.number,
            "distance_to_ideal": 1.0 - float(real.sum()),
            "distance_between": float(np.linalg.norm(real - wrong)) if assumed == "random" else 0.0,
            "penalty": penalty(ratios[policy, "real"], ratios[policy, assumed]),
            "ratio": ratios[policy, "real"],
            "bound": ceiling,
        }
        for policy in POLICIES
        for assumed in ("origin", "random")
        if ratios[policy, "real"] > 0.0  # else B overloads even the plan made for it, and nothing can be lost
    ]


def penalty(informed: float, assumed: float) -> float:
    """(FSS(B) - FSS(Z)) / FSS(B)."""
    return (informed - assumed) / informed


def _point(streams: int, rng: np.random.Generator) -> Floats:
    spread = rng.exponential(size=streams + 1)
    return np.asarray(spread[:-1] / spread.sum())


def run_figure(*, seed: int, quick: bool, report: Report) -> list[Row]:
    points = QUICK_POINTS if quick else 2 * POINTS
    return run_trials(trial, [Bound(FIGURE_OPERATORS, number, seed) for number in range(points)], report)


def run_table(*, seed: int, quick: bool, report: Report) -> list[Row]:
    points = QUICK_POINTS if quick else POINTS
    bounds = [Bound(operators, number, seed) for operators in TABLE_OPERATORS for number in range(points)]
    rows = averaged(
        run_trials(trial, bounds, report), ("operators", "policy", "assumed"), ("penalty", "ratio", "bound")
    )
    for row in rows:
        row["paper"] = TABLE_3[str(row["assumed"])][TABLE_OPERATORS.index(int(row["operators"]))]
    return rows


def draw_figure(rows: Sequence[Row]) -> Figure:
    figure, (origin, random) = panels(10, 4, 2)
    for axes, assumed, x in ((origin, "origin", "distance_to_ideal"), (random, "random", "distance_between")):
        for policy in POLICIES:
            own = [row for row in rows if row["policy"] == policy and row["assumed"] == assumed]
            points = [float(r[x]) for r in own], [float(r["penalty"]) for r in own]
            axes.scatter(*points, s=14, label=policy, color=colour_of(policy))
        axes.set(ylabel="penalty", ylim=(-0.35, 1.05))
        tidy(axes)
    origin.set(xlabel="distance of B to the ideal plane / of the origin", title="(a) origin assumed")
    random.set(xlabel="distance between B and Z", title="(b) wrong bound assumed")
    origin.legend(frameon=False)
    return figure


def draw_table(rows: Sequence[Row]) -> Figure:
    figure, (axes,) = panels(6, 4.5)
    for policy in POLICIES:
        for assumed, style in (("origin", "o-"), ("random", "s--")):
            own = [row for row in rows if row["policy"] == policy and row["assumed"] == assumed]
            operators = [r["operators"] for r in own]
            line = [r["penalty"] for r in own]
            axes.plot(operators, line, style, color=colour_of(policy), label=f"{policy}, {assumed}")
            if policy == "rod":
                axes.plot(operators, [r["paper"] for r in own], "x", color="#888888")
    axes.set(xlabel="number of operators", ylabel="average penalty", ylim=(0, 1))
    axes.legend(title="crosses: the paper", frameon=False)
    tidy(axes)
    return figure


def _penalty_by(distance: str, title: str, assumed: str) -> Summary:
    return Summary(
        title=title,
        by=(distance, "policy"),
        steps={distance: 0.2},
        where=lambda row: row["assumed"] == assumed,
        shown=(
            Shown("penalty"),
            Shown("ratio", "ratio above B", how="mean alone"),
            Shown("bound", "upper bound", how="mean alone"),
        ),
    )


_PAPER = Reference(
    "paper",
    {
        (operators, assumed, "rod"): penalty
        for assumed, penalties in TABLE_3.items()
        for operators, penalty in zip(TABLE_OPERATORS, penalties, strict=True)
    },
)
_COLUMNS = {
    "operators": "number of operators in five trees",
    "policy": "policy",
    "assumed": "the bound the plan was made for: the origin, or another random point",
}
ROD_FIGURE_16 = Experiment(
    name="rod_figure16",
    title="Penalty for not knowing, or mistaking, the lower bound",
    source="Resilient operator distribution, Figure 16 (a) and (b), section 7.3.3",
    columns=_COLUMNS
    | {
        "number": "the random bound",
        "distance_to_ideal": "distance of B to the ideal plane over that of the origin",
        "distance_between": "distance between B and the bound assumed, in normalised space",
        "penalty": "part of the set above B that is lost",
        "ratio": "ratio to the ideal set above B of the plan made for B",
        "bound": "upper bound on that ratio for any plan",
    },
    summaries=(
        _penalty_by("distance_to_ideal", "(a) the origin assumed", "origin"),
        _penalty_by("distance_between", "(b) another bound assumed", "random"),
    ),
    setting="Ten sites, five streams, 50 operators in trees that grow breadth first.",
    run=run_figure,
    draw=draw_figure,
)
ROD_TABLE_3 = Experiment(
    name="rod_table3",
    title="Average penalty for the wrong lower bound",
    source="Resilient operator distribution, Table 3, section 7.3.3",
    columns=_COLUMNS
    | {
        "penalty": "mean part of the set above B that is lost",
        "ratio": "mean ratio to the ideal set above B of the plan made for B",
        "bound": "mean upper bound on that ratio for any plan",
        "standard_error": "of the penalty",
        "trials": "random bounds averaged, each on its own graph; not those that overload the plan for them",
        "paper": "the paper's",
    },
    summaries=(
        Summary(
            by=("operators", "assumed", "policy"),
            shown=(
                Shown("penalty", error_column="standard_error", beside=_PAPER),
                Shown("ratio", "ratio above B"),
                Shown("bound", "upper bound"),
            ),
        ),
    ),
    setting="Ten sites, five streams, trees that grow breadth first.",
    run=run_table,
    draw=draw_table,
)
