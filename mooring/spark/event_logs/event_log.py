"""Spark's event log of streaming queries: batches, rows, CPU of their tasks.

Jobs carry the query and batch they belong to in their properties, tasks the CPU they used, and every batch
ends with a progress report. Nothing else is kept: above all no property beyond those few names, since the log
repeats the whole configuration, secrets included. Memory stays bounded however long the logs are and however
many queries they hold: all queries share a number of samples, and each is thinned to its share.

Everything here is data of unknown origin. A field of the wrong type counts as missing, an event that makes no
sense as one skipped.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

import msgspec

_PROGRESS = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
_NAMES = {
    "SparkListenerApplicationStart",
    "SparkListenerEnvironmentUpdate",
    "SparkListenerExecutorAdded",
    "SparkListenerExecutorRemoved",
    "SparkListenerJobStart",
    "SparkListenerTaskEnd",
    "SparkListenerStageCompleted",
    _PROGRESS,
}
_EVENT = re.compile(rb'\s*\{\s*"Event"\s*:\s*"([^"]{1,120})"')
_MOST_OPEN = 20_000
"""Stages, and batches, that are known but not over; older ones are forgotten."""
MOST_SAMPLES = 4_000
"""Batches kept of one query."""
MOST_BINS = 4_096
"""Instants at which its rate is known."""
MOST_SAMPLES_OF_ALL = 200_000
"""Batches, and instants, kept of all queries together; about 100 MB."""
MOST_QUERIES = 2_000
"""Queries beyond that are counted and left out."""
LONGEST_EVENT = 8 * 2**20
"""Bytes of an event that is decoded; a job of tens of thousands of stages is shorter."""

_BatchKey = tuple[str, str]


@dataclass(slots=True)
class BatchWork:
    """What the tasks of one batch did."""

    cpu_s: float = 0.0
    run_s: float = 0.0
    """Time inside tasks: CPU, waiting for files, and waiting for a core."""
    stage_s: float = 0.0
    rows_out: float = 0.0
    bytes_out: float = 0.0
    bytes_in: float = 0.0

    def add(self, other: BatchWork) -> None:
        for name in _WORK:
            setattr(self, name, getattr(self, name) + getattr(other, name))


_WORK = tuple(each.name for each in fields(BatchWork))


@dataclass(frozen=True, slots=True)
class LoggedBatch:
    """One micro-batch of a query."""

    begin_s: float
    seconds: float
    rows_in: float
    rows_out: float
    work: BatchWork | None
    """None: the log has no tasks of it (progress records alone, or tasks cut off)."""

    @property
    def driver_s(self) -> float:
        """Time in which no stage of it ran: planning, offsets, commits, scheduling."""
        return max(0.0, self.seconds - (self.work.stage_s if self.work else 0.0))


@dataclass
class LoggedQuery:
    """One streaming query, over all its runs in one application."""

    id: str
    name: str
    batches: list[LoggedBatch] = field(default_factory=list)
    """Every `stride`-th; thinned so that their number stays bounded."""
    stride: int = 1
    count: int = 0
    first_s: float = math.inf
    last_s: float = -math.inf
    bin_s: float = 1.0
    rows_in_bin: dict[int, float] = field(default_factory=dict)
    most_samples: int = MOST_SAMPLES
    most_bins: int = MOST_BINS

    def add(self, batch: LoggedBatch) -> None:
        if self.count % self.stride == 0:
            self.batches.append(batch)
        self.count += 1
        self.first_s = min(self.first_s, batch.begin_s)
        self.last_s = max(self.last_s, batch.begin_s + batch.seconds)
        at = int(batch.begin_s // self.bin_s)
        self.rows_in_bin[at] = self.rows_in_bin.get(at, 0.0) + batch.rows_in
        self.thin()

    def thin(self) -> None:
        """Keep no more than is allowed: every second batch, and bins twice as wide, until it is so."""
        while len(self.batches) > self.most_samples:
            self.batches = self.batches[::2]
            self.stride *= 2
        while len(self.rows_in_bin) > self.most_bins:
            self.bin_s *= 2.0
            wider: dict[int, float] = {}
            for number, rows in self.rows_in_bin.items():
                wider[number // 2] = wider.get(number // 2, 0.0) + rows
            self.rows_in_bin = wider


@dataclass
class SharedSamples:
    """Queries of all logs of one import, each with an equal share of what may be kept."""

    queries: list[LoggedQuery] = field(default_factory=list)

    def admit(self, query: LoggedQuery) -> bool:
        """Whether there is room for one more; the shares of all become smaller then."""
        if len(self.queries) >= MOST_QUERIES:
            return False
        self.queries.append(query)
        share = MOST_SAMPLES_OF_ALL // len(self.queries)
        for each in self.queries:
            each.most_samples, each.most_bins = min(MOST_SAMPLES, share), min(MOST_BINS, share)
            each.thin()
        return True


@dataclass
class LoggedApplication:
    """One Spark application: a cluster's worth of executors, and the queries it ran."""

    id: str = ""
    name: str = ""
    local: bool = False
    driver_cores: float = 1.0
    cores: dict[str, float] = field(default_factory=dict)
    """Per executor that is there now."""
    most_cores: float = 0.0
    queries: dict[str, LoggedQuery] = field(default_factory=dict)
    other_cpu_s: float = 0.0
    """CPU of tasks that belong to no streaming query."""
    skipped: int = 0
    """Lines that were no JSON, or events that made no sense."""
    left_out: int = 0
    """Batches of queries beyond the number that is kept."""


class EventLogReader:
    """Takes lines, keeps an application. Progress records without an event log are taken too."""

    def __init__(self, samples: SharedSamples | None = None) -> None:
        """`samples`: shared by the readers of one import."""
        self.application = LoggedApplication()
        self._samples = samples or SharedSamples()
        self._batch_of_stage: dict[int, _BatchKey | None] = {}
        self._work: dict[_BatchKey, BatchWork] = {}

    def take(self, line: bytes) -> None:
        if not line or line.isspace():
            return
        named = _EVENT.match(line)
        if named is not None and named[1].decode("ascii", "replace") not in _NAMES:
            return
        if len(line) > LONGEST_EVENT:  # as objects it would take many times its length
            self.application.skipped += 1
            return
        try:
            event = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError):
            self.application.skipped += 1
            return
        if not isinstance(event, dict):
            self.application.skipped += 1
            return
        try:
            self._take_event(event)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            self.application.skipped += 1

    def _take_event(self, event: dict[str, Any]) -> None:
        match event.get("Event"):
            case "SparkListenerTaskEnd":
                self._task(event)
            case "SparkListenerStageCompleted":
                self._stage(event["Stage Info"])
            case "SparkListenerJobStart":
                self._job(event)
            case name if name == _PROGRESS:
                self._progress(event["progress"])
            case None if "batchId" in event:  # a bare progress record
                self._progress(event)
            case None if isinstance(event.get("progress"), dict):
                self._progress(event["progress"])
            case "SparkListenerApplicationStart":
                self.application.id = str(event.get("App ID") or "")[:100]
                self.application.name = str(event.get("App Name") or "")[:100]
            case "SparkListenerEnvironmentUpdate":
                self._environment(event.get("Spark Properties") or {})
            case "SparkListenerExecutorAdded":
                cores = _number(event["Executor Info"]["Total Cores"])
                self.application.cores[str(event["Executor ID"])[:100]] = cores
                _forget_oldest(self.application.cores)
                self.application.most_cores = max(
                    self.application.most_cores, sum(self.application.cores.values())
                )
            case "SparkListenerExecutorRemoved":
                self.application.cores.pop(str(event["Executor ID"])[:100], None)
            case _:
                self.application.skipped += 1

    def _environment(self, properties: Mapping[str, Any]) -> None:
        """Two properties and no more: the others may hold secrets."""
        self.application.local = str(properties.get("spark.master", "")).startswith("local")
        with contextlib.suppress(ValueError):
            self.application.driver_cores = max(1.0, float(properties.get("spark.driver.cores", 1)))

    def _job(self, event: dict[str, Any]) -> None:
        properties = event.get("Properties") or {}
        query, batch = properties.get("sql.streaming.queryId"), properties.get("streaming.sql.batchId")
        key = (str(query), str(batch)) if query is not None and batch is not None else None
        for stage in event["Stage IDs"]:
            self._batch_of_stage[int(stage)] = key
        _forget_oldest(self._batch_of_stage)

    def _task(self, event: dict[str, Any]) -> None:
        metrics = event.get("Task Metrics")
        if not isinstance(metrics, dict):  # a task that failed before it did anything
            return
        output, source = metrics.get("Output Metrics") or {}, metrics.get("Input Metrics") or {}
        work = BatchWork(
            cpu_s=_sum(metrics, "Executor CPU Time", "Executor Deserialize CPU Time") / 1e9,
            run_s=_sum(metrics, "Executor Run Time", "Executor Deserialize Time") / 1e3,
            rows_out=_sum(output, "Records Written"),
            bytes_out=_sum(output, "Bytes Written"),
            bytes_in=_sum(source, "Bytes Read"),
        )
        self._add_work(int(event["Stage ID"]), work)

    def _stage(self, info: dict[str, Any]) -> None:
        begin, end = _number(info["Submission Time"]), _number(info["Completion Time"])
        self._add_work(int(info["Stage ID"]), BatchWork(stage_s=max(0.0, end - begin) / 1e3))

    def _add_work(self, stage: int, work: BatchWork) -> None:
        key = self._batch_of_stage.get(stage)
        if key is None:
            self.application.other_cpu_s += work.cpu_s
            return
        self._work.setdefault(key, BatchWork()).add(work)
        _forget_oldest(self._work)

    def _progress(self, report: dict[str, Any]) -> None:
        durations = report.get("durationMs") or {}
        if "addBatch" not in durations:  # a trigger that found nothing to do
            return
        query_id = str(report["id"])[:100]
        text = str(report["timestamp"])[:40]
        begin_s = datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
        seconds = _number(durations.get("triggerExecution", 0)) / 1e3
        rows_in = sum(_sum(source, "numInputRows") for source in report.get("sources") or ())
        work = self._work.pop((query_id, str(report["batchId"])), None)
        told = (report.get("sink") or {}).get("numOutputRows")
        rows_out = work.rows_out if work is not None else 0.0
        if isinstance(told, int) and told >= 0:
            rows_out = float(told)
        name = str(report.get("name") or query_id)[:100]
        query = self.application.queries.get(query_id)
        if query is None:
            query = LoggedQuery(query_id, name)
            if not self._samples.admit(query):
                self.application.left_out += 1
                return
            self.application.queries[query_id] = query
        query.add(LoggedBatch(begin_s, seconds, rows_in, rows_out, work))


def _number(value: object) -> float:
    """A finite number that is not negative, or nothing of use."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("expected a number")
    result = float(value)
    if not math.isfinite(result) or result < 0.0:
        raise ValueError("expected a finite number that is not negative")
    return result


def _sum(fields: object, *names: str) -> float:
    given = fields if isinstance(fields, Mapping) else {}
    total = 0.0
    for name in names:
        with contextlib.suppress(TypeError, ValueError):
            total += _number(given.get(name, 0))
    return total


def _forget_oldest(entries: dict[Any, Any]) -> None:
    while len(entries) > _MOST_OPEN:
        del entries[next(iter(entries))]
