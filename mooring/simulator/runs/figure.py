"""Several ways of adapting to the same changes, over time, as a figure."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from mooring.simulator.runs.timeline import ENOUGH, CourseReport
from mooring.simulator.runs.variants import Comparison

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = ("#888888", "#1b6ca8", "#d9822b", "#3a7d44", "#8e4585", "#b5302a")
_MOST_ROOM = 4.0
"""Headroom beyond this is drawn as this: it is all the same."""


def draw_comparison(comparison: Comparison) -> Figure:
    """Latency, headroom, utilisation of the busiest site and moves, one line per way; dotted: changes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 9), layout="constrained")
    above, room, busy, moves = figure.subplots(4, 1, sharex=True)
    for colour, (name, course) in zip(_COLOURS, comparison.courses.items(), strict=False):
        at_s = [moment.at_s for moment in course.moments]
        above.plot(at_s, _latency(course), label=name, color=colour, linewidth=1.0)
        shown = [min(moment.headroom, _MOST_ROOM) for moment in course.moments]
        room.plot(at_s, shown, color=colour, linewidth=1.0)
        busy.plot(at_s, [moment.busiest for moment in course.moments], color=colour, linewidth=1.0)
        made = sorted(move.at_s for move in course.moves)
        moves.step(
            [0.0, *made, comparison.scenario.seconds],
            [0, *range(1, len(made) + 1), len(made)],
            where="post",
            color=colour,
            linewidth=1.0,
        )
    above.set(ylabel="mean latency, ms", yscale="log")
    above.legend(frameon=False)
    room.axhline(ENOUGH, color="#bbbbbb", linewidth=0.8)
    room.set(ylabel="headroom")
    busy.set(ylabel="busiest site")
    moves.set(ylabel="moves so far", xlabel="virtual time, s")
    for axes in (above, room, busy, moves):
        for change in comparison.scenario.changes[:200]:
            axes.axvline(change.at_s, color="#cccccc", linewidth=0.5, linestyle=":")
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _latency(course: CourseReport) -> list[float]:
    """Of all queries together at each look; NaN where nothing arrived."""
    found = []
    for moment in course.moments:
        known = [latency for latency in moment.latency_ms.values() if latency is not None]
        found.append(fmean(known) if known else float(np.nan))
    return found
