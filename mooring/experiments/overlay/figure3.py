"""Figure 3 of the overlays paper: the share of queries that meet their limits, against the size of the
network.

Random puts every operator at a random site with enough CPU; Optimized is policy `overlay`. One workload, that
of utilisation .9 at 50 sites, meets networks of 50 to 400 sites. Beside it there are 100 sites at utilisation
.6 and .9, where a plan taken at random among the feasible ones is held against the cheapest too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mooring.arrays import Bools, Ints
from mooring.experiments.experiment import Experiment
from mooring.experiments.overlay.shared_chains import CHAINS, SharedChains, draw_chains, draw_network
from mooring.experiments.summary import Shown, Summary
from mooring.experiments.trials import Row, run_trials
from mooring.placement.policy import Context
from mooring.policies.overlay import Overlay
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = (50, 100, 200, 400)
UTILISATIONS = (0.6, 0.9)
QUICK_CHAINS = 20
RANDOM, OPTIMIZED, RANDOM_PLAN = "random", "overlay", "random feasible plan"


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
    rng = np.random.default_rng([trial.seed, trial.sites])
    latency_ms = draw_network(trial.sites, rng)
    utilisation = trial.utilisation * 50 / trial.sites if trial.series == "sizes" else trial.utilisation
    chains = draw_chains(latency_ms, utilisation, rng, trial.chains)
    policy = Overlay(counts="operators", choice="random" if trial.way == RANDOM_PLAN else "cheapest")
    admitted = np.ones(chains.cores.shape, dtype=bool)
    if trial.way == RANDOM:
        sites = chains.random_sites(rng, policy.threshold)
    else:
        problem = chains.problem()
        placement = policy.place(problem, Context.of(problem, seed=trial.seed))
        sites, admitted = chains.sites_of(placement), chains.admitted(placement)
    return [_row(trial, chains, sites, admitted, utilisation)]


def _row(trial: Figure3Trial, chains: SharedChains, sites: Ints, admitted: Bools, utilisation: float) -> Row:
    latency = chains.latencies_ms(sites)
    met, possible = (latency <= chains.limit_ms + 1e-6) & admitted, chains.possible()
    placed = np.isfinite(latency) & admitted
    return {
        "series": trial.series,
        "sites": trial.sites,
        "utilisation": round(utilisation, 4),
        "way": trial.way,
        "met": float(met[possible].mean()),
        "possible": float(possible.mean()),
        "rejected": int(np.sum(~admitted)),
        "broken": int(np.sum(admitted & ~met)),
        "latency_ms": float(latency[placed].mean()),
        "bandwidth_kb_s": chains.bandwidth(sites) / 1e3,
        "everything_kb_s": chains.bandwidth_of_everything(sites, admitted) / 1e3,
        "seed": trial.seed,
    }


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    sizes, chains = (SIZES[:1], QUICK_CHAINS) if quick else (SIZES, CHAINS)
    trials = [
        Figure3Trial("sizes", sites, 0.9, way, seed, chains) for sites in sizes for way in (RANDOM, OPTIMIZED)
    ]
    if not quick:
        trials += [
            Figure3Trial("utilisations", 100, share, way, seed)
            for share in UTILISATIONS
            for way in (RANDOM, OPTIMIZED, RANDOM_PLAN)
        ]
    return run_trials(place_chains, trials, report)


def _of(rows: Sequence[Row], **wanted: str | float) -> dict[str, Row]:
    return {str(row["way"]): row for row in rows if all(row[key] == value for key, value in wanted.items())}


def conclude(rows: Sequence[Row]) -> list[str]:
    found = []
    for sites in dict.fromkeys(row["sites"] for row in rows if row["series"] == "sizes"):
        own = _of(rows, series="sizes", sites=sites)
        points = 100 * (float(own[OPTIMIZED]["met"]) - float(own[RANDOM]["met"]))
        less = 1 - float(own[OPTIMIZED]["latency_ms"]) / float(own[RANDOM]["latency_ms"])
        found.append(
            f"{sites} sites: {points:.0f} points more queries meet their limits than with Random "
            f"(paper: 39 to 58), and the mean latency is {less:.0%} lower (paper: 45 to 52%)."
        )
    for share in UTILISATIONS:
        own = _of(rows, series="utilisations", utilisation=share)
        if RANDOM_PLAN in own:
            best, drawn = (float(own[way]["bandwidth_kb_s"]) for way in (OPTIMIZED, RANDOM_PLAN))
            found.append(
                f"Utilisation {share:g} of 100 sites: {float(own[OPTIMIZED]['met']):.1%} of the queries that "
                f"could meet their limits do; the bandwidth is {1 - best / drawn:.0%} below that of plans "
                "taken at random among the feasible ones."
            )
    return found


def draw(rows: Sequence[Row]) -> Figure:
    from matplotlib.figure import Figure

    from mooring.experiments.style import colour_of, tidy

    figure = Figure(figsize=(5, 4), layout="constrained")
    axes = figure.subplots()
    for way in (RANDOM, OPTIMIZED):
        own = [row for row in rows if row["series"] == "sizes" and row["way"] == way]
        axes.plot(
            [int(row["sites"]) for row in own],
            [100 * float(row["met"]) for row in own],
            marker="o",
            label=way,
            color=colour_of(way),
        )
    axes.set(xlabel="sites", ylabel="% of queries within their limit", ylim=(0, 101))
    axes.legend(frameon=False)
    tidy(axes)
    return figure


_SHOWN = (
    Shown("met", "limits met", "mean alone"),
    Shown("possible", "possible", "mean alone"),
    Shown("rejected", "", "mean alone"),
    Shown("broken", "", "mean alone"),
    Shown("latency_ms", "mean latency ms", "mean alone"),
    Shown("bandwidth_kb_s", "kB/s", "mean alone"),
    Shown("everything_kb_s", "kB/s, all", "mean alone"),
)

OVERLAY_FIGURE_3 = Experiment(
    name="overlay_figure3",
    title="Queries that meet their limits: Random and overlay, against the size of the network",
    source="Adaptive overlays for shared stream processing environments, Figure 3, section 4",
    columns={
        "series": "sizes: one workload, that of utilisation .9 at 50 sites; utilisations: 100 sites",
        "sites": "sites of the network: PlanetLab nodes",
        "utilisation": "load of all operators over the capacity of all sites",
        "way": "random: any site with enough CPU; overlay with counts=operators, the paper's objective; "
        "a random feasible plan of the same search",
        "met": "share of the possible queries that are within their limit; a rejected query is not",
        "possible": "share of the queries that could be within their limit if capacity were no matter",
        "rejected": "queries that were turned away",
        "broken": "queries that were not turned away and miss their limit",
        "latency_ms": "mean over the queries that are placed",
        "bandwidth_kb_s": "between operators at different sites, as the paper counts it",
        "everything_kb_s": "the same with what streams send and queries receive",
        "seed": "of the draw",
    },
    summaries=(
        Summary(
            by=("sites", "way"),
            shown=_SHOWN,
            title="one workload, growing networks",
            where=lambda row: row["series"] == "sizes",
            counted="",
        ),
        Summary(
            by=("utilisation", "way"),
            shown=_SHOWN,
            title="100 sites",
            where=lambda row: row["series"] == "utilisations",
            counted="",
        ),
    ),
    setting="100 chains of five operators, each a query: 500 queries over 100 feeds of 6.3 kB messages.",
    run=run,
    draw=draw,
    conclude=conclude,
)
