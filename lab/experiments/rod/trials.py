"""What the experiments of the ROD paper share: a plan by each policy, its ratio, and what no plan could
exceed.

The search is limited in steps, not in time, so that trials stay pure functions of their parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.figures import finish
from lab.experiments.trials import Row
from mooring.algorithms.catalogue import make_policy
from mooring.arrays import Ints
from mooring.contracts.policy import Context
from mooring.figure_style import colour_of
from mooring.model.bounds.upper_bound import upper_bound
from mooring.model.load.feasible.feasible_set import FeasibleSet
from mooring.model.load.model import LoadModel
from mooring.model.problem.problem import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 2**14
STEPS, QUICK_STEPS = 400_000, 60_000
"""Steps of a search: about .4 and .1 seconds at a hundred operators."""


def plan_sites(
    policy: str, problem: Problem, model: LoadModel, seed: int, steps: int, **settings: str
) -> Ints:
    """The plan of a policy by name; `steps` limits those that search."""
    context = Context(load=model, rng=np.random.default_rng(seed), steps=steps)
    return make_policy(policy, settings).place(problem, context).site_of_fragment


def ratio_of(model: LoadModel, sites: Ints) -> float:
    return FeasibleSet.of(model, sites).ratio(POINTS).value


def bound_of(model: LoadModel, plans: Sequence[Ints]) -> float:
    """The upper bound, given several plans: the better the plan, the fewer nodes it takes."""
    return upper_bound(model, max(plans, key=lambda sites: ratio_of(model, sites)))


def averaged(trials: Sequence[Row], by: Sequence[str], values: Sequence[str]) -> list[Row]:
    """Means of the values over all trials that agree in `by`, each with the standard error of the first."""
    groups: dict[tuple[str | int | float, ...], list[Row]] = {}
    for trial in trials:
        groups.setdefault(tuple(trial[name] for name in by), []).append(trial)
    rows: list[Row] = []
    for key, own in groups.items():
        row: Row = dict(zip(by, key, strict=True))
        for name in values:
            row[name] = fmean(float(trial[name]) for trial in own)
        first = [float(trial[values[0]]) for trial in own]
        row["standard_error"] = stdev(first) / len(first) ** 0.5 if len(first) > 1 else 0.0
        row["trials"] = len(own)
        rows.append(row)
    return rows


def draw_lines(axes: Axes, rows: Sequence[Row], x: str, y: str) -> None:
    """One line per policy."""
    for policy in dict.fromkeys(str(row["policy"]) for row in rows):
        own = [row for row in rows if row["policy"] == policy]
        axes.plot([r[x] for r in own], [r[y] for r in own], "o-", label=policy, color=colour_of(policy))
    finish(axes)
