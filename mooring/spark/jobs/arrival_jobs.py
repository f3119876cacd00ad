"""Traces of arrivals to counts per stream and bin, in passes over blocks that stay where they are.

1. Each block says how many gaps it holds and how long they last; sums over the blocks before give each its
   place in time and in number.
2. Where a trace is cut by address: each block says how many trains of packets begin in it, and when the last.
3. Each block draws its packets' addresses (`stretches`), exactly as one process would, and counts.

Between passes only a row per block moves; packets never do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from mooring.arrays import Bools, Floats, Ints32
from mooring.errors import InputError
from mooring.progress import Report
from mooring.spark.jobs.trace_blocks import KEY, TOO_LONG, arrival_blocks
from mooring.traces.bounded import LONGEST_S
from mooring.traces.packets import DEFAULT_PARAMS, PacketParams
from mooring.traces.sessions import Sessions, draw_sessions
from mooring.traces.substreams import substream_of
from mooring.traces.summary import TraceRequest

if TYPE_CHECKING:
    import pandas as pd


COUNTED = "stream int, bin long, count long"
Extents = dict[int, tuple[float, int]]
"""Per trace: seconds from the first arrival to the last, and arrivals."""


def count_arrivals(
    session: SparkSession,
    request: TraceRequest,
    keep: Callable[[DataFrame], DataFrame],
    report: Report,
) -> tuple[DataFrame, int]:
    """Counts per stream and bin (bins without arrivals are left out), and the number of bins.

    `keep` marks what several passes read, to be held until all is done.
    """
    parts = [arrival_blocks(session, number, trace) for number, trace in enumerate(request.traces)]
    blocks = keep(reduce(DataFrame.unionAll, parts))
    report(0.1, "reading traces")
    places = _places(blocks)
    extents = _extents(places, request)
    bins = request.bins_of(max(span_s for span_s, _ in extents.values()))
    places = places.select(*KEY, "offset_ns", "gaps_before")
    if request.substreams > 1:
        report(0.4, "drawing addresses")
        for span_s, count in extents.values():
            PacketDraws.of(request.seed, span_s, count)  # a span that the model refuses is refused here
        work = partial(_trains, seed=request.seed, extents=extents)
        key_types = "trace int, file string, part long, seq long"
        trains = _placed(blocks, places).mapInPandas(work, f"{key_types}, trains long, last_start_s double")
        places = places.join(_trains_before(trains), list(KEY))
    report(0.6, "counting")
    work = partial(_counts, request=request, extents=extents, bins=bins)
    counted = _placed(blocks, places).mapInPandas(work, COUNTED)
    return counted.groupBy("stream", "bin").agg(F.sum("count").alias("count")), bins


def _placed(blocks: DataFrame, places: DataFrame) -> DataFrame:
    return blocks.select(*KEY, "instants_ns").join(F.broadcast(places), list(KEY))


def _before() -> Any:
    return (
        Window.partitionBy("trace").orderBy("file", "part", "seq").rowsBetween(Window.unboundedPreceding, -1)
    )


def _places(blocks: DataFrame) -> DataFrame:
    """Per block: when it begins, and how many gaps come before it."""
    sums = blocks.drop("instants_ns")
    return sums.withColumns(
        {
            "offset_ns": F.coalesce(F.sum("duration_ns").over(_before()), F.lit(0)),
            "gaps_before": F.coalesce(F.sum("gaps").over(_before()), F.lit(0)),
        }
    )


def _trains_before(trains: DataFrame) -> DataFrame:
    return trains.select(
        *KEY,
        F.coalesce(F.sum("trains").over(_before()), F.lit(0)).alias("trains_before"),
        F.coalesce(F.last("last_start_s", ignorenulls=True).over(_before()), F.lit(0.0)).alias(
            "last_start_s"
        ),
    )


def _extents(places: DataFrame, request: TraceRequest) -> Extents:
    """How long the traces last and what they hold; a wrong one is refused."""
    wrong = F.when(
        F.col("wrong").isNotNull(), F.struct("file", "part", "seq", "gaps_before", "wrong_at", "wrong")
    )
    ends = places.groupBy("trace").agg(
        F.max(F.col("offset_ns") + F.col("last_ns")).alias("last_ns"),
        F.sum("gaps").alias("gaps"),
        F.min(wrong).alias("wrong"),
    )
    found = {row.trace: row for row in ends.collect()}
    for number, trace in enumerate(request.traces):
        _check(found.get(number), trace)
    return {number: (row.last_ns / 1e9, row.gaps + 1) for number, row in found.items()}


def _check(end: Any, trace: str) -> None:
    if end is not None and end.wrong is not None:
        first = end.wrong
        gap = None if first.wrong_at is None else f"gap {first.gaps_before + first.wrong_at + 1}"
        remedy = "one gap between arrivals per line, in seconds" if gap else None
        raise InputError(first.wrong, file=trace, field=gap, remedy=remedy)
    if end is None or end.gaps == 0:
        raise InputError(
            "holds no gaps between arrivals", file=trace, remedy="give a trace of two arrivals or more"
        )
    if end.last_ns > LONGEST_S * 10**9:
        raise InputError(TOO_LONG, file=trace)


@lru_cache(maxsize=4)
def _draws(seed: int, span_s: float, count: int) -> PacketDraws:
    """Kept between the blocks that one worker sees: the sessions are the same for all of a trace."""
    return PacketDraws.of(seed, span_s, count)


def _stretch(row: Any) -> tuple[Floats, int]:
    """A block's instants since the trace's first arrival, and the number of the first of them.

    Gaps leave out the first arrival, so the first block has one more.
    """
    instants_s = (np.frombuffer(row.instants_ns, dtype=np.int64) + row.offset_ns) / 1e9
    if row.gaps_before:
        return instants_s, row.gaps_before + 1
    return np.concatenate([[0.0], instants_s]), 0


def _trains(frames: Iterator[pd.DataFrame], *, seed: int, extents: Extents) -> Iterator[pd.DataFrame]:
    import pandas as pd

    for frame in frames:
        rows = []
        for row in frame.itertuples(index=False):
            instants_s, first = _stretch(row)
            starts_s = instants_s[_draws(seed, *extents[row.trace]).starts(first, instants_s.size)]
            last_s = starts_s[-1] if starts_s.size else None
            rows.append((row.trace, row.file, row.part, row.seq, starts_s.size, last_s))
        yield pd.DataFrame(rows, columns=[*KEY, "trains", "last_start_s"])


def _counts(
    frames: Iterator[pd.DataFrame], *, request: TraceRequest, extents: Extents, bins: int
) -> Iterator[pd.DataFrame]:
    import pandas as pd

    for frame in frames:
        for row in frame.itertuples(index=False):
            instants_s, first = _stretch(row)
            part = np.zeros(instants_s.size, dtype=np.int64)
            if request.substreams > 1:
                draws = _draws(request.seed, *extents[row.trace])
                source = draws.sources(instants_s, first, row.trains_before, row.last_start_s)
                part = substream_of(source, request.substreams).astype(np.int64)
            within = instants_s < bins * request.bin_s
            at = np.minimum((instants_s[within] / request.bin_s).astype(np.int64), bins - 1)
            stream = row.trace * request.substreams + part[within]
            cell, count = np.unique(stream * bins + at, return_counts=True)
            yield pd.DataFrame({"stream": cell // bins, "bin": cell % bins, "count": count})


@dataclass(frozen=True, eq=False)
class PacketDraws:
    """The draws for a trace of `count` packets."""

    count: int
    train: float
    sessions: Sessions
    state: Any
    """Of the bit generator once the sessions are drawn."""

    @classmethod
    def of(cls, seed: int, span_s: float, count: int, params: PacketParams = DEFAULT_PARAMS) -> PacketDraws:
        """`span_s` from the first packet to the last."""
        generator = np.random.default_rng(seed)
        sessions = draw_sessions(span_s, generator, params.sessions)
        return cls(count, params.train, sessions, generator.bit_generator.state)

    def starts(self, first: int, length: int) -> Bools:
        """Which of the packets `first`, `first + 1`, ... begin a train."""
        starts = self._generator(first).random(length) < 1 / self.train
        if first == 0 and length:
            starts[0] = True
        return starts

    def sources(self, since_first_s: Floats, first: int, trains_before: int, last_start_s: float) -> Ints32:
        """Source addresses of the packets from `first` on, whose instants (counted from the trace's first
        packet) are given. `trains_before` trains began before, the last of them at `last_start_s`.
        """
        starts = self.starts(first, since_first_s.size)
        # The stretch may open in the middle of a train, whose session was picked when the train began.
        carried = int(starts.size > 0 and not starts[0])
        picked_at_s = np.concatenate([[last_start_s][:carried], since_first_s[starts]])
        session = self.sessions.pick(picked_at_s, self._generator(self.count + trains_before - carried))
        return np.asarray(self.sessions.source[session[np.cumsum(starts) - 1 + carried]], dtype=np.int32)

    def _generator(self, numbers_taken: int) -> np.random.Generator:
        bits = np.random.PCG64()
        bits.state = self.state
        return np.random.Generator(bits.advance(numbers_taken))
