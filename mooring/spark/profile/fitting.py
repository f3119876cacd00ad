"""From a fragment's measured batches to statistics of its flows.

Only the fragment as a whole can be measured: its flows run as one query. Its flows are placed together too,
so how the total is shared among them changes no plan. The rule: every flow gets the same cost per row that
enters it, such that the total is the measured one, taking flows inside to pass on as many rows as they get;
the last flow carries the fixed part, the selectivity and the bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow.parquet

from mooring.model.deployment.fragments import Fragment
from mooring.model.load.measured.measurements import (
    BatchSample,
    CostFit,
    Measured,
    NotMeasured,
    fit_cost,
    middle_of,
    ratio,
)
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.statistics_file import FlowStatistics
from mooring.spark.profile.batches import BatchRunner
from mooring.spark.profile.profile_options import ROW
from mooring.spark.storage.stream_logs import LogEntry


@dataclass
class ProfiledFragment:
    fragment: Fragment
    layout: Layout
    runner: BatchRunner
    skipped: int
    """Warm-up batches at the beginning."""
    files: Sequence[LogEntry]
    """What it wrote."""
    rows_per_input: Mapping[str, int]

    @cached_property
    def samples(self) -> list[BatchSample]:
        """Batches that count, with the rows Spark says it read where it does."""
        found = []
        for at, batch in enumerate(self.runner.done[self.skipped :]):
            if at % ROW == 0:
                continue
            report = self.runner.progress.get(batch.number, {})
            read = sum(int(source.get("numInputRows") or 0) for source in report.get("sources") or ())
            found.append(BatchSample(read or batch.rows, batch.cpu_s))
        return found

    @cached_property
    def written(self) -> list[tuple[float, float]]:
        """Rows and bytes that each measured batch wrote; empty where the sink does not tell."""
        measured = self.runner.done[self.skipped :]
        if not self.files:
            reports = [self.runner.progress.get(batch.number, {}) for batch in measured]
            told = [_sink_rows(report) for report in reports]
            return [(float(rows), 0.0) for rows in told if rows is not None] if None not in told else []
        begin_s, result = self.runner.done[self.skipped - 1].until_s if self.skipped else 0.0, []
        for batch in measured:
            own = [file for file in self.files if begin_s < file.modified_s <= batch.until_s]
            rows = sum(int(pyarrow.parquet.read_metadata(file.path).num_rows) for file in own)
            result.append((float(rows), float(sum(file.size for file in own))))
            begin_s = batch.until_s
        return result

    @cached_property
    def selectivity_measured(self) -> Measured | None:
        """Rows out per row in. A window gives out late what it took in early, so single batches say little:
        the error is that of groups of batches.
        """
        if not self.written:
            return None
        read = [float(batch.rows) for batch in self.runner.done[self.skipped :]]
        found = ratio(_grouped([rows for rows, _ in self.written]), _grouped(read))
        return found if isinstance(found, Measured) else None

    @property
    def selectivity(self) -> float | None:
        found = self.selectivity_measured
        return None if found is None else found.value

    @property
    def state_bytes(self) -> float | None:
        last = self.runner.progress.get(max(self.runner.progress, default=-1), {})
        states = last.get("stateOperators") or ()
        return float(sum(int(state.get("memoryUsedBytes") or 0) for state in states)) if states else None

    @cached_property
    def passes(self) -> dict[str, float]:
        """Rows that enter each flow, per row that enters the fragment, if none inside dropped any."""
        flows, total = self.layout.pipeline.flows, sum(self.rows_per_input.values())
        out: dict[str, float] = {}
        entering: dict[str, float] = {}
        outside = sum(n for name, n in self.rows_per_input.items() if name.startswith("outside "))
        for name in self.fragment.operators:
            node = flows[name]
            share = outside / total if node.outside and total else 0.0
            for dataset in node.inputs:
                for writer in self.layout.pipeline.writers(dataset):
                    inside = out.get(writer.name)
                    fed = self.rows_per_input.get(writer.name, 0) / total if total else 0.0
                    share += fed if inside is None else inside
            entering[name] = out[name] = share
        return entering


def flow_statistics(profiled: ProfiledFragment) -> dict[str, FlowStatistics] | NotMeasured:
    fit = fit_cost(profiled.samples, least_batches=2 * (ROW - 1))
    if isinstance(fit, NotMeasured):
        return fit
    flows, passes = profiled.layout.pipeline.flows, profiled.passes
    spread_over = sum(passes.values()) or 1.0
    result = {}
    for name in profiled.fragment.operators:
        own = FlowStatistics(
            cost_us=fit.cost_us.value / spread_over,
            cost_us_error=fit.cost_us.standard_error / spread_over,
            selectivity=1.0,
            error=fit.cost_us.relative_error,
            batches=fit.batches,
            rows=int(max(sample.rows_in for sample in profiled.samples)),
            flow=flows[name].unplaced_fingerprint,
        )
        result[name] = own if name != profiled.fragment.name else _last(profiled, fit, own)
    return result


def _last(profiled: ProfiledFragment, fit: CostFit, own: FlowStatistics) -> FlowStatistics:
    changes: dict[str, Any] = {
        "batch_cpu_s": fit.batch_cpu_s.value,
        "batch_cpu_s_error": fit.batch_cpu_s.standard_error,
        "state_bytes": profiled.state_bytes,
        "selectivity": None,
    }
    found = profiled.selectivity_measured
    if found is not None:
        entering = profiled.passes[profiled.fragment.name] or 1.0
        changes["selectivity"] = found.value / entering
        changes["selectivity_error"] = found.standard_error / entering
        changes["error"] = max(own.error or 0.0, found.relative_error)
    width = ratio([size for _, size in profiled.written], [rows for rows, _ in profiled.written])
    if isinstance(width, Measured) and width.value > 0.0:
        changes["bytes"] = width.value
    if fit.below_noise:
        changes["note"] = "the cost per row is below the noise: cost_us is an upper bound"
    elif len(profiled.fragment.operators) > 1:
        changes["note"] = f"shared evenly with {', '.join(profiled.fragment.operators[:-1])}"
    return FlowStatistics(**{**vars(own), **changes})


def middle_of_passes(passes: Sequence[FlowStatistics]) -> FlowStatistics:
    """One flow's figures from several passes, each with an error that holds for another pass too."""
    widths = [own.bytes for own in passes if own.bytes is not None]
    changes: dict[str, Any] = {
        "bytes": sum(widths) / len(widths) if widths else None,
        "batches": sum(own.batches or 0 for own in passes),
        "rows": max(own.rows or 0 for own in passes),
        "note": next((own.note for own in passes if own.note), None),
    }
    found = {name: _middle(passes, name) for name in ("cost_us", "batch_cpu_s", "selectivity")}
    for name, one in found.items():
        changes[name] = None if one is None else one.value
        stated = getattr(passes[-1], f"{name}_error") is not None
        changes[f"{name}_error"] = one.standard_error if one is not None and stated else None
    errors = [one.relative_error for name, one in found.items() if one is not None and name != "batch_cpu_s"]
    return replace(passes[-1], **changes, error=max(errors, default=None))


def _middle(passes: Sequence[FlowStatistics], name: str) -> Measured | None:
    """None where any pass has no such figure."""
    values = [getattr(own, name) for own in passes]
    errors = [getattr(own, f"{name}_error") or 0.0 for own in passes]
    if any(value is None for value in values):
        return None
    return middle_of([Measured(value, error) for value, error in zip(values, errors, strict=True)])


def _grouped(values: Sequence[float]) -> list[float]:
    """Sums over one round of both sizes each; what is left over at the end belongs to the last."""
    rounds = max(1, len(values) // (2 * ROW))
    ends = [2 * ROW * number for number in range(rounds)] + [len(values)]
    return [sum(values[begin:end]) for begin, end in itertools.pairwise(ends)]


def _sink_rows(report: Mapping[str, Any]) -> int | None:
    rows = (report.get("sink") or {}).get("numOutputRows")
    return int(rows) if isinstance(rows, int) and rows >= 0 else None
