"""The trials of an experiment as one Spark job: a task per trial, on as many cores as the master has.

A trial goes to the workers by name (module and function) and its parameters as plain data, so a worker runs
exactly the code that is installed there and nothing is unpickled that the driver made up. Numbers travel in
binary, so rows come back bit for bit as the trial returned them.
"""

from __future__ import annotations

import importlib
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import mooring
from mooring.errors import EngineError
from mooring.progress import Report
from mooring.spark.sites.endpoint import first_line

if TYPE_CHECKING:
    import pandas as pd


MOST_TASKS = 10_000
"""Beyond this, several trials share a task: the driver keeps a record of every task."""

_RAISED = re.compile(r"[a-zA-Z_][\w.]*(Error|Exception): ")
"""How the last line of a Python traceback begins."""


@dataclass(frozen=True)
class SparkTrials:
    """Runs trials on a session; takes the place of the loop in this process."""

    session: SparkSession

    def __call__(
        self, trial: Callable[[Any], list[dict[str, Any]]], parameters: Sequence[Any], report: Report
    ) -> list[dict[str, Any]]:
        if not parameters:
            return []
        name = name_of(trial)
        rows = [(number, name_of(type(each)), packed(each)) for number, each in enumerate(parameters)]
        trials = self.session.createDataFrame(rows, "number long, kind string, parameters binary")
        tasks = min(len(rows), MOST_TASKS)
        spread = trials.repartitionById(tasks, (trials.number % tasks).cast("int"))
        work = partial(run_batch, trial=name, version=mooring.__version__)
        job = spread.mapInPandas(work, "number long, rows binary")
        try:
            with job_progress(self.session, report, "tasks", total=tasks):
                answers = job.collect()
        except PySparkException as failure:
            raise _explained(failure) from failure
        in_order = sorted(answers, key=operator.attrgetter("number"))
        return [row for answer in in_order for row in msgspec.msgpack.decode(bytes(answer.rows))]


def run_batch(frames: Iterator[pd.DataFrame], *, trial: str, version: str) -> Iterator[pd.DataFrame]:
    """On a worker: the rows of each trial as it is done."""
    import pandas as pd

    if version != mooring.__version__:
        raise EngineError(f"the worker has mooring {mooring.__version__}, the driver {version}")
    run = named(trial)
    for frame in frames:
        for number, kind, parameters in frame.itertuples(index=False):
            rows = run(unpacked(parameters, kind))
            yield pd.DataFrame({"number": [number], "rows": [msgspec.msgpack.encode(rows, enc_hook=_plain)]})


def packed(parameters: object) -> bytes:
    """A trial's parameters as data; what would not arrive as it left is refused here, not on a worker."""
    data = msgspec.msgpack.encode(parameters, enc_hook=_plain)
    if unpacked(data, name_of(type(parameters))) != parameters:
        raise TypeError(f"{parameters!r} does not survive as plain data; use a dataclass of numbers and text")
    return data


def unpacked(data: bytes, kind: str) -> Any:
    return msgspec.msgpack.decode(data, type=named(kind))


def name_of(thing: Callable[..., Any]) -> str:
    """`module:name`, checked to lead back to the thing itself."""
    name = f"{thing.__module__}:{thing.__qualname__}"
    if thing.__module__ == "__main__" or "<" in name or named(name) is not thing:
        raise TypeError(f"{name} cannot be found by name; define it at the top of an importable module")
    return name


def named(name: str) -> Any:
    module, _, path = name.partition(":")
    return operator.attrgetter(path)(importlib.import_module(module))


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is no plain data; use numbers and text")


def _explained(failure: PySparkException) -> EngineError:
    """Workers fail with a traceback as text; its last line says what, and one cause has a known remedy."""
    lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
    said = next((line for line in lines if _RAISED.match(line)), None)
    is_missing = any("No module named" in line for line in lines)
    return EngineError(
        f"a trial failed on Spark: {said or first_line(failure)}",
        remedy=(
            f"install mooring {mooring.__version__} into the Python that the workers run (PYSPARK_PYTHON)"
            if is_missing
            else "run it without --on spark to see where"
        ),
    )


@contextmanager
def job_progress(session: SparkSession, report: Report, things: str, total: int) -> Iterator[None]:
    """Report the tasks done of the stage with `total` tasks, in a bar that never goes back."""
    done_before = 0.0

    def handler(stages: Any, inflight_tasks: int, operation_id: str, done: bool) -> None:
        nonlocal done_before
        completed = max((s.num_completed_tasks for s in stages if s.num_tasks == total), default=0)
        done_before = max(done_before, completed / total)
        report(done_before, f"{completed} of {total} {things}, {inflight_tasks} running")

    if not type(session).__module__.startswith("pyspark.sql.connect"):
        yield
        return
    session.registerProgressHandler(handler)
    try:
        yield
    finally:
        session.removeProgressHandler(handler)
