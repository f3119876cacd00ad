"""From trace files to what the planner reads: a history of rates, and moments and correlations beside it.

Here in this process; `mooring.spark.jobs.trace_jobs` answers the same request on Spark with the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np

from mooring.arrays import Floats, Ints
from mooring.errors import InputError
from mooring.model.problem.history import MAX_ROWS
from mooring.traces.counts import Counts, read_counts
from mooring.traces.extracts import COUNTS_NAME
from mooring.traces.rate_sums import RateSums
from mooring.traces.rates import RateTable, rate_table
from mooring.traces.read import arrival_instants
from mooring.traces.substreams import split

MOST_STREAMS = 1000
MOST_CELLS = 20_000_000
"""Bins times streams of a history, which is read whole (and problem files take no more bins than
`MAX_ROWS`)."""


@dataclass(frozen=True)
class TraceRequest:
    """Which traces, and how their rates are counted."""

    traces: tuple[str, ...]
    """Paths, or names of shipped extracts: all of single arrivals, or all of counts (CSV)."""
    bin_s: float = 1.0
    """Length of the bins that rates are averaged over."""
    substreams: int = 1
    """Into how many sub-streams each trace of arrivals is cut, by source address."""
    seed: int = 0
    """Of the addresses that the traces lack."""
    counted_s: int = 60
    """Length of a bin in the files of counts."""
    names: tuple[str, ...] = ()
    """Of the streams; by default after the files."""

    def __post_init__(self) -> None:
        if not self.traces:
            raise InputError("found no trace", remedy="name one or more trace files")
        if not 0 < self.bin_s < math.inf:
            raise InputError(f"is {self.bin_s}, expected a positive number of seconds", field="bin_s")
        if self.substreams < 1 or self.counted_s < 1:
            raise InputError("sub-streams and counted seconds are at least 1", field="substreams")
        kinds = {holds_counts(trace) for trace in self.traces}
        if len(kinds) > 1:
            raise InputError("found counts and single arrivals together", remedy="give one kind at a time")
        if self.holds_counts and self.substreams > 1:
            raise InputError(
                "a trace of counts cannot be cut into sub-streams",
                field="substreams",
                remedy="give a trace of single arrivals, or a file of counts per stream",
            )
        if self.holds_counts and self.bin_s % self.counted_s:
            raise InputError(
                f"is {self.bin_s:g}, expected a multiple of {self.counted_s}, in which the files count",
                field="bin_s",
            )
        self._check_names()

    def _check_names(self) -> None:
        streams = len(self.traces) * self.substreams
        if streams > MOST_STREAMS:
            raise InputError(f"{streams} streams are too many", remedy=f"at most {MOST_STREAMS}")
        if len(self.streams) != streams:
            raise InputError(f"found {len(self.streams)} names for {streams} streams", field="names")
        if len(set(self.streams)) < streams or "time_s" in self.streams:
            raise InputError(
                f"found the names {', '.join(self.streams)}", field="names", remedy="name each stream once"
            )

    @property
    def holds_counts(self) -> bool:
        return holds_counts(self.traces[0])

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of the streams, trace by trace."""
        stems = [PurePath(trace).name.split(".")[0] for trace in self.traces]
        if self.names or self.substreams == 1:
            return self.names or tuple(stems)
        return tuple(f"{stem}-{part}" for stem in stems for part in range(self.substreams))

    def bins_of(self, span_s: float) -> int:
        """The whole bins of a span; refused where there is none or more than can be read."""
        bins = int(span_s / self.bin_s + 1e-9)
        if bins < 1:
            raise InputError(
                f"the traces last {span_s:g} s, less than a bin of {self.bin_s:g} s",
                field="bin_s",
                remedy="take a shorter bin",
            )
        if bins > MAX_ROWS or bins * len(self.streams) > MOST_CELLS:
            raise InputError(
                f"{bins} bins of {len(self.streams)} streams are too many",
                field="bin_s",
                remedy="take a longer bin",
            )
        return bins


@dataclass(frozen=True, eq=False)
class TraceSummary:
    table: RateTable
    sums: RateSums

    @classmethod
    def of_counts(cls, counts: Ints, request: TraceRequest) -> TraceSummary:
        sums = RateSums.of_counts(counts, request.bin_s, request.streams)
        return cls(table_of_counts(counts, request), sums)

    def as_data(self) -> Mapping[str, object]:
        """The moments and correlations as plain data, as they are written to JSON."""
        sums = self.sums
        moments = zip(sums.streams, sums.mean(), sums.deviation(), sums.peak(), strict=True)
        return {
            "bin_s": sums.bin_s,
            "bins": sums.bins,
            "streams": {
                name: {"mean": mean, "deviation": deviation, "peak": peak}
                for name, mean, deviation, peak in moments
            },
            "correlation": sums.correlation().tolist(),
        }


def table_of_counts(counts: Ints, request: TraceRequest) -> RateTable:
    time_s = np.arange(len(counts), dtype=np.float64) * request.bin_s
    return RateTable(time_s, request.streams, counts / request.bin_s)


def holds_counts(trace: str) -> bool:
    """Whether a trace holds counts per bin (a CSV) rather than single arrivals."""
    return trace == COUNTS_NAME or ".csv" in PurePath(trace).suffixes


def summarise_traces(request: TraceRequest) -> TraceSummary:
    """The rates of the traces' streams, counted in this process."""
    if request.holds_counts:
        return _summary_of_counts(request)
    parts: list[Floats] = []
    span_s = 0.0
    for trace in request.traces:
        instants_s = arrival_instants(trace)
        span_s = max(span_s, float(instants_s[-1]))
        one = request.substreams == 1
        parts += [instants_s] if one else split(instants_s, request.seed, request.substreams)
    request.bins_of(span_s)
    table = rate_table(dict(zip(request.streams, parts, strict=True)), request.bin_s, span_s)
    return TraceSummary.of_counts(np.rint(table.rates * request.bin_s).astype(np.int64), request)


def _summary_of_counts(request: TraceRequest) -> TraceSummary:
    traces = [read_counts(trace, request.counted_s) for trace in request.traces]
    starts = [int(np.datetime64(trace.start, "s").astype(np.int64)) for trace in traces]
    origin = min(starts)
    ends = [
        start + trace.counts.size * request.counted_s for start, trace in zip(starts, traces, strict=True)
    ]
    bins = request.bins_of(float(max(ends) - origin))
    columns = [
        _coarse(trace, (start - origin), bins, request) for start, trace in zip(starts, traces, strict=True)
    ]
    return TraceSummary.of_counts(np.column_stack(columns), request)


def _coarse(trace: Counts, since_origin_s: int, bins: int, request: TraceRequest) -> Ints:
    """Counts added up in the bins of the request, which all traces share."""
    at = since_origin_s + np.arange(trace.counts.size) * request.counted_s
    at //= int(request.bin_s)
    counts = np.zeros(max(bins, int(at[-1]) + 1), dtype=np.int64)
    np.add.at(counts, at, trace.counts)
    return counts[:bins]
