"""What an experiment is: rows computed from a seed, and a figure drawn from the rows alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lab.experiments.summary import Summary
from lab.experiments.trials import Row
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Run(Protocol):
    def __call__(self, *, seed: int, quick: bool, report: Report) -> list[Row]: ...


@dataclass(frozen=True)
class Experiment:
    """One figure or table of a paper. `draw` sees only the rows: a figure can be drawn from its CSV."""

    name: str
    title: str
    source: str
    """The paper, and the figure or table in it."""
    columns: dict[str, str]
    """The columns of the rows in order, each with its meaning."""
    summaries: tuple[Summary, ...]
    """What the rows say together: the tables that are printed and recorded."""
    run: Run
    """`quick` runs fewer trials: the same shape with more noise, in seconds."""
    draw: Callable[[Sequence[Row]], Figure]
    setting: str = ""
    """What was run: sizes, and what the paper leaves open and may explain a difference."""
    conclude: Callable[[Sequence[Row]], list[str]] | None = None
    """What the rows say, in sentences."""
    drives_sites: bool = False
    """It starts Spark sites of its own and measures them, so its trials cannot be handed to a cluster."""
