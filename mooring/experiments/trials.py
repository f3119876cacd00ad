"""Running the trials of an experiment, in one place.

A trial is a pure function of its parameters (a seed among them) that returns rows: no clock, no shared state,
no order among trials. So any way of running them gives the same rows, whether one after the other in this
process or spread over a cluster (`trials_run_by`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Protocol, TypeAlias, TypeVar

Row: TypeAlias = dict[str, str | int | float]
Report: TypeAlias = Callable[[float, str], None]
"""Takes the part that is done, 0 to 1, and what is being done."""

P = TypeVar("P")


class TrialRunner(Protocol):
    """Another way of running trials, such as a Spark job."""

    def __call__(
        self, trial: Callable[[P], list[Row]], parameters: Sequence[P], report: Report
    ) -> list[Row]: ...


_runner: ContextVar[TrialRunner | None] = ContextVar("runner of trials", default=None)


@contextlib.contextmanager
def trials_run_by(runner: TrialRunner) -> Iterator[None]:
    """Have every `run_trials` inside the block done by `runner`, without the experiments knowing."""
    token = _runner.set(runner)
    try:
        yield
    finally:
        _runner.reset(token)


def run_trials(
    trial: Callable[[P], list[Row]],
    parameters: Sequence[P],
    report: Report = lambda done, what: None,
) -> list[Row]:
    """The rows of all trials, in the order of their parameters."""
    runner = _runner.get()
    if runner is not None:
        return runner(trial, parameters, report)
    rows: list[Row] = []
    for done, each in enumerate(parameters, start=1):
        rows.extend(trial(each))
        report(done / len(parameters), f"trial {done} of {len(parameters)}")
    return rows
