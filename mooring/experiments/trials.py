"""Running the trials of an experiment, in one place.

A trial is a pure function of its parameters (a seed among them) that returns rows: no clock, no shared state,
no order among trials. So any way of running them gives the same rows, whether one after the other in this
process, as here, or spread over a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

Row: TypeAlias = dict[str, str | int | float]
Report: TypeAlias = Callable[[float, str], None]
"""Takes the part that is done, 0 to 1, and what is being done."""

P = TypeVar("P")


def run_trials(
    trial: Callable[[P], list[Row]],
    parameters: Sequence[P],
    report: Report = lambda done, what: None,
) -> list[Row]:
    """The rows of all trials, in the order of their parameters."""
    rows: list[Row] = []
    for done, each in enumerate(parameters, start=1):
        rows.extend(trial(each))
        report(done / len(parameters), f"trial {done} of {len(parameters)}")
    return rows
