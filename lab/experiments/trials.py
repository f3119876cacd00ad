"""Running the trials of an experiment, in one place.

A trial is a pure function of its parameters (a seed among them) that returns rows: no clock, no shared state,
no order among trials. So any way of running them gives the same rows, whether one after the other in this
process or spread over a cluster. An experiment never says which: whoever starts it does, by `trials_run_by`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from mooring.progress import Report, silent

if TYPE_CHECKING:
    from lab.experiments.trials_on_spark import SparkTrials

Row: TypeAlias = dict[str, str | int | float]
"""Takes the part that is done, 0 to 1, and what is being done."""

P = TypeVar("P")


class Runner(Protocol):
    """A way of running trials: the rows of all, in the order of their parameters."""

    def __call__(
        self, trial: Callable[[Any], list[Row]], parameters: Sequence[Any], report: Report
    ) -> list[Row]: ...


def in_this_process(
    trial: Callable[[Any], list[Row]], parameters: Sequence[Any], report: Report
) -> list[Row]:
    """One after the other."""
    rows: list[Row] = []
    for done, each in enumerate(parameters, start=1):
        rows.extend(trial(each))
        report(done / len(parameters), f"trial {done} of {len(parameters)}")
    return rows


_runner: ContextVar[Runner] = ContextVar("runner", default=in_this_process)


@contextmanager
def trials_run_by(runner: Runner) -> Iterator[None]:
    """Within the block, `run_trials` hands its trials to this runner."""
    token = _runner.set(runner)
    try:
        yield
    finally:
        _runner.reset(token)


def run_trials(
    trial: Callable[[P], list[Row]],
    parameters: Sequence[P],
    report: Report = silent,
) -> list[Row]:
    """The rows of all trials, in the order of their parameters."""
    return _runner.get()(trial, parameters, report)


@contextmanager
def trials_on_spark(master: str | None) -> Iterator[SparkTrials]:
    """Runs trials on a session that ends with the block; None: the default master."""
    from lab.experiments.trials_on_spark import SparkTrials
    from mooring.spark.jobs.batch_session import DEFAULT_MASTER, batch_session

    with batch_session(master or DEFAULT_MASTER) as session:
        yield SparkTrials(session)
