"""Figure 2b of the ants paper: mean latency of all queries by their number, for ants and those who know all.

The paper's "optimal" cannot be computed for a hundred queries; the reference is coordinate descent from a
good start. Its "centralized" is steepest descent, here from a random start. What took how long is counted in
steps: those of ants, and placements that descent has judged. Random placements are drawn until one overloads
no site.
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
from mooring.algorithms.baselines.random_placement import random_assign
from mooring.arrays import Ints
from mooring.contracts.policy import Context
from mooring.figure_style import colour_of
from mooring.model.problem.problem import Problem
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SITES = 100
POLICIES = ("ants", "ants, descent", "descent", "descent, random start", "random")
DRAWS = 1000
"""Random placements that are drawn at most for one that overloads nothing."""


@dataclass(frozen=True)
class Trial:
    queries: int
    number: int
    sites: int
    seed: int


def place_all(trial: Trial) -> list[Row]:
    rng = np.random.default_rng([trial.seed, trial.queries, trial.number])
    problem = drawn_queries(rng, trial.sites, trial.queries).problem
    search = LatencySearch.of(problem, Context.of(problem).load)
    found, steps = _placements(problem, search, trial.seed + trial.number)
    reference_s = search.mean_latency_s(found["descent"])
    return [
        {
            "queries": trial.queries,
            "policy": policy,
            "number": trial.number,
            "latency_ms": 1e3 * search.mean_latency_s(found[policy]),
            "to_reference": search.mean_latency_s(found[policy]) / reference_s,
            "steps": steps.get(policy, 0),
            "sites": trial.sites,
        }
        for policy in POLICIES
        if policy in found
    ]


def _placements(problem: Problem, search: LatencySearch, seed: int) -> tuple[dict[str, Ints], dict[str, int]]:
    policy = Ants(descent=5)
    context = Context.of(problem, seed)
    run = policy.forage(problem, context)
    found = {"ants": policy.with_refused(run).copy()}
    found["ants, descent"] = policy.finish(run, found["ants"], context)
    good = search.shortest_ways()
    rng = np.random.default_rng(seed)
    uniform = random_assign(search.model, rng, balanced=False)
    found["descent"], _ = search.descend(uniform if good is None else good, passes=50)
    found["descent, random start"], _ = search.descend(uniform, passes=50)
    for _ in range(DRAWS):
        sites = random_assign(search.model, rng)
        if search.many.latencies(sites).site_utilisation.max() < 1.0:
            found["random"] = sites
            break
    return found, {"ants": int(run.colony.steps.sum())}


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    counts, numbers, sites = ((10, 20), 1, 40) if quick else ((10, 30, 60, 100), 3, SITES)
    trials = [Trial(count, number, sites, seed) for count in counts for number in range(numbers)]
    return run_trials(place_all, trials, report)


def draw(rows: Sequence[Row]) -> Figure:
    figure, (axes,) = panels(7, 4)
    for policy in POLICIES:
        plot_means(
            axes,
            rows,
            "queries",
            "latency_ms",
            {"policy": policy},
            marker=".",
            label=policy,
            color=colour_of(policy),
        )
    axes.set(title="Figure 2b", xlabel="queries", ylabel="mean end-to-end latency, ms", ylim=(0, None))
    finish(axes)
    return figure


def conclude(rows: Sequence[Row]) -> list[str]:
    """Whether planning grows faster than the queries."""
    own = [row for row in rows if row["policy"] == "ants"]
    counts = sorted({int(row["queries"]) for row in own})
    few, many = (
        np.mean([float(row["steps"]) / count for row in own if row["queries"] == count])
        for count in (counts[0], counts[-1])
    )
    said = [f"Ants made {few:,.0f} steps per query for {counts[0]} queries, {many:,.0f} for {counts[-1]}."]
    for count in counts:
        drawn = sum((row["policy"], row["queries"]) == ("random", count) for row in rows)
        if drawn < (trials := sum(row["queries"] == count for row in own)):
            said.append(
                f"With {count} queries, {trials - drawn} of {trials} trials have no random placement: each "
                f"of {DRAWS:,} overloaded a site. The means of the others are of all trials."
            )
    return said


ANTS_FIGURE_2B = Experiment(
    name="ants_figure2b",
    title="Mean latency of all queries by their number",
    source="Ants, figure 2b, section 4",
    columns={
        "queries": "queries placed, as the paper counts them",
        "policy": "policy, and what it starts from or ends with",
        "number": "number of the network and query set",
        "latency_ms": "mean latency of all queries, queues included",
        "to_reference": "relative to descent from a good start",
        "steps": "steps of ants from site to site, all rounds together",
        "sites": "sites of the network",
    },
    summaries=(
        Summary(
            title="Mean latency relative to descent from a good start",
            by=("queries",),
            across="policy",
            shown=(Shown("to_reference"),),
        ),
        Summary(
            title="Steps of ants",
            by=("queries",),
            shown=(Shown("steps"), Shown("latency_ms")),
            where=lambda row: row["policy"] == "ants",
        ),
    ),
    setting="100 sites of 1, 2 or 4 cores, 200 ms across; 2 to 5 tasks, fan-in or fan-out in two of five.",
    run=run,
    draw=draw,
    conclude=conclude,
)
