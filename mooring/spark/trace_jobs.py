"""Traces to rate series, moments and correlations, by Spark jobs over as many packets as the cluster holds.

Every step is a grouped sum, so the work spreads over the cluster and only per-bin counts come together:
packets are counted per bin and sub-stream, and the Gram matrix of the counts gives means, deviations and
correlations. The result is the same `RateTable` the simulator's in-process reader makes, and its CSV is what
`rates:` in a problem file names.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mooring.errors import InputError
from mooring.simulator.traces.counts import read_counts
from mooring.simulator.traces.packets import draw_packets
from mooring.simulator.traces.rates import RateTable
from mooring.simulator.traces.read import arrival_instants

PACKETS = "instant_s DOUBLE, source INT"


@dataclass(frozen=True)
class TraceStatistics:
    streams: tuple[str, ...]
    mean: NDArray[np.float64]
    """Tuples per second."""
    deviation: NDArray[np.float64]
    correlation: NDArray[np.float64]


def packet_files(session: SparkSession, path: str) -> DataFrame:
    """Packets already in files the cluster can read: parquet, or CSV with columns instant_s and source."""
    if path.endswith((".csv", ".csv.gz")):
        return session.read.schema(PACKETS).option("header", True).csv(path)
    return session.read.parquet(path).select("instant_s", "source")


def packet_trace(session: SparkSession, name_or_path: str | Path, seed: int) -> DataFrame:
    """A published trace of arrival instants; sources come from the simulator's documented model.

    Drawing sources is sequential (sessions follow each other), so it is done here; counting is not.
    """
    packets = draw_packets(arrival_instants(name_or_path), seed)
    table = pyarrow.table({"instant_s": packets.instant_s, "source": packets.source})
    return session.createDataFrame(table)


def sub_streams(packets: DataFrame, parts: int) -> DataFrame:
    """Packets with their sub-stream, dealt by source address as the simulator deals them."""
    if parts < 1:
        raise InputError(f"is {parts}, expected at least 1", field="substreams")
    return packets.withColumn("stream", F.concat(F.lit("s"), F.pmod("source", F.lit(parts))))


def counted(packets: DataFrame, bin_s: float, span_s: float | None = None) -> tuple[DataFrame, int]:
    """Packets per bin and sub-stream, and the number of whole bins; empty bins have no row."""
    if not 0 < bin_s < float("inf"):
        raise InputError(f"is {bin_s}, expected a positive number of seconds", field="bin_s")
    if span_s is None:
        span_s = packets.agg(F.max("instant_s")).collect()[0][0] or 0.0
    bins = int(span_s / bin_s + 1e-9)
    # As in-process: an instant that rounding puts beyond its bin's edge stays in the last bin.
    number = F.least((F.col("instant_s") / F.lit(bin_s)).cast("bigint"), F.lit(max(bins - 1, 0)))
    inside = packets.where(F.col("instant_s") < F.lit(bins * bin_s)).withColumn("bin", number)
    return inside.groupBy("bin", "stream").agg(F.count("*").alias("packets")), bins


def request_counts(session: SparkSession, name_or_path: str | Path, bin_s: int = 60) -> tuple[DataFrame, int]:
    """A request trace of counts per bin, as one stream."""
    counts = read_counts(name_or_path, bin_s).counts
    values = np.asarray(counts, dtype=np.int64)
    kept = np.flatnonzero(values)
    table = pyarrow.table({"bin": kept, "stream": np.full(kept.size, "requests"), "packets": values[kept]})
    return session.createDataFrame(table), values.size


def rate_series(counts: DataFrame, bins: int, bin_s: float) -> RateTable:
    """The whole series, a column per sub-stream, empty bins as zero."""
    rows = counts.toArrow()
    streams = tuple(sorted(set(rows["stream"].to_pylist()), key=_by_number))
    column = {name: at for at, name in enumerate(streams)}
    rates = np.zeros((bins, len(streams)))
    at = [column[name] for name in rows["stream"].to_pylist()]
    rates[rows["bin"].to_numpy(), at] = rows["packets"].to_numpy() / bin_s
    return RateTable(np.arange(bins, dtype=np.float64) * bin_s, streams, rates)


def statistics(counts: DataFrame, bins: int, bin_s: float) -> TraceStatistics:
    """Moments and correlations without ever gathering the series: only sums per pair of sub-streams."""
    sums = counts.groupBy("stream").agg(F.sum("packets").alias("total")).collect()
    streams = tuple(sorted((row.stream for row in sums), key=_by_number))
    at = {name: i for i, name in enumerate(streams)}
    mean = np.zeros(len(streams))
    for row in sums:
        mean[at[row.stream]] = row.total / bins
    other = counts.select("bin", F.col("stream").alias("other"), F.col("packets").alias("others"))
    pairs = counts.join(other, "bin").groupBy("stream", "other")
    gram = np.zeros((len(streams), len(streams)))
    for row in pairs.agg(F.sum(F.col("packets") * F.col("others")).alias("product")).collect():
        gram[at[row.stream], at[row.other]] = row.product / bins
    covariance = gram - np.outer(mean, mean)
    deviation = np.sqrt(np.clip(np.diag(covariance), 0.0, None))
    scale = np.where(deviation > 0, deviation, 1.0)
    changing = np.outer(deviation > 0, deviation > 0)
    correlation = np.where(changing, np.clip(covariance / np.outer(scale, scale), -1.0, 1.0), 0.0)
    np.fill_diagonal(correlation, 1.0)
    return TraceStatistics(streams, mean / bin_s, deviation / bin_s, correlation)


def _by_number(name: str) -> tuple[int, str]:
    digits = "".join(letter for letter in name if letter.isdigit())
    return (int(digits) if digits else -1, name)
