"""Which statistics a plan is made with: given by the user, profiled, learnt by runs, or assumed.

Field by field, the first of these that says something counts:

1. `statistics` in `mooring.yml`;
2. the statistics file, of this version of the flow;
3. what runs have learnt of this version;
4. the statistics file, and 5. what runs have learnt, of another version: stale, and said to be;
6. an assumption, and said to be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from mooring.contracts.engine import LOOK_S
from mooring.quantity import decimal
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.pipeline import FlowNode
from mooring.spark.pipeline.shuffle_partitions import partitions_of
from mooring.spark.pipeline.statistics_file import LONG_AGO_DAYS, STATISTICS_FILE_NAME
from mooring.spark.pipeline.streams_used import assumption_notes, streams_without_rate
from mooring.spark.storage.learnt import LearntFlow

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
NOTABLE_RATIO = 1.5
"""From which on it is said that runs have learnt something else than the statistics file says."""


def given_fields(layout: Layout, flow: FlowNode) -> dict[str, Any]:
    """From `statistics` in mooring.yml."""
    given = layout.project.settings.statistics
    return dict(given.get(flow.name) or given.get(flow.dataset) or {})


def measured_fields(layout: Layout, flow: FlowNode) -> dict[str, object]:
    """From the statistics file and from what runs have learnt, for the trigger of now."""
    profiled, learnt = _profiled_fields(layout, flow), _learnt_fields(layout, flow)
    old = {} if is_learnt(layout, flow) else learnt
    new = learnt if is_learnt(layout, flow) else {}
    return {**old, **new, **profiled} if _is_profiled(layout, flow) else {**old, **profiled, **new}


def overruling_fields(layout: Layout, flow: FlowNode) -> dict[str, Any]:
    """What wins over whatever was measured: `mooring.yml`, or what runs measured, where that is asked for."""
    first = _learnt_fields(layout, flow) if layout.learnt.wins and is_learnt(layout, flow) else {}
    return {**given_fields(layout, flow), **first}


def known_fields(layout: Layout, flow: FlowNode) -> dict[str, Any]:
    """All that is not assumed."""
    return {**measured_fields(layout, flow), **overruling_fields(layout, flow)}


def assumed_batch_cpu_s(layout: Layout, fragment: str) -> float:
    """Of a fragment with state: every partition beyond the first costs each batch a task and files."""
    if not any(layout.pipeline.flows[name].stateful for name in layout.fragments[fragment].operators):
        return ASSUMED_BATCH_CPU_S
    return ASSUMED_BATCH_CPU_S + ASSUMED_PARTITION_CPU_S * (partitions_of(layout, fragment).count - 1)


@dataclass(frozen=True)
class CostSource:
    """What a plan takes as the costs of a flow, and where from."""

    source: Literal["stated", "profiled", "learnt", "assumed"]
    """`mooring.yml`, `statistics.yml`, what runs have learnt, or nothing: by the cost per row."""
    cost_us: float
    batch_cpu_s: float | None
    """None: the flow is not the last of a fragment."""


def cost_source(layout: Layout, flow: FlowNode) -> CostSource:
    known, is_view = known_fields(layout, flow), layout.pipeline.is_view(flow.name)
    batch_cpu_s = None
    if "fixed_cores" in known:
        batch_cpu_s = known["fixed_cores"] * interval_s(layout, flow)
    elif flow.name in layout.fragments:
        batch_cpu_s = ASSUMED_REFRESH_CPU_S if is_view else assumed_batch_cpu_s(layout, flow.name)
    places: tuple[tuple[Literal["stated", "profiled", "learnt"], Mapping[str, object]], ...] = (
        ("stated", given_fields(layout, flow)),
        ("profiled", _profiled_fields(layout, flow)),
        ("learnt", _learnt_fields(layout, flow)),
    )
    if is_learnt(layout, flow) and not _is_profiled(layout, flow):
        places = (places[0], places[2], places[1])
    return CostSource(
        next((source for source, fields in places if "cost_us" in fields), "assumed"),
        known.get("cost_us", ASSUMED_VIEW_COST_US if is_view else ASSUMED_COST_US),
        batch_cpu_s,
    )


def is_learnt(layout: Layout, flow: FlowNode) -> bool:
    """Whether a run has measured this version of the flow."""
    return layout.learnt.of(flow.name, flow.fingerprint) is not None


def _is_profiled(layout: Layout, flow: FlowNode) -> bool:
    """Whether the statistics file has this version of the flow; a line without a version is anyone's."""
    own = layout.project.measured.flows.get(flow.name)
    return own is not None and own.flow in (None, flow.unplaced_fingerprint)


def _profiled_fields(layout: Layout, flow: FlowNode) -> dict[str, object]:
    measured = layout.project.measured
    own = measured.flows.get(flow.name)
    if own is None:
        return {}
    return _at_home(layout, flow, own.operator_fields(interval_s(layout, flow), measured.look_cpu_s / LOOK_S))


def _learnt_fields(layout: Layout, flow: FlowNode) -> dict[str, object]:
    own = layout.learnt.nearest(flow.name, flow.fingerprint)
    if own is None:
        return {}
    known = {key: value for key in ("selectivity", "bytes") if (value := getattr(own, key)) is not None}
    if own.estimated:  # no CPU was seen, and how long batches took is none
        return known
    fields: dict[str, object] = {**known, "cost_us": own.cost_us, "error": own.error}
    if own.batch_cpu_s is not None:  # looks at it included
        often = 1.0 / interval_s(layout, flow)
        # Batches that take longer than the trigger come less often: nothing is loaded by more than it was.
        fields["fixed_cores"] = own.batch_cpu_s * min(often, own.batches_per_s or often)
    return _at_home(layout, flow, fields)


def _at_home(layout: Layout, flow: FlowNode, fields: dict[str, object]) -> dict[str, object]:
    """The fixed part belongs to the fragment's last flow."""
    return {key: fields[key] for key in fields if key != "fixed_cores" or flow.name in layout.fragments}


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
    known = known_fields(layout, flow)
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
        known = known_fields(layout, flow)
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
            known = known_fields(layout, writer)
            rows_per_s += known.get("selectivity", 1.0) * version_rows_per_s(layout, writer)
    return rows_per_s


def rows_read(layout: Layout, flow: FlowNode) -> int:
    """By its last refresh; 0 before the first."""
    last = layout.views[flow.dataset].current()
    return 0 if last is None else last.rows_in


def statistics_notes(layout: Layout, now: datetime | None = None) -> list[str]:
    """Where the plan's statistics come from, in sentences: measured, learnt, stale, given, assumed."""
    project, flows = layout.project, layout.pipeline.flows.values()
    measured = project.measured.flows
    notes = []
    used = [
        flow.name
        for flow in flows
        if flow.name in measured and (_is_profiled(layout, flow) or not is_learnt(layout, flow))
    ]
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
    notes += [*_learnt(layout), *_assumed(layout)]
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


def _learnt(layout: Layout) -> list[str]:
    """What is taken from earlier runs, and what runs have learnt otherwise than the statistics file says."""
    lines, old, estimated, notes = list[LearntFlow](), list[str](), list[str](), list[str]()
    for flow in layout.pipeline.flows.values():
        own = layout.learnt.nearest(flow.name, flow.fingerprint)
        if own is None or "cost_us" in given_fields(layout, flow):
            continue
        if own.estimated:
            estimated.append(flow.name)
            continue
        if _is_profiled(layout, flow):
            notes += _otherwise(layout, flow, own)
        elif is_learnt(layout, flow):
            lines.append(own)
        elif "cost_us" not in _profiled_fields(layout, flow):
            old.append(flow.name)
    if lines:
        last = max(line.at for line in lines)
        notes.insert(0, f"{_names([line.flow for line in lines])} as learnt by runs, the last of {last}")
    if estimated:
        notes.append(
            f"runs have not measured the costs of {_names(estimated)}: the CPU of their sites cannot be "
            "seen. State `ui` of an existing endpoint, or run `mooring profile`"
        )
    if old:
        notes.append(f"stale: {_names(old)} as learnt by runs before an edit; the next run measures it")
    return notes + [f"{what}; the next run measures it" for what in layout.learnt.damage]


def _otherwise(layout: Layout, flow: FlowNode, own: LearntFlow) -> list[str]:
    """Where the statistics file and runs disagree, by the load at the rate that came."""
    profiled, learnt = _profiled_fields(layout, flow), _learnt_fields(layout, flow)
    if not is_learnt(layout, flow) or not profiled.keys() >= learnt.keys() & {"cost_us", "fixed_cores"}:
        return []
    stated, found = (
        float(str(fields["cost_us"])) * own.rate / 1e6 + float(str(fields.get("fixed_cores", 0.0)))
        for fields in (profiled, learnt)
    )
    if stated <= 0.0 or 1.0 / NOTABLE_RATIO < found / stated < NOTABLE_RATIO:
        return []
    return [
        f"{flow.name}: runs measured {decimal(found / stated, 2)} times the load that {STATISTICS_FILE_NAME} "
        f"states, {decimal(found, 2)} cores at {decimal(own.rate)} rows per second; remove its line there to "
        "plan with that"
    ]


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
        known = known_fields(layout, flow)
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
