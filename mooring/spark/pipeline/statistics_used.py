"""Which statistics a plan is made with: given by the user, measured by a profile, or assumed.

What `mooring.yml` says wins, field by field; then the statistics file; what neither says is assumed, and said
to be. A measurement of another version of a flow, or of long ago, is still the best there is: it is used and
called stale.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mooring.contracts.engine import LOOK_S
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.pipeline import FlowNode
from mooring.spark.pipeline.statistics_file import LONG_AGO_DAYS, STATISTICS_FILE_NAME
from mooring.spark.pipeline.streams_used import assumption_notes, streams_without_rate

ASSUMED_COST_US = 20.0
"""CPU per row where nothing is known; a plan made with it says so."""
ASSUMED_BATCH_CPU_S = 0.2
"""CPU per micro-batch where nothing is known: about what a small one costs an embedded site."""
ASSUMED_PARTITION_CPU_S = 0.009
"""CPU per micro-batch and further shuffle partition of a fragment with state, where nothing is known."""
ASSUMED_VIEW_COST_US = 2.0
"""CPU per row that a refresh of a materialized view reads, where nothing is known."""
ASSUMED_REFRESH_CPU_S = 0.5
"""CPU of a refresh that does not grow with the rows, where nothing is known."""


def given_fields(layout: Layout, flow: FlowNode) -> dict[str, Any]:
    """From `statistics` in mooring.yml."""
    given = layout.project.settings.statistics
    return dict(given.get(flow.name) or given.get(flow.dataset) or {})


def measured_fields(layout: Layout, flow: FlowNode) -> dict[str, object]:
    """From the statistics file, for the trigger of now."""
    measured = layout.project.measured
    own = measured.flows.get(flow.name)
    if own is None:
        return {}
    fields = own.operator_fields(interval_s(layout, flow), measured.look_cpu_s / LOOK_S)
    if flow.name not in layout.fragments:  # the fixed part belongs to the fragment's last flow
        fields.pop("fixed_cores", None)
    return fields


def interval_s(layout: Layout, flow: FlowNode) -> float:
    """Between two micro-batches, or between two refreshes of a view."""
    settings = layout.project.settings
    is_view = layout.pipeline.is_view(flow.name)
    return layout.refresh_s(flow.dataset) if is_view else settings.trigger_s


@dataclass(frozen=True)
class RefreshCost:
    """Of a materialized view."""

    cost_us: float
    """Per row that a refresh reads."""
    fixed_cpu_s: float
    """Of a refresh, whatever it reads."""

    def cpu_s(self, rows: float) -> float:
        return self.fixed_cpu_s + self.cost_us * rows / 1e6


def refresh_cost(layout: Layout, flow: FlowNode) -> RefreshCost:
    """As given, measured or assumed."""
    known: dict[str, Any] = {**measured_fields(layout, flow), **given_fields(layout, flow)}
    fixed_cores = known.get("fixed_cores", ASSUMED_REFRESH_CPU_S / layout.refresh_s(flow.dataset))
    return RefreshCost(
        known.get("cost_us", ASSUMED_VIEW_COST_US), fixed_cores * layout.refresh_s(flow.dataset)
    )


def view_load(layout: Layout, flow: FlowNode) -> dict[str, float]:
    """The fields of a view's operator: every refresh reads all rows that are stored, whatever the rate at
    which they come, so it is fixed load to a placement, and grows with the tables.
    """
    cpu_s = refresh_cost(layout, flow).cpu_s(rows_read(layout, flow))
    return {"cost_us": 0.0, "selectivity": 0.0, "fixed_cores": cpu_s / layout.refresh_s(flow.dataset)}


def version_load(layout: Layout, fragment: str) -> float:
    """Cores that a fragment spends on rows of materialized views which it reads as streams, or which came to
    it by way of others: every refresh delivers all rows of the view, whatever the rates of streams.
    """
    cores = 0.0
    for name in layout.fragments[fragment].operators:
        flow = layout.pipeline.flows[name]
        known: dict[str, Any] = {**measured_fields(layout, flow), **given_fields(layout, flow)}
        cores += known.get("cost_us", ASSUMED_COST_US) * version_rows_per_s(layout, flow) / 1e6
    return cores


def version_rows_per_s(layout: Layout, flow: FlowNode) -> float:
    """Rows of versions that come to a flow, where views are refreshed as often as they may be."""
    rows_per_s = 0.0
    for dataset in flow.inputs:
        if (versions := layout.views.get(dataset)) is not None:
            last = versions.current()
            rows_per_s += 0.0 if last is None else last.rows / layout.refresh_s(dataset)
            continue
        for writer in layout.pipeline.writers(dataset):
            known: dict[str, Any] = {**measured_fields(layout, writer), **given_fields(layout, writer)}
            rows_per_s += known.get("selectivity", 1.0) * version_rows_per_s(layout, writer)
    return rows_per_s


def rows_read(layout: Layout, flow: FlowNode) -> int:
    """By its last refresh; 0 before the first."""
    last = layout.views[flow.dataset].current()
    return 0 if last is None else last.rows_in


def statistics_notes(layout: Layout, now: datetime | None = None) -> list[str]:
    """Where the plan's statistics come from, in sentences: measured, stale, given, assumed."""
    project, flows = layout.project, layout.pipeline.flows.values()
    measured = project.measured.flows
    notes = []
    used = [flow.name for flow in flows if flow.name in measured]
    overruled = [name for name in used if given_fields(layout, layout.pipeline.flows[name])]
    if used:
        when = f" of {project.measured.at}" if project.measured.at else ""
        notes.append(f"{_names(used)} as measured in {STATISTICS_FILE_NAME}{when}")
    if overruled:
        notes.append(f"the statistics in mooring.yml override the measured ones of {_names(overruled)}")
    notes += _stale(layout, used, now or datetime.now(UTC))
    notes += [
        f"{STATISTICS_FILE_NAME} has {name!r}, which is not a flow of the pipeline" for name in _gone(layout)
    ]
    notes += _assumed(layout)
    return [*notes, *assumption_notes(layout)]


def _stale(layout: Layout, used: list[str], now: datetime) -> list[str]:
    project, notes = layout.project, []
    flows = layout.pipeline.flows
    edited = [
        name
        for name in used
        if (version := project.measured.flows[name].flow) is not None
        and version != flows[name].unplaced_fingerprint
    ]
    if edited:
        notes.append(f"stale: {_names(edited)} edited since measured; run `mooring profile` again")
    age = project.measured.age_days(now)
    if used and age is not None and age > LONG_AGO_DAYS:
        notes.append(f"stale: measured {age:.0f} days ago; run `mooring profile` again")
    return notes


def assumed_sentence(layout: Layout) -> str | None:
    """That the plan rests on assumptions, and how that ends; None where everything was stated or measured."""
    costs, batches, views = _without_costs(layout)
    unknown = list(dict.fromkeys([*costs, *batches, *views]))
    rates = streams_without_rate(layout)
    if not unknown and not rates:
        return None
    what = [f"assumed costs of {_names(unknown)}"] if unknown else []
    what += [f"assumed rates of {_names(rates)}"] if rates else []
    return (
        f"Planned from {' and '.join(what)}: the headroom is unknown until the first minute of a run, or "
        "`mooring profile`, has measured it."
    )


def _without_costs(layout: Layout) -> tuple[list[str], list[str], list[str]]:
    """Flows without a cost per row, fragments without one per micro-batch, views without either."""
    costs, batches, views = [], [], []
    for flow in layout.pipeline.flows.values():
        known = {**measured_fields(layout, flow), **given_fields(layout, flow)}
        if layout.pipeline.is_view(flow.name):
            if not {"cost_us", "fixed_cores"} <= known.keys():
                views.append(flow.name)
            continue
        if "cost_us" not in known:
            costs.append(flow.name)
        if flow.name in layout.fragments and "fixed_cores" not in known:
            batches.append(flow.name)
    return costs, batches, views


def _assumed(layout: Layout) -> list[str]:
    costs, batches, views = _without_costs(layout)
    notes = []
    if views:
        notes.append(
            f"no statistics for the views {_names(views)}: assumed {ASSUMED_REFRESH_CPU_S:g} CPU seconds "
            f"per refresh and {ASSUMED_VIEW_COST_US:g} us per row read"
        )
    if costs:
        notes.append(f"no statistics for {_names(costs)}: assumed {ASSUMED_COST_US:g} us per row")
    if batches:
        notes.append(
            f"no fixed cost for {_names(batches)}: assumed {ASSUMED_BATCH_CPU_S:g} CPU seconds per "
            f"micro-batch, and {ASSUMED_PARTITION_CPU_S:g} per shuffle partition of state beyond the first"
        )
    return notes


def _gone(layout: Layout) -> list[str]:
    return [name for name in layout.project.measured.flows if name not in layout.pipeline.flows]


def _names(names: list[str]) -> str:
    shown = ", ".join(names[:6])
    return shown if len(names) <= 6 else f"{shown} and {len(names) - 6} more"
