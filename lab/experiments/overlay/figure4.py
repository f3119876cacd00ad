"""Figure 4 of the overlays paper: the bandwidth of a random feasible plan, of the best plan, and after the
rates were halved.

Random Plan takes for every query any of its feasible plans, Best Plan the cheapest. Then all streams send
half as much, and the cheapest plans for that are found from what runs (Adaptive Plan); beside it stands the
best plan left alone, which saves half by doing nothing. The paper reaches its best plans from the random ones
while they run. Where sites are nearly full that takes many moves one after the other, so what three rounds
over all queries reach that way is a stage of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Literal

import numpy as np

from lab.experiments.experiment import Experiment
from lab.experiments.figures import finish, panels, plot_means
from lab.experiments.overlay.shared_chains import CHAINS, SharedChains, draw_chains
from lab.experiments.summary import Shown, Summary
from lab.experiments.trials import Row, run_trials
from mooring.algorithms.overlay.policy import Overlay
from mooring.contracts.policy import Context
from mooring.figure_style import colour_of
from mooring.model.placement.admission import without_queries
from mooring.model.placement.network_metrics import network_metrics
from mooring.model.placement.placement import Placement
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = (50, 100, 200, 400)
DRAWS = 2
QUICK_SITES, QUICK_CHAINS = 10, 20
"""As many chains per site as at 50 sites, so that whole chains fit at one."""
ROUNDS = 3
RANDOM, IMPROVED, BEST = "random plan", f"improved {ROUNDS} times", "best plan"
LEFT, ADAPTED = "best, half rates", "adapted, half rates"
STAGES = (RANDOM, BEST, LEFT, ADAPTED)
"""Those of every trial."""
Objective = Literal["operators", "everything"]


@dataclass(frozen=True)
class Figure4Trial:
    series: str
    """`sizes`: one workload on growing networks; `utilisations`: 100 sites used to a share."""
    sites: int
    utilisation: float
    """In the series of sizes that of the smallest."""
    counts: Objective
    seed: int
    chains: int = CHAINS
    rounds: int = 0
    """In which the random plan is improved while it runs."""


def change_plans(trial: Figure4Trial) -> list[Row]:
    of_sites = min(SIZES[0], trial.sites) if trial.series == "sizes" else None
    chains = draw_chains(trial.sites, trial.utilisation, trial.seed, chains=trial.chains, of_sites=of_sites)
    ours, problem = Overlay(counts=trial.counts), chains.problem()
    drawn = replace(ours, choice="random").place(problem, Context.of(problem, seed=trial.seed))
    best = ours.place(drawn.problem, Context.of(drawn.problem, seed=trial.seed))
    left_out = {*drawn.rejected, *best.rejected}
    left = Placement(without_queries(chains.problem(rate=0.5), left_out), best.site_of_fragment)
    stages = {RANDOM: drawn, BEST: best, LEFT: left, ADAPTED: _improved(ours, left, trial.seed)}
    improved = Placement(drawn.problem, drawn.site_of_fragment)
    for _ in range(trial.rounds):
        improved = stages[IMPROVED] = _improved(ours, improved, trial.seed)
    common: Row = {"series": trial.series, "sites": trial.sites, "counts": trial.counts, "seed": trial.seed}
    common |= {"utilisation": round(chains.utilisation, 4)}
    return [{**common, "stage": stage, **_measured(chains, placement)} for stage, placement in stages.items()]


def _improved(policy: Overlay, running: Placement, seed: int) -> Placement:
    context = replace(Context.of(running.problem, seed=seed), current=running)
    return policy.place(running.problem, context)


def _measured(chains: SharedChains, placement: Placement) -> Row:
    rate, metrics = placement.problem.streams[0].rate, network_metrics(placement)
    latency_ms, bandwidth = metrics.latency_ms, metrics.bandwidth
    assert isinstance(latency_ms, dict)
    assert isinstance(bandwidth, float)
    limit_ms = {query.name: query.max_latency_ms or np.inf for query in placement.problem.queries}
    return {
        "operators_kb_s": chains.bandwidth(chains.sites_of(placement), rate) / 1e3,
        "everything_kb_s": bandwidth / 1e3,
        "least_kb_s": chains.least_bandwidth(chains.admitted(placement), rate) / 1e3,
        "rejected": int(np.sum(~chains.admitted(placement))),
        "late": sum(ms > limit_ms[name] + 1e-6 for name, ms in latency_ms.items()),
    }


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    sizes, draws, chains = ((QUICK_SITES,), 1, QUICK_CHAINS) if quick else (SIZES, DRAWS, CHAINS)
    trials = []
    for each in range(seed, seed + draws):
        trials += [Figure4Trial("sizes", sites, 0.9, "operators", each, chains) for sites in sizes]
        if not quick:
            trials += [
                Figure4Trial("utilisations", 100, 0.9, "operators", each, rounds=ROUNDS),
                Figure4Trial("utilisations", 100, 0.9, "everything", each),
            ]
    return run_trials(change_plans, trials, report)


def _mean(rows: Sequence[Row], column: str, **wanted: str | int) -> float:
    """Over the draws."""
    return fmean(
        float(row[column]) for row in rows if all(row[key] == value for key, value in wanted.items())
    )


def conclude(rows: Sequence[Row]) -> list[str]:
    found = []
    for sites in dict.fromkeys(int(row["sites"]) for row in rows if row["series"] == "sizes"):
        case: dict[str, str | int] = {"series": "sizes", "sites": sites}
        random, best = (_mean(rows, "operators_kb_s", **case, stage=stage) for stage in (RANDOM, BEST))
        found.append(
            f"{sites} sites: the best plan takes {1 - best / random:.0%} less bandwidth between operators "
            f"than the random one; {_half_rates(rows, case)}."
        )
    objectives = dict.fromkeys(str(row["counts"]) for row in rows if row["series"] == "utilisations")
    for counts in objectives:
        case = {"series": "utilisations", "counts": counts}
        less = []
        for column in ("operators_kb_s", "everything_kb_s"):
            random, best = (_mean(rows, column, **case, stage=stage) for stage in (RANDOM, BEST))
            less.append(1 - best / random)
        floor = _mean(rows, "least_kb_s", **case, stage=RANDOM)
        floor /= _mean(rows, "everything_kb_s", **case, stage=RANDOM)
        found.append(
            f"Utilisation .9 of 100 sites, plans that save what counts={counts} counts: {less[0]:.0%} less "
            f"between operators, {less[1]:.0%} less with feeds and results, of which at most "
            f"{1 - floor:.0%} could be saved; {_half_rates(rows, case)}."
        )
    return found


def _half_rates(rows: Sequence[Row], case: dict[str, str | int]) -> str:
    """The adapted plan beside the best one left alone, counted as the paper does and as our metric does."""
    (left, adapted), (whole_left, whole_adapted) = (
        [_mean(rows, column, **case, stage=stage) for stage in (LEFT, ADAPTED)]
        for column in ("operators_kb_s", "everything_kb_s")
    )
    return (
        f"at half rates adapting takes {adapted:.0f} of the {left:.0f} kB/s that waiting takes there, "
        f"{whole_adapted:.0f} of {whole_left:.0f} with feeds and results"
    )


def draw(rows: Sequence[Row]) -> Figure:
    figure, (axes,) = panels(5, 4)
    for stage in STAGES:
        plot_means(
            axes,
            rows,
            "sites",
            "operators_kb_s",
            {"series": "sizes", "stage": stage},
            marker="o",
            label=stage,
            color=colour_of(stage),
        )
    axes.set(xlabel="sites", ylabel="kB/s between operators", ylim=(0, None))
    finish(axes)
    return figure


_SHOWN = (
    Shown("operators_kb_s", "operators"),
    Shown("everything_kb_s", "everything"),
    Shown("least_kb_s", "least", "mean alone"),
    Shown("rejected", "", "mean alone"),
    Shown("late", "", "mean alone"),
)

OVERLAY_FIGURE_4 = Experiment(
    name="overlay_figure4",
    title="Bandwidth of a random feasible plan, the best plan, and after the rates were halved",
    source="Adaptive overlays for shared stream processing environments, Figure 4, section 4",
    columns={
        "series": "sizes: one workload, that of utilisation .9 at 50 sites; utilisations: 100 sites at .9",
        "sites": "sites of the network: PlanetLab nodes",
        "counts": "what plans save: between operators as in the paper, or everything (the default)",
        "seed": "of the draw",
        "utilisation": "load of all operators over the capacity of all sites, before rates are halved",
        "stage": "random feasible plans; the best ones; these left alone at half rates; adapted to them",
        "operators_kb_s": "kB/s between operators at different sites, as the paper counts bandwidth",
        "everything_kb_s": "with what streams send and queries receive, as `evaluate` counts it",
        "least_kb_s": "of that, what no placement could save, whatever limits and capacities",
        "rejected": "queries that were turned away: those of the random plan, and more by the best",
        "late": "queries that miss their limit",
    },
    summaries=(
        Summary(
            by=("sites", "stage"),
            shown=_SHOWN,
            title="one workload, growing networks",
            where=lambda row: row["series"] == "sizes",
            counted="draws",
        ),
        Summary(
            by=("counts", "stage"),
            shown=_SHOWN,
            title="100 sites at .9",
            where=lambda row: row["series"] == "utilisations",
            counted="draws",
        ),
    ),
    setting="100 chains of five operators, each a query: 500 queries over 100 feeds of 6.3 kB messages.",
    run=run,
    draw=draw,
    conclude=conclude,
)
