"""Streaming queries found in event logs, as a problem: a site per application, a stream and an operator per
query, placed where they ran.

**What the log lacks.** It has the CPU of tasks, not of the driver, which plans every batch, commits offsets
and schedules; for small batches that is most of it. The driver's time is known (a batch's duration without
its stages), its CPU is estimated from it. A thread gets a core the more rarely, the busier the machine is,
driver and tasks alike; so the driver is taken to use DRIVER_CPU_PER_TASK_SHARE times the share of time for
which tasks had CPU. The factor is above one since tasks also wait for files, and since compiling and
collecting garbage go on beside the driver. Measured on servers with room for compiled code, on machines with
a core to spare and without (docs/decisions/0020-driver-cpu-from-its-time.md).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mooring.arrays import Floats
from mooring.errors import InputError
from mooring.model.load.measured.measurements import BatchSample, CostFit, Measured, fit_cost, ratio, warm
from mooring.model.problem.history import RateHistory
from mooring.model.problem.problem import Problem
from mooring.quantity import decimal
from mooring.spark.event_logs.event_log import MOST_QUERIES, LoggedApplication, LoggedBatch, LoggedQuery

DRIVER_CPU_PER_TASK_SHARE = 1.6
MOST_DRIVER_CPU = 1.3
"""CPU seconds per second of driver time at most."""
UNSEEN_ERROR = 0.5
"""Relative error stated where there are progress records only: CPU is then all but guessed from durations."""
_MOST_INSTANTS = 500
_BATCHES_PER_INSTANT = 4


@dataclass(frozen=True)
class QueryEstimate:
    """What one query does and costs."""

    query: str
    site: str
    rate: float
    batches_per_s: float
    cost_us: float
    fixed_cores: float
    selectivity: float
    error: float
    bytes_in: float | None
    bytes_out: float | None
    load_cores: float
    notes: tuple[str, ...] = ()


@dataclass
class ImportedProblem:
    problem: Problem
    placement: dict[str, str]
    estimates: list[QueryEstimate]
    notes: list[str] = field(default_factory=list)


def import_applications(
    applications: Sequence[LoggedApplication], capacities: Mapping[str, float] | None = None
) -> ImportedProblem:
    """`capacities`: cores of sites, by name; overrides the log's, and adds sites that ran nothing."""
    busy = [application for application in applications if application.queries]
    if not busy:
        raise InputError(
            "found no micro-batch of a streaming query",
            remedy="give event logs (spark.eventLog.enabled) or progress records of Structured Streaming",
        )
    sites = _unique([_clean(a.name or a.id or "cluster") for a in busy])
    cores = {site: _capacity(a) for site, a in zip(sites, busy, strict=True)}
    cores.update(capacities or {})
    pairs = [(q, s) for a, s in zip(busy, sites, strict=True) for q in a.queries.values()]
    names = _unique([_clean(query.name) for query, _ in pairs])
    estimates = [estimate(query, n, site) for (query, site), n in zip(pairs, names, strict=True)]
    data: dict[str, Any] = {
        "sites": {name: {"capacity": capacity} for name, capacity in cores.items()},
        "streams": {f"{e.query}:input": _stream_fields(e) for e in estimates},
        "operators": {e.query: _operator_fields(e) for e in estimates},
    }
    problem = Problem.from_dict(data)
    history = _history([query for query, _ in pairs])
    if history is not None:
        problem = replace(problem, history=RateHistory(history))
    return ImportedProblem(
        problem, {e.query: e.site for e in estimates}, estimates, _notes(applications, estimates)
    )


def estimate(query: LoggedQuery, name: str, site: str) -> QueryEstimate:
    batches = _warm_batches(query)
    span_s = max(1e-3, batches[-1].begin_s - batches[0].begin_s) if len(batches) > 1 else query.last_s
    counted = batches[:-1] if len(batches) > 1 else batches  # the last one's interval is not known
    per_s = query.stride / span_s
    rate, batches_per_s = sum(b.rows_in for b in counted) * per_s, len(counted) * per_s
    task_cpu_s, driver_cpu_s, notes = _cpu(batches)
    samples = [BatchSample(b.rows_in, cpu) for b, cpu in zip(batches, task_cpu_s, strict=True)]
    fit = fit_cost(samples)
    total_rows = sum(sample.rows_in for sample in samples)
    if isinstance(fit, CostFit):
        cost_us, fixed_s, error = fit.cost_us.value, fit.batch_cpu_s.value, fit.cost_us.relative_error
        if fit.below_noise:
            notes.append("the cost per row is below the noise: cost_us is an upper bound")
    else:
        notes.append(
            f"{fit.reason}; assumed that the CPU of tasks grows with the rows and that of the driver does not"
        )
        mean_s = float(np.mean(task_cpu_s))
        cost_us = 1e6 * sum(task_cpu_s) / total_rows if total_rows else 0.0
        fixed_s, error = (0.0 if total_rows else mean_s), UNSEEN_ERROR
    fixed_cores = batches_per_s * (fixed_s + driver_cpu_s)
    out = ratio([b.rows_out for b in batches], [b.rows_in for b in batches])
    if not any(b.work is not None for b in batches):
        error = max(error, UNSEEN_ERROR)
    return QueryEstimate(
        query=name,
        site=site,
        rate=rate,
        batches_per_s=batches_per_s,
        cost_us=cost_us,
        fixed_cores=fixed_cores,
        selectivity=out.value if isinstance(out, Measured) else 1.0,
        error=error,
        bytes_in=_width(batches, "bytes_in", "rows_in"),
        bytes_out=_width(batches, "bytes_out", "rows_out"),
        load_cores=fixed_cores + rate * cost_us / 1e6,
        notes=tuple(notes),
    )


def _warm_batches(query: LoggedQuery) -> list[LoggedBatch]:
    """Without the first, dear ones, judged by the tasks' CPU, or by duration where there is none."""
    batches = sorted(query.batches, key=lambda batch: batch.begin_s)
    costs = [BatchSample(b.rows_in, b.work.cpu_s if b.work else b.seconds) for b in batches]
    kept = len(warm(costs))
    return batches[len(batches) - kept :] if kept >= 2 else batches


def _cpu(batches: Sequence[LoggedBatch]) -> tuple[list[float], float, list[str]]:
    """CPU of each batch's tasks, the driver's per batch, and what to say about them."""
    worked = [b for b in batches if b.work is not None]
    if not worked:
        busy_s = [b.seconds for b in batches]
        return busy_s, 0.0, ["the log has no tasks: assumed one core for the whole duration of a batch"]
    typical = float(np.median([b.work.cpu_s for b in worked if b.work]))
    tasks = [b.work.cpu_s if b.work is not None else typical for b in batches]
    run_s = sum(b.work.run_s for b in worked if b.work)
    share = sum(b.work.cpu_s for b in worked if b.work) / run_s if run_s > 0.0 else 1.0
    per_driver_s = min(MOST_DRIVER_CPU, DRIVER_CPU_PER_TASK_SHARE * share)
    driver_s = float(np.mean([b.driver_s for b in worked]))
    return tasks, per_driver_s * driver_s, []


def _width(batches: Sequence[LoggedBatch], top: str, bottom: str) -> float | None:
    tops = [getattr(b.work, top) if b.work is not None else 0.0 for b in batches]
    found = ratio(tops, [getattr(b, bottom) for b in batches])
    # Some sources report a few bytes for everything they read, which is no width of a row.
    return found.value if isinstance(found, Measured) and found.value >= 0.5 else None


def _history(queries: Sequence[LoggedQuery]) -> Floats | None:
    """Rates of all inputs at common instants, each the mean over a few batches; None if too short."""
    begin, end = min(q.first_s for q in queries), max(q.last_s for q in queries)
    gap_s = max((q.last_s - q.first_s) / max(1, q.count - 1) for q in queries)
    widest = max(q.bin_s for q in queries)
    width = max(widest, _BATCHES_PER_INSTANT * gap_s, (end - begin) / _MOST_INSTANTS)
    width = widest * math.ceil(width / widest)
    count = int((end - begin) // width)
    if count < 2:
        return None
    rates = np.zeros((count, len(queries)))
    for k, query in enumerate(queries):
        for number, rows in query.rows_in_bin.items():
            at = int((number * query.bin_s - begin) // width)
            if 0 <= at < count:
                rates[at, k] += rows / width
    return rates


def _capacity(application: LoggedApplication) -> float:
    """Executors' cores, and the driver's where it is a machine of its own."""
    executors = application.most_cores or 1.0
    return executors if application.local else executors + application.driver_cores


def _stream_fields(estimate: QueryEstimate) -> dict[str, object]:
    fields: dict[str, object] = {"rate": estimate.rate}
    return fields if estimate.bytes_in is None else {**fields, "bytes": estimate.bytes_in}


def _operator_fields(estimate: QueryEstimate) -> dict[str, object]:
    fields: dict[str, object] = {
        "inputs": [f"{estimate.query}:input"],
        "cost_us": estimate.cost_us,
        "selectivity": estimate.selectivity,
        "fixed_cores": estimate.fixed_cores,
        "error": estimate.error,
    }
    return fields if estimate.bytes_out is None else {**fields, "bytes": estimate.bytes_out}


def _notes(applications: Sequence[LoggedApplication], estimates: Sequence[QueryEstimate]) -> list[str]:
    notes = [
        "imported from Spark's logs: the CPU of tasks is logged; the CPU of the driver is estimated from "
        "its duration"
    ]
    other = sum(application.other_cpu_s for application in applications)
    if other > 0.0:
        notes.append(f"left out {decimal(other)} CPU seconds of tasks that belong to no streaming query")
    skipped = sum(application.skipped for application in applications)
    if skipped:
        notes.append(f"skipped {skipped} unreadable lines")
    left_out = sum(application.left_out for application in applications)
    if left_out:
        notes.append(f"left out {left_out} batches of queries beyond the first {MOST_QUERIES}")
    notes += [f"{e.query}: {note}" for e in estimates for note in e.notes]
    return notes


def _clean(name: str) -> str:
    """A name as problem files allow it."""
    plain = re.sub(r"[^\w .:/@+-]", "_", name).strip()[:80]
    return plain or "unnamed"


def _unique(names: Sequence[str]) -> list[str]:
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name} {seen[name]}")
    return result if len(set(result)) == len(result) else [f"{n} ({at})" for at, n in enumerate(result)]
