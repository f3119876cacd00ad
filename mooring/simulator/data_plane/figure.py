"""A simulated run over time, as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mooring.simulator.data_plane.report import SimulationReport

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_SITES = 8
"""Lines that can be told apart; beyond that, the sites with the longest queues."""


def draw_report(report: SimulationReport) -> Figure:
    """Latency on top, queue lengths below, over the same time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5.5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    series = report.series
    above.plot(series.time_s, series.mean_latency_ms, label="mean", color="#1b6ca8")
    above.plot(series.time_s, series.max_latency_ms, label="maximum", color="#d9822b", linewidth=0.8)
    above.set(ylabel="end-to-end latency, ms", title=report.verdict)
    above.set_yscale("log" if np.nanmax(series.max_latency_ms, initial=0.0) > 0 else "linear")
    above.legend(frameon=False)
    names = list(report.sites)
    longest = np.argsort(-series.queue.max(axis=0, initial=0.0), kind="stable")[:MOST_SITES]
    for site in sorted(longest):
        below.plot(series.time_s, series.queue[:, site], label=names[site], linewidth=0.9)
    below.set(xlabel="virtual time, s", ylabel="tuples at the site")
    below.legend(frameon=False, fontsize="small")
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.25, linewidth=0.6)
    return figure
