"""From Spark's progress reports to rates and latencies.

Spark reports each micro-batch: when it began, how long it took, how many rows it read, and (by an observation
Mooring adds to each fragment's output) how many it wrote. The latency of one hop is what a row waits in the
channel plus the batch that takes it: for every batch, its end minus the ends of the upstream batches it took
in. A query's latency is the sum along its slowest path. What a window holds back until it closes is the
query's meaning, not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

OBSERVED = "mooring"
"""Name of the observation that counts a fragment's output rows."""
_KEPT = 200


@dataclass(frozen=True)
class Batch:
    """One micro-batch that did something."""

    number: int
    begin_s: float
    end_s: float
    rows_in: int
    rows_out: int
    state_rows: int
    add_batch_s: float


def batch_of(progress: Mapping[str, Any]) -> Batch:
    """From a progress report as Spark gives it (JSON)."""
    begin = datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00")).timestamp()
    durations = progress.get("durationMs") or {}
    observed = (progress.get("observedMetrics") or {}).get(OBSERVED) or {}
    sources = progress.get("sources") or ()
    return Batch(
        number=int(progress["batchId"]),
        begin_s=begin,
        end_s=begin + durations.get("triggerExecution", 0) / 1000,
        rows_in=sum(int(source.get("numInputRows") or 0) for source in sources),
        rows_out=int((observed.get("values") or [0])[0] or 0),
        state_rows=sum(int(state.get("numRowsTotal", 0)) for state in progress.get("stateOperators") or ()),
        add_batch_s=durations.get("addBatch", 0) / 1000,
    )


@dataclass
class FragmentMeter:
    """Remembers a fragment's recent batches and counts all of them."""

    batches: list[Batch] = field(default_factory=list)
    rows_in: int = 0
    rows_out: int = 0
    count: int = 0
    busy_s: float = 0.0
    fresh: list[Batch] = field(default_factory=list)
    """Those that came since the last look."""

    def take(self, progress: Iterable[Mapping[str, Any]]) -> None:
        """Add reports not seen before; Spark repeats recent ones, and idle ones that carry no batch."""
        last = self.batches[-1].number if self.batches else -1
        self.fresh = []
        for report in progress:
            if "addBatch" not in (report.get("durationMs") or {}):
                continue
            batch = batch_of(report)
            if batch.number > last:
                last = batch.number
                self.fresh.append(batch)
        for batch in self.fresh:
            self.rows_in += batch.rows_in
            self.rows_out += batch.rows_out
            self.count += 1
            self.busy_s += batch.end_s - batch.begin_s
        self.batches = (self.batches + self.fresh)[-_KEPT:]

    def rates_per_s(self, now_s: float, window_s: float) -> tuple[float, float]:
        """Rows read and written per second, over the batches that ended in the last `window_s`.

        Batches come every few seconds at most, so a shorter look would see all or nothing.
        """
        recent = [batch for batch in self.batches if batch.end_s > now_s - window_s]
        span_s = min(window_s, now_s - self.batches[0].begin_s) if self.batches else window_s
        rows_in, rows_out = sum(b.rows_in for b in recent), sum(b.rows_out for b in recent)
        return rows_in / max(span_s, 1e-3), rows_out / max(span_s, 1e-3)

    def restarted(self) -> None:
        """After a move or a resume, batch numbers go on, so nothing is forgotten."""
        self.fresh = []


def hop_latency_s(reader: FragmentMeter, writers: Iterable[FragmentMeter], trigger_s: float) -> float | None:
    """Mean over recent batches that read rows: end of the batch minus the ends of what it took in.

    A fragment that reads an outside source has no writers: rows then wait half a trigger on average.
    """
    taken = [batch for batch in reader.batches[-20:] if batch.rows_in > 0]
    if not taken:
        return None
    sources = list(writers)
    if not sources:
        return sum(batch.end_s - batch.begin_s for batch in taken) / len(taken) + trigger_s / 2
    waits = []
    for before, batch in zip(reader.batches, reader.batches[1:], strict=False):
        if batch.rows_in == 0:
            continue
        ends = [up.end_s for source in sources for up in source.batches if up.rows_out > 0]
        took = [end for end in ends if before.begin_s < end <= batch.begin_s]
        waits += [batch.end_s - end for end in took]
    return sum(waits) / len(waits) if waits else taken[-1].end_s - taken[-1].begin_s


def path_latency_s(
    fragment: str, hops: Mapping[str, float | None], writers: Mapping[str, Iterable[str]]
) -> float | None:
    """Slowest way from any source to the fragment's output; None as long as a hop is unknown."""
    own = hops.get(fragment)
    if own is None:
        return None
    above = [path_latency_s(writer, hops, writers) for writer in writers.get(fragment, ())]
    known = [value for value in above if value is not None]
    if above and not known:
        return None
    return own + max(known, default=0.0)
