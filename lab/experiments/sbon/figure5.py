"""Figure 5 of the SBON paper: how fast coordinates converge, and what the latency filter is worth.

The paper adds 116 PlanetLab nodes at once and reaches a median error of 9% after half an hour. Here all nodes
of the PlanetLab data and of a transit-stub network begin at once, and then nodes of the Seattle series, whose
measurements are noisy, once with and once without the moving percentile filter; its error is against each
link's baseline (the 20th percentile of its series).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.experiment import Experiment
from lab.experiments.figures import finish, panels, plot_means
from lab.experiments.sbon.adaptation import FilteredSamples
from lab.experiments.summary import Reference, Shown, Summary
from lab.experiments.trials import Row, run_trials
from lab.networks.measured_series import seattle_series
from lab.networks.transit_stub import transit_stub
from mooring.arrays import Floats
from mooring.model.network.embedding import (
    SETTLING,
    draw_neighbours,
    embed,
    refine,
    relative_errors,
    start_embedding,
)
from mooring.model.network.latency_filter import FilterParams, low_percentile
from mooring.model.network.shipped import planetlab
from mooring.model.network.vivaldi import VivaldiParams
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHECKPOINTS = (1, 3, 10, 30, 100, 300, 1000, 2000)
"""Samples per node after which the error is looked at."""
SETTLED_SAMPLES = sum(rounds for _, rounds in SETTLING)
PAPER_ERROR = 0.09
"""Median error of 116 PlanetLab nodes after half an hour."""


@dataclass(frozen=True)
class Case:
    network: str
    number: int
    seed: int


def converge(case: Case) -> list[Row]:
    rng = np.random.default_rng([case.seed, case.number])
    if case.network.startswith("seattle"):
        return _replay(case, rng)
    measured = case.network == "planetlab"
    latency_ms = planetlab().one_way_ms() if measured else transit_stub(rng)[1].latency_ms
    params = VivaldiParams()
    peers = draw_neighbours(len(latency_ms), rng)
    seen = latency_ms[np.arange(len(latency_ms))[:, None], peers]
    embedding, done, rows = start_embedding(len(latency_ms), rng, params), 0, []
    for samples in CHECKPOINTS:
        embedding = refine(embedding, peers, seen, rng, params, samples - done)
        done = samples
        rows.append(_row(case, samples, relative_errors(embedding, latency_ms)))
    settled = embed(latency_ms, rng)
    rows.append(_row(case, SETTLED_SAMPLES, relative_errors(settled, latency_ms)))
    return rows


def _replay(case: Case, rng: np.random.Generator) -> list[Row]:
    """One measurement per link and round; each node uses one of them for its coordinate."""
    series = seattle_series()
    nodes, params = series.shape[1], VivaldiParams()
    baseline = np.nan_to_num(low_percentile(series, 20.0))
    np.fill_diagonal(baseline, 0.0)
    peers = draw_neighbours(nodes, rng)
    history = 10 if case.network.endswith("filtered") else 1
    samples = FilteredSamples(peers, FilterParams(history=history))
    embedding, rows, errors = start_embedding(nodes, rng, params), [], []
    for now, measured in enumerate(series, start=1):
        embedding = refine(embedding, peers, samples.add(measured), rng, params, 1)
        if now > len(series) // 2 or now in (10, 30, 100):
            errors.append(relative_errors(embedding, baseline))
        if now in (10, 30, 100, len(series)):
            late = errors[-1] if now < len(series) else np.concatenate(errors[-len(series) // 2 :])
            rows.append(_row(case, now, late))
    return rows


def _row(case: Case, samples: int, errors: Floats) -> Row:
    return {
        "network": case.network,
        "number": case.number,
        "samples": samples,
        "median_error": float(np.median(errors)),
        "p90_error": float(np.percentile(errors, 90)),
    }


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    names = ("planetlab", "transit-stub", "seattle", "seattle, filtered")
    numbers = 1 if quick else 5
    return run_trials(converge, [Case(name, k, seed) for name in names for k in range(numbers)], report)


def draw(rows: Sequence[Row]) -> Figure:
    figure, (axes,) = panels(7, 4)
    for name in dict.fromkeys(str(row["network"]) for row in rows):
        plot_means(axes, rows, "samples", "median_error", {"network": name}, marker=".", label=name)
    axes.axhline(PAPER_ERROR, color="black", linestyle=":", label="paper, settled")
    axes.set(xscale="log", yscale="log", xlabel="samples per node", ylabel="median relative error")
    axes.set_title("Figure 5")
    finish(axes)
    return figure


SBON_FIGURE_5 = Experiment(
    name="sbon_figure5",
    title="Convergence of network coordinates, and the latency filter",
    source="Network-aware operator placement (SBON), figures 4 and 5, section 3.1.1",
    columns={
        "network": "planetlab, transit-stub, or the Seattle series with and without the filter",
        "number": "number of the draw",
        "samples": "measurements per node so far",
        "median_error": "median over all pairs of |predicted - latency| / latency",
        "p90_error": "90th percentile of the same",
    },
    summaries=(
        Summary(
            by=("network", "samples"),
            shown=(
                Shown(
                    "median_error",
                    beside=Reference("paper", {("planetlab", SETTLED_SAMPLES): PAPER_ERROR}),
                ),
                Shown("p90_error"),
            ),
        ),
    ),
    setting="All nodes begin at once, with 32 neighbours each; the Seattle series is noisy.",
    run=run,
    draw=draw,
)
