"""Traces of counts (CSV of `instant,count`) to counts per stream and bin, by Spark's own CSV reader.

Archives that it cannot open go through the reader of `mooring.traces`, a file per task.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from functools import partial, reduce
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from mooring.errors import InputError
from mooring.spark.jobs.trace_blocks import located
from mooring.traces.counts import COUNT, INSTANT, read_counts
from mooring.traces.extracts import extract_path
from mooring.traces.summary import TraceRequest

if TYPE_CHECKING:
    import pandas as pd

COUNTS = "second long, count long, wrong string"
_READ_BY_SPARK = (".csv", ".gz")


def count_requests(session: SparkSession, request: TraceRequest) -> tuple[DataFrame, int]:
    """Counts per stream and bin (bins without requests are left out), and the number of bins."""
    parts = []
    for number, trace in enumerate(request.traces):
        rows = _rows(session, trace, request.counted_s)
        _refuse_wrong(rows, trace, request.counted_s)
        parts.append(rows.select(F.lit(number).alias("stream"), "second", "count"))
    counted = reduce(DataFrame.unionAll, parts)
    edges = counted.agg(F.min("second").alias("first"), F.max("second").alias("last")).collect()[0]
    bins = request.bins_of(float(edges.last + request.counted_s - edges.first))
    at = F.floor((F.col("second") - edges.first) / int(request.bin_s)).cast("long")
    binned = counted.select("stream", at.alias("bin"), "count").where(F.col("bin") < bins)
    return binned.groupBy("stream", "bin").agg(F.sum("count").alias("count")), bins


def _rows(session: SparkSession, trace: str, counted_s: int) -> DataFrame:
    shipped = extract_path(trace)
    if shipped is None and PurePath(trace).suffix.lower() in _READ_BY_SPARK:
        return _parsed(session.read.csv(located(trace), schema="instant string, count string", header=True))
    if shipped is None:
        files = session.read.format("binaryFile").load(located(trace)).select("path", "content")
    else:
        files = session.createDataFrame([(shipped.name, shipped.read_bytes())], "path string, content binary")
    return files.mapInPandas(partial(_expanded, counted_s=counted_s), COUNTS)


def _parsed(lines: DataFrame) -> DataFrame:
    """A cell that does not fit says so in `wrong`, with the line as it was found."""
    instant = F.try_to_timestamp(F.replace("instant", F.lit("T"), F.lit(" ")), F.lit("yyyy-MM-dd HH:mm[:ss]"))
    fits = _matches("instant", INSTANT) & _matches("count", COUNT) & instant.isNotNull()
    found = F.left(F.concat_ws(",", "instant", "count"), F.lit(60))
    complaint = F.concat(F.lit("found '"), found, F.lit("', expected an instant and a whole count"))
    return lines.select(
        F.unix_seconds(instant).alias("second"),
        F.col("count").try_cast("long").alias("count"),
        F.when(F.coalesce(fits, F.lit(False)), None).otherwise(complaint).alias("wrong"),
    )


def _matches(column: str, pattern: re.Pattern[str]) -> Column:
    return F.col(column).rlike(f"^{pattern.pattern}$")


def _expanded(frames: Iterator[pd.DataFrame], *, counted_s: int) -> Iterator[pd.DataFrame]:
    import pandas as pd

    for frame in frames:
        for path, content in frame.itertuples(index=False):
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / PurePath(path).name
                file.write_bytes(content)
                try:
                    counts = read_counts(file, counted_s)
                except InputError as error:
                    error.file = None
                    yield pd.DataFrame({"second": [0], "count": [0], "wrong": [str(error)]})
                    continue
            first = np.datetime64(counts.start, "s").astype(np.int64)
            seconds = first + np.arange(counts.counts.size) * counted_s
            yield pd.DataFrame({"second": seconds, "count": counts.counts, "wrong": None})


def _refuse_wrong(rows: DataFrame, trace: str, counted_s: int) -> None:
    wrong = rows.where("wrong is not null").limit(1).collect()
    if wrong:
        raise InputError(wrong[0].wrong, file=trace, remedy="one line per bin: 1998-06-25 14:03:00,5120")
    first = rows.agg(F.min("second").alias("second")).collect()[0].second
    if first is None:
        raise InputError("holds no counts", file=trace, remedy="a header, then one line per bin")
    off = (F.col("second") - first) % counted_s != 0
    doubtful = rows.groupBy("second").count().where(off | (F.col("count") > 1)).limit(1).collect()
    if doubtful:
        raise InputError(
            f"{np.datetime64(doubtful[0].second, 's')} occurs twice, or is not a multiple of {counted_s} s "
            "after the first",
            file=trace,
            remedy="keep one line per bin",
        )
