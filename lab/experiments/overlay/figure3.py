"""Figure 3 of the overlays paper: the share of queries that meet their limits, against the size of the
network.

Random puts every operator at a random site with enough CPU; Optimized is policy `overlay`. One workload, that
of utilisation .9 at 50 sites, meets networks of 50 to 400 sites. Beside it there are 100 sites at utilisation
.6 and .9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.experiment import Experiment
from lab.experiments.figures import finish, panels, plot_means
from lab.experiments.overlay.shared_chains import CHAINS, SharedChains, draw_chains
from lab.experiments.summary import Shown, Summary
from lab.experiments.trials import Row, run_trials
from mooring.algorithms.overlay.policy import Overlay
from mooring.arrays import Bools, Ints
from mooring.contracts.policy import Context
from mooring.figure_style import colour_of
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = (50, 100, 200, 400)
UTILISATIONS = (0.6, 0.9)
DRAWS, QUICK_CHAINS = 3, 20
RANDOM, OPTIMIZED = "random", "overlay"


@dataclass(frozen=True)
class Figure3Trial:
    series: str
    """`sizes`: one workload on growing networks; `utilisations`: 100 sites used to a share."""
    sites: int
    utilisation: float
    """Of 50 sites in the series of sizes."""
    way: str
    seed: int
    chains: int = CHAINS


def place_chains(trial: Figure3Trial) -> list[Row]:
    of_sites = SIZES[0] if trial.series == "sizes" else None
    chains = draw_chains(trial.sites, trial.utilisation, trial.seed, chains=trial.chains, of_sites=of_sites)
    policy = Overlay(counts="operators")
    admitted = np.ones(chains.cores.shape, dtype=bool)
    if trial.way == RANDOM:
        sites = chains.random_sites(np.random.default_rng([trial.seed, trial.sites, 1]), policy.threshold)
    else:
        problem = chains.problem()
        placement = policy.place(problem, Context.of(problem, seed=trial.seed))
        sites, admitted = chains.sites_of(placement), chains.admitted(placement)
    return [_row(trial, chains, sites, admitted)]


def _row(trial: Figure3Trial, chains: SharedChains, sites: Ints, admitted: Bools) -> Row:
    latency = chains.latencies_ms(sites)
    met, possible = (latency <= chains.limit_ms + 1e-6) & admitted, chains.possible()
    placed = np.isfinite(latency) & admitted
    return {
        "series": trial.series,
        "sites": trial.sites,
        "utilisation": round(chains.utilisation, 4),
        "way": trial.way,
        "met": float(met[possible].mean()),
        "possible": float(possible.mean()),
        "rejected": int(np.sum(~admitted)),
        "broken": int(np.sum(admitted & ~met)),
        "latency_ms": float(latency[placed].mean()),
        "seed": trial.seed,
    }


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    sizes, draws, chains = (SIZES[:1], 1, QUICK_CHAINS) if quick else (SIZES, DRAWS, CHAINS)
    cases = [("sizes", sites, 0.9) for sites in sizes]
    cases += [] if quick else [("utilisations", 100, share) for share in UTILISATIONS]
    trials = [
        Figure3Trial(*case, way, seed + draw, chains)
        for draw in range(draws)
        for case in cases
        for way in (RANDOM, OPTIMIZED)
    ]
    return run_trials(place_chains, trials, report)


def _values(rows: Sequence[Row], column: str, **wanted: str | float) -> list[float]:
    """One per draw."""
    return [float(row[column]) for row in rows if all(row[key] == value for key, value in wanted.items())]


def conclude(rows: Sequence[Row]) -> list[str]:
    found = []
    for sites in dict.fromkeys(int(row["sites"]) for row in rows if row["series"] == "sizes"):
        (random, random_ms), (ours, ours_ms) = (
            [_values(rows, name, series="sizes", sites=sites, way=way) for name in ("met", "latency_ms")]
            for way in (RANDOM, OPTIMIZED)
        )
        points = [100 * (mine - theirs) for mine, theirs in zip(ours, random, strict=True)]
        found.append(
            f"{sites} sites: {fmean(points):.0f} points more queries meet their limits than with Random, at "
            f"least {min(points):.0f} (paper: 39 to 58); the mean latency is "
            f"{1 - fmean(ours_ms) / fmean(random_ms):.0%} lower (paper: 45 to 52%)."
        )
    for share in UTILISATIONS:
        met = _values(rows, "met", series="utilisations", utilisation=share, way=OPTIMIZED)
        if met:
            found.append(
                f"Utilisation {share:g} of 100 sites: {fmean(met):.1%} of the queries that could meet their "
                f"limits do, at least {min(met):.1%}."
            )
    return found


def draw(rows: Sequence[Row]) -> Figure:
    figure, (axes,) = panels(5, 4)
    for way in (RANDOM, OPTIMIZED):
        plot_means(
            axes,
            rows,
            "sites",
            "met",
            {"series": "sizes", "way": way},
            scale=100.0,
            marker="o",
            label=way,
            color=colour_of(way),
        )
    axes.set(xlabel="sites", ylabel="% of queries within their limit", ylim=(0, 101))
    finish(axes)
    return figure


_SHOWN = (
    Shown("met", "limits met"),
    Shown("met", "least", "least"),
    Shown("possible", "", "mean alone"),
    Shown("rejected", "", "mean alone"),
    Shown("broken", "", "mean alone"),
    Shown("latency_ms", "mean latency ms"),
)

OVERLAY_FIGURE_3 = Experiment(
    name="overlay_figure3",
    title="Queries that meet their limits: Random and overlay, against the size of the network",
    source="Adaptive overlays for shared stream processing environments, Figure 3, section 4",
    columns={
        "series": "sizes: one workload, that of utilisation .9 at 50 sites; utilisations: 100 sites",
        "sites": "sites of the network: PlanetLab nodes",
        "utilisation": "load of all operators over the capacity of all sites",
        "way": "random: any site with enough CPU; overlay with counts=operators, the paper's objective",
        "met": "share of the possible queries that are within their limit; a rejected query is not",
        "possible": "share of the queries that could be within their limit if capacity were no matter",
        "rejected": "queries that were turned away",
        "broken": "queries that were not turned away and miss their limit",
        "latency_ms": "mean over the queries that are placed",
        "seed": "of the draw",
    },
    summaries=(
        Summary(
            by=("sites", "way"),
            shown=_SHOWN,
            title="one workload, growing networks",
            where=lambda row: row["series"] == "sizes",
            counted="draws",
        ),
        Summary(
            by=("utilisation", "way"),
            shown=_SHOWN,
            title="100 sites",
            where=lambda row: row["series"] == "utilisations",
            counted="draws",
        ),
    ),
    setting="100 chains of five operators, each a query: 500 queries over 100 feeds of 6.3 kB messages.",
    run=run,
    draw=draw,
    conclude=conclude,
)
