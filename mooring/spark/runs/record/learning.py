"""What a run learns of each flow, written into the storage while it runs, for the plans and runs to come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from mooring.contracts.clock import Clock
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.pipeline import FlowNode
from mooring.spark.pipeline.statistics_used import ASSUMED_COST_US, ASSUMED_VIEW_COST_US, known_fields
from mooring.spark.runs.record.operation_statistics import FragmentFigures
from mooring.spark.storage.learnt import LearntFlow, write_learnt

EVERY_S = 60.0
"""Seconds between two writings: what a crash may cost."""


@dataclass
class Learning:
    layout: Layout
    clock: Clock
    _due_s: float = 0.0
    _lines: dict[tuple[str, str], LearntFlow] = field(default_factory=dict)
    """What this run has measured of each version of a flow, fragments that have stopped since included."""

    def note(self, figures: Mapping[str, FragmentFigures], *, last: bool = False) -> None:
        """Keep what is known by now; written once a minute, and when the run ends."""
        now_s = self.clock.monotonic_s()
        if not figures or (now_s < self._due_s and not last):
            return
        at = datetime.fromtimestamp(self.clock.now_s(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._lines |= {(line.flow, line.version): line for line in learnt_lines(self.layout, figures, at)}
        if self._lines:
            layout, known = self.layout, self.layout.learnt
            write_learnt(
                layout.root, known.with_lines(self._lines.values(), layout.pipeline.flows), layout.owned
            )
            self._due_s = now_s + EVERY_S


def learnt_lines(layout: Layout, figures: Mapping[str, FragmentFigures], at: str) -> Iterable[LearntFlow]:
    """From figures of fragments to those of flows.

    Flows that share a fragment run as one query and cannot be told apart: their costs grow or shrink alike,
    and the last one has the fixed part, the selectivity and the bytes. They are placed together, so no plan
    depends on the division. A fragment that no rows have come to has taught nothing of its costs.
    """
    for name, found in figures.items():
        fragment = layout.fragments.get(name)
        if fragment is None or found.rows_in_per_s <= 0.0:
            continue
        flows = [layout.pipeline.flows[flow] for flow in fragment.operators]
        known = [_cost_us(layout, flow) for flow in flows]
        total = sum(known)
        for flow, own in zip(flows, known, strict=True):
            share = own / total if total > 0.0 else 1.0 / len(flows)
            line = LearntFlow(
                flow=flow.name,
                version=flow.fingerprint,
                at=at,
                looks=found.looks,
                cost_us=share * (found.cost_us or found.cost_us_error),  # in the noise: a bound, never zero
                cost_us_error=share * found.cost_us_error,
                error=found.error,
                rate=found.rows_in_per_s,
                rate_error=found.rows_in_per_s_error,
                estimated=found.estimated,
            )
            yield line if flow.name != name else _last(line, found, _entering(layout, flows))


def _last(line: LearntFlow, found: FragmentFigures, entering: float) -> LearntFlow:
    selectivity = None if found.selectivity is None or entering <= 0.0 else found.selectivity / entering
    return msgspec.structs.replace(
        line,
        batch_cpu_s=found.batch_cpu_s,
        batch_cpu_s_error=found.batch_cpu_s_error,
        batches_per_s=found.batches_per_s,
        selectivity=selectivity,
        bytes=found.bytes,
    )


def _cost_us(layout: Layout, flow: FlowNode) -> float:
    is_view = layout.pipeline.is_view(flow.name)
    assumed = ASSUMED_VIEW_COST_US if is_view else ASSUMED_COST_US
    return float(known_fields(layout, flow).get("cost_us", assumed))


def _entering(layout: Layout, flows: list[FlowNode]) -> float:
    """Rows that enter the last of a fragment's flows per row that enters the fragment, which comes in by all
    of its ways alike.
    """
    inside = {flow.name for flow in flows}
    writers = {
        flow.name: [
            writer.name
            for each in flow.inputs
            for writer in layout.pipeline.writers(each)
            if writer.name in inside
        ]
        for flow in flows
    }
    ways = sum(not writers[flow.name] for flow in flows) or 1
    out, entering = dict[str, float](), 0.0
    for flow in flows:
        entering = sum(out[name] for name in writers[flow.name]) if writers[flow.name] else 1.0 / ways
        out[flow.name] = entering * float(known_fields(layout, flow).get("selectivity", 1.0))
    return entering
