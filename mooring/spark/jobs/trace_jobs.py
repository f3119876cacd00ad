"""A request for the rates of traces, answered by Spark: the same numbers as in one process, at any size.

Packets are read, cut into streams and counted where they lie. What reaches the driver is the history itself
(a count per stream and bin) and, for moments and correlations, a sum per stream and per pair of streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mooring.arrays import Ints
from mooring.errors import EngineError, InputError, MooringError
from mooring.progress import Report, silent
from mooring.spark.jobs.arrival_jobs import count_arrivals
from mooring.spark.jobs.count_jobs import count_requests
from mooring.spark.jobs.trace_blocks import TOO_LONG
from mooring.spark.sites.endpoint import first_line
from mooring.traces.rate_sums import RateSums
from mooring.traces.summary import TraceRequest, TraceSummary, table_of_counts

_UNREADABLE = ("PATH_NOT_FOUND", "FileNotFoundException", "AccessControlException", "FAILED_READ_FILE")


def summarise_on_spark(
    session: SparkSession,
    request: TraceRequest,
    report: Report = silent,
) -> TraceSummary:
    """The rates of the traces' streams, counted where the traces lie."""
    try:
        with _kept() as keep:
            if request.holds_counts:
                counted, bins = count_requests(session, request)
            else:
                counted, bins = count_arrivals(session, request, keep, report)
            counted = keep(counted)
            table = table_of_counts(_collected(counted, bins, len(request.streams)), request)
            report(0.8, "adding up products")
            return TraceSummary(table, _sums(counted, bins, request))
    except PySparkException as failure:
        raise _explained(failure, request) from failure


@contextmanager
def _kept() -> Iterator[Callable[[DataFrame], DataFrame]]:
    """Keeps frames on the cluster, in memory or on disk, until the block is left."""
    with ExitStack() as until_the_end:

        def keep(frame: DataFrame) -> DataFrame:
            kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
            until_the_end.callback(kept.unpersist)
            return kept

        yield keep


def _explained(failure: PySparkException, request: TraceRequest) -> MooringError:
    if any(sign in str(failure) for sign in _UNREADABLE):
        return InputError(
            f"Spark cannot read it: {first_line(failure)}",
            file=", ".join(request.traces),
            remedy="give paths that the cluster's workers can read",
        )
    if "ARITHMETIC_OVERFLOW" in str(failure):
        return InputError(TOO_LONG, file=", ".join(request.traces))
    return EngineError(f"the trace job failed: {first_line(failure)}")


def _collected(counted: DataFrame, bins: int, streams: int) -> Ints:
    """The counts as a table, zero where nothing arrived."""
    cells = counted.toPandas()
    counts = np.zeros((bins, streams), dtype=np.int64)
    counts[cells["bin"].to_numpy(), cells["stream"].to_numpy()] = cells["count"].to_numpy()
    return counts


def _sums(counted: DataFrame, bins: int, request: TraceRequest) -> RateSums:
    """Bins without arrivals add nothing to any sum, so leaving them out changes none."""
    size = len(request.streams)
    one = counted.select("bin", F.col("stream").alias("i"), F.col("count").alias("x"))
    other = counted.select("bin", F.col("stream").alias("j"), F.col("count").alias("y"))
    pairs = one.join(other, "bin").where("i <= j").groupBy("i", "j")
    sums = pairs.agg(F.expr("sum(x * y) as products"), F.expr("sum(x) as total"), F.expr("max(x) as most"))
    products = np.zeros((size, size), dtype=np.int64)
    totals, most = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    for row in sums.collect():
        products[row.i, row.j] = products[row.j, row.i] = row.products
        if row.i == row.j:  # then every bin of the stream is there once
            totals[row.i], most[row.i] = row.total, row.most
    return RateSums(request.bin_s, bins, request.streams, totals, products, most)
