"""An experiment's trials as one Spark job, so that a cluster computes the papers' figures at full size.

A trial is a pure function of its parameters, so each becomes one row of a DataFrame and `mapInPandas` runs
them wherever there is room. Rows travel back as JSON, which keeps every digit of a float: the numbers are
those of an in-process run, in the same order.
"""

from __future__ import annotations

import base64
import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pandas
from pyspark.cloudpickle import dumps, loads
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mooring.errors import EngineError
from mooring.spark.embedded_site import EmbeddedOptions, EmbeddedSite
from mooring.spark.endpoint import Endpoint, close_session, first_line, open_session
from mooring.spark.java import find_java

P = TypeVar("P")
Row = dict[str, Any]
Report = Callable[[float, str], None]


@contextlib.contextmanager
def sweep_session(master: str = "local[2]") -> Iterator[SparkSession]:
    """A session at a master (`local[N]`, `spark://host:port`, `yarn`, ...) or at a Connect address
    (`sc://...`).

    A cluster's workers need a Python with Mooring installed.
    """
    if master.startswith("sc://"):
        session = open_session(Endpoint(master))
        try:
            yield session
        finally:
            close_session(session)
        return
    options = EmbeddedOptions(settings={"spark.master": master, "spark.python.worker.reuse": "true"})
    with tempfile.TemporaryDirectory(prefix="mooring-sweep-") as folder:
        site = EmbeddedSite("sweep", Path(folder), find_java(), capacity=float("inf"), options=options)
        site.start()
        try:
            session = open_session(site.wait_ready())
            try:
                yield session
            finally:
                close_session(session)
        finally:
            site.stop()


def run_trials_on(
    session: SparkSession,
    trial: Callable[[P], list[Row]],
    parameters: Sequence[P],
    report: Report = lambda done, what: None,
) -> list[Row]:
    """The rows of all trials, in the order of their parameters, from one job of one task per trial."""
    if not parameters:
        return []
    report(0.0, f"{len(parameters)} trials on Spark")
    packed = [base64.b64encode(dumps(each)).decode() for each in parameters]
    frame = session.createDataFrame(list(enumerate(packed)), "number INT, parameters STRING")
    work = _worker(base64.b64encode(dumps(trial)).decode())
    try:
        results = (
            frame.repartition(len(parameters), "number")
            .mapInPandas(work, "number INT, rows STRING")
            .collect()
        )
    except PySparkException as failure:
        raise EngineError(
            f"a trial failed on Spark: {first_line(failure)}\n{str(failure)[-1500:]}"
        ) from failure
    report(1.0, "done")
    ordered = sorted(results, key=lambda result: result.number)
    return [row for result in ordered for row in json.loads(result.rows)]


def _worker(packed_trial: str) -> Callable[[Iterator[pandas.DataFrame]], Iterator[pandas.DataFrame]]:
    """What runs on the workers; built here so that it carries nothing else of this module along."""

    def work(batches: Iterator[pandas.DataFrame]) -> Iterator[pandas.DataFrame]:
        trial = loads(base64.b64decode(packed_trial))
        for batch in batches:
            texts = [
                json.dumps(trial(loads(base64.b64decode(each))), default=lambda value: value.item())
                for each in batch["parameters"]
            ]
            yield pandas.DataFrame({"number": batch["number"], "rows": texts})

    return work
