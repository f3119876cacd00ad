"""What the figures of experiments have in common. matplotlib is loaded when the first one is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from lab.experiments.trials import Row
from mooring.figure_style import tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def panels(width: float, height: float, count: int = 1, *, sharey: bool = False) -> tuple[Figure, list[Axes]]:
    """A figure of so many inches, with panels side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, list(figure.subplots(1, count, squeeze=False, sharey=sharey)[0])


def plot_means(
    axes: Axes,
    rows: Sequence[Row],
    x: str,
    y: str,
    where: Mapping[str, object],
    *,
    scale: float = 1.0,
    **how: Any,
) -> None:
    """A line of the means of `y` at each `x`, over the rows that have the values in `where`."""
    own = [row for row in rows if all(row[column] == value for column, value in where.items())]
    at = sorted({float(row[x]) for row in own})
    axes.plot(at, [scale * fmean(float(row[y]) for row in own if row[x] == each) for each in at], **how)


def finish(axes: Axes, **legend: Any) -> None:
    """With a legend, and in the style of all figures."""
    axes.legend(frameon=False, **legend)
    tidy(axes)
