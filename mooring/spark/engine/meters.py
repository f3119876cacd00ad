"""From Spark's progress reports and the channels' files to rates and latencies.

Spark reports each micro-batch: when it began, how long it took, how many rows it read. What it wrote is read
off the files it appended (an observation inside the query would count them too, but cost each site CPU). The
latency of one hop is what a row waits in the channel plus the batch that takes it: for every batch, its end
minus the instants at which the files it took in were written. A query's latency is the sum along its slowest
path. What a window holds back until it closes is the query's meaning, not counted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from graphlib import TopologicalSorter
from typing import Any

from mooring.spark.storage.file_rows import rows_in
from mooring.spark.storage.stream_logs import LogEntry

_KEPT = 200
RECENT_BATCHES = 5
"""Whose latency counts as the present one: at a trigger of a few seconds, the last half minute."""
JOIN = "symmetricHashJoin"
"""What Spark calls the state of a join of two streams."""
OBSERVED = "mooring_delivered"
"""What counts the rows on their way to a sink."""


@dataclass(frozen=True)
class Batch:
    """One micro-batch that did something."""

    number: int
    begin_s: float
    end_s: float
    rows_in: int
    rows_out: int
    """As the sink tells, or was observed on the way to it; rows of tables are counted by the channel's
    meter."""
    state_rows: int
    add_batch_s: float
    state_bytes: int = 0
    joins: bool = False
    """Whether it joined streams."""
    rows_behind: int | None = None
    """Of a topic, not read when the batch began; None for other sources."""


def batch_of(progress: Mapping[str, Any], ahead_s: float = 0.0) -> Batch:
    """From a progress report as Spark gives it (JSON), at a site whose clock is ahead of ours."""
    begin = _begin_s(progress, ahead_s)
    durations = progress.get("durationMs") or {}
    sources = progress.get("sources") or ()
    return Batch(
        number=int(progress["batchId"]),
        begin_s=begin,
        end_s=begin + durations.get("triggerExecution", 0) / 1000,
        rows_in=sum(int(source.get("numInputRows") or 0) for source in sources),
        rows_out=_rows_out(progress),
        state_rows=sum(int(state.get("numRowsTotal", 0)) for state in progress.get("stateOperators") or ()),
        add_batch_s=durations.get("addBatch", 0) / 1000,
        state_bytes=sum(map(_state_bytes, progress.get("stateOperators") or ())),
        joins=any(state.get("operatorName") == JOIN for state in progress.get("stateOperators") or ()),
        rows_behind=rows_behind(progress),
    )


def _begin_s(progress: Mapping[str, Any], ahead_s: float) -> float:
    return datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00")).timestamp() - ahead_s


def _rows_out(progress: Mapping[str, Any]) -> int:
    """A sink that writes files says -1."""
    told = int((progress.get("sink") or {}).get("numOutputRows") or 0)
    observed = (progress.get("observedMetrics") or {}).get(OBSERVED) or {}
    return max(0, told, *map(int, observed.get("values") or ()))


def _state_bytes(state: Mapping[str, Any]) -> int:
    """What a move takes along: RocksDB's files where it is the store, else the maps in memory."""
    files = int((state.get("customMetrics") or {}).get("rocksdbSstFileSize", 0))
    return files if files > 0 else int(state.get("memoryUsedBytes", 0))


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
    idle_s: float = float("-inf")
    """When it last reported that it had nothing to do."""

    def take(self, progress: Iterable[Mapping[str, Any]], ahead_s: float = 0.0) -> None:
        """Add reports not seen before; Spark repeats recent ones, and idle ones that carry no batch. Reports
        that cannot be read are left out, and the first of them is raised as it failed once all others are in.
        """
        last = self.batches[-1].number if self.batches else -1
        self.fresh, odd = [], list[Exception]()
        for report in progress:
            try:
                if "addBatch" not in (report.get("durationMs") or {}):
                    self.idle_s = max(self.idle_s, _begin_s(report, ahead_s))
                    continue
                batch = batch_of(report, ahead_s)
            except (KeyError, ValueError, TypeError, AttributeError) as failure:
                odd.append(failure)
                continue
            if batch.number > last:
                last = batch.number
                self.fresh.append(batch)
        for batch in self.fresh:
            if self.batches and batch.begin_s < self.batches[-1].begin_s:
                # Its clock was set back: no span from one of these to a later one is known.
                self.batches, self.idle_s = [], float("-inf")
            self.batches.append(batch)
            self.rows_in += batch.rows_in
            self.rows_out += batch.rows_out
            self.count += 1
            self.busy_s += batch.end_s - batch.begin_s
        self.batches = self.batches[-_KEPT:]
        if odd:
            raise odd[0]

    def rows_per_s(self, now_s: float, window_s: float) -> tuple[float, float]:
        """Rows read, and written as far as the sink tells, over the batches that ended in the last
        `window_s`.

        Batches come every few seconds at most, so a shorter look would see all or nothing. What a batch reads
        has come since the one before it began, so rates are taken from batch to batch: over a span that ends
        at any other moment, one batch more or less would be counted than belongs there. A batch that takes
        longer than all this says nothing until it ends; what is idle says so.
        """
        recent = [batch for batch in self.batches if batch.end_s > now_s - window_s]
        idle = bool(self.batches) and self.idle_s > self.batches[-1].end_s
        if not recent and not idle:
            recent = self.batches[-1:]
        rows_in, rows_out = sum(b.rows_in for b in recent), sum(b.rows_out for b in recent)
        before = len(self.batches) - len(recent) - 1
        if not recent or before < 0:
            span_s = min(window_s, now_s - self.batches[0].begin_s) if self.batches else window_s
        else:
            until_s = now_s if idle else recent[-1].begin_s
            span_s = until_s - self.batches[before].begin_s
        return rows_in / max(span_s, 1e-3), rows_out / max(span_s, 1e-3)

    def restarted(self) -> None:
        """After a move or a resume, batch numbers go on, so nothing is forgotten."""
        self.fresh = []


@dataclass
class ChannelMeter:
    """Counts what is appended to one channel."""

    end: int
    """Position up to which everything has been counted."""
    rows: int = 0
    bytes: int = 0
    appended: list[tuple[float, int, int]] = field(default_factory=list)
    """Recent files: when written, or seen where that is not known, rows, bytes."""
    untimed: int = 0
    """Files, in a row up to the newest, of which nobody can tell when they were written."""

    def take(
        self,
        entries: Iterable[LogEntry],
        written_s: Callable[[LogEntry], float | None] = lambda entry: entry.modified_s,
        now_s: float = 0.0,
    ) -> None:
        """`written_s` tells when a file was written, by our clock."""
        for entry in entries:
            rows = rows_in(entry.path) or 0  # none of what was trimmed a moment ago
            self.end += 1
            self.rows += rows
            self.bytes += entry.size
            at_s = written_s(entry)
            self.untimed = 0 if at_s is not None else self.untimed + 1
            self.appended.append((now_s if at_s is None else at_s, rows, entry.size))
        self.appended = self.appended[-_KEPT:]

    def newest_rows(self, files: int) -> int:
        """Rows of so many newest files; those too old to be remembered count as the others do.

        >>> ChannelMeter(0, appended=[(0.0, 4, 1), (1.0, 6, 1)]).newest_rows(4)
        20
        """
        known = [rows for _, rows, _ in self.appended[-files:]] if files > 0 else []
        return round(sum(known) * files / len(known)) if known else 0

    def rates_per_s(self, now_s: float, window_s: float, since_s: float) -> tuple[float, float]:
        """Rows and bytes appended per second over the last `window_s`, or since the run began if that is
        less.
        """
        recent = [item for item in self.appended if item[0] > now_s - window_s]
        span_s = max(min(window_s, now_s - since_s), 1e-3)
        return sum(item[1] for item in recent) / span_s, sum(item[2] for item in recent) / span_s


def hop_latency_s(reader: FragmentMeter, written_s: Iterable[float] | None, trigger_s: float) -> float | None:
    """Mean over the last batches that read rows: end of the batch minus the writing of the files it took in.

    A fragment that reads an outside source (`written_s` is None) finds rows that waited half the time from
    one batch to the next on average: a trigger, or the batch itself where that takes longer.
    """
    taken = [batch for batch in reader.batches if batch.rows_in > 0][-RECENT_BATCHES:]
    if not taken:
        return None
    if written_s is None:
        took_s = [batch.end_s - batch.begin_s for batch in taken]
        return sum(each + max(trigger_s, each) / 2 for each in took_s) / len(taken)
    instants, waits = list(written_s), []
    for before, batch in zip(reader.batches, reader.batches[1:], strict=False):
        if batch in taken:
            waits += [batch.end_s - at for at in instants if before.begin_s < at <= batch.begin_s]
    return sum(waits) / len(waits) if waits else taken[-1].end_s - taken[-1].begin_s


def path_latencies_s(
    hops: Mapping[str, float | None], writers: Mapping[str, Iterable[str]]
) -> dict[str, float | None]:
    """Per fragment, the slowest way from any source to its output; None as long as a hop is unknown.

    Each fragment once, however many ways lead to it.
    """
    found: dict[str, float | None] = {}
    for fragment in TopologicalSorter({name: list(writers.get(name, ())) for name in hops}).static_order():
        # A writer that is just being started may have no hop yet, and is no node then.
        own, above = hops.get(fragment), [found.get(writer) for writer in writers.get(fragment, ())]
        known = [value for value in above if value is not None]
        unknown = own is None or (above and not known)
        found[fragment] = None if own is None or unknown else own + max(known, default=0.0)
    return found


def rows_behind(progress: Mapping[str, Any]) -> int | None:
    """How many rows of its Kafka topics a fragment has not read, over all sources of a progress report that
    count by topic and partition; None where none does.

    >>> read, there = {"orders": {"0": 7, "1": 5}}, '{"orders": {"0": 9, "1": 5}}'
    >>> rows_behind({"sources": [{"endOffset": read, "latestOffset": there}]})
    2
    >>> rows_behind({"sources": [{"endOffset": '{"logOffset": 3}', "latestOffset": None}]}) is None
    True
    """
    each = [_behind(source) for source in progress.get("sources") or ()]
    known = [count for count in each if count is not None]
    return sum(known) if known else None


def _behind(source: Mapping[str, Any]) -> int | None:
    read, there = _by_partition(source.get("endOffset")), _by_partition(source.get("latestOffset"))
    if not read or not there:
        return None
    return sum(max(0, offset - read.get(partition, offset)) for partition, offset in there.items())


def _by_partition(offset: object) -> dict[tuple[str, str], int]:
    """Empty where the offset is not Kafka's. Over Connect it comes as text."""
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except ValueError:
            return {}
    if not isinstance(offset, Mapping) or not all(isinstance(part, Mapping) for part in offset.values()):
        return {}
    return {(topic, partition): int(at) for topic, parts in offset.items() for partition, at in parts.items()}
