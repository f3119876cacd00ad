"""Latency over time, with and without self-optimisation: how figures 3a and 3b are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.figures import finish, panels
from lab.experiments.trials import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def course_figure(rows: Sequence[Row], ways: Sequence[str], title: str, latency: str) -> Figure:
    """One line per way: the mean over the trials in which anything arrived. `latency` says whose it is."""
    figure, (axes,) = panels(6, 4)
    for way in ways:
        own = [row for row in rows if row["way"] == way]
        times = sorted({float(row["at_s"]) for row in own})
        means = [np.nanmean([float(r["latency_ms"]) for r in own if r["at_s"] == at_s]) for at_s in times]
        axes.plot(times, means, marker=".", label=way)
    axes.set(title=title, xlabel="seconds", ylabel=latency, ylim=(0, None))
    finish(axes)
    return figure
