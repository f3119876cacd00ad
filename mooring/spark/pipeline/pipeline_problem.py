"""A pipeline and its `mooring.yml` as a problem that any policy can place.

A stream and an operator cannot share a name, so where a flow brings a stream in, the stream has the dataset's
name and the flow's operator is called `<flow>:ingest`. Every operator carries its fragment's name as its
label.
"""

from __future__ import annotations

from typing import Any

from mooring.errors import InputError
from mooring.problem.problem import Problem
from mooring.problem.reading.fields import nearest
from mooring.problem.schema import problem_from_data
from mooring.spark.pipeline.layout import Layout, pin_of
from mooring.spark.pipeline.pipeline import FlowNode, Pipeline
from mooring.spark.pipeline.statistics_used import (
    ASSUMED_BATCH_CPU_S,
    ASSUMED_COST_US,
    given_fields,
    measured_fields,
)


def operator_name(flow: FlowNode) -> str:
    return f"{flow.name}:ingest" if flow.outside and flow.name == flow.dataset else flow.name


def problem_of(layout: Layout) -> Problem:
    """The problem whose placements are placements of the layout's fragments."""
    sections, pipeline = layout.project.settings.problem_sections, layout.pipeline
    _check_streams(layout)
    data: dict[str, Any] = {
        **sections,
        "operators": {operator_name(flow): _operator(layout, flow) for flow in pipeline.flows.values()},
        "queries": _queries(layout),
    }
    if not data["queries"]:
        del data["queries"]
    try:
        return problem_from_data(data, folder=layout.project.folder)
    except InputError as error:
        error.file = error.file or str(layout.project.settings_file)
        raise


def _operator(layout: Layout, flow: FlowNode) -> dict[str, object]:
    settings, pipeline = layout.project.settings, layout.pipeline
    inputs = [operator_name(writer) for name in flow.inputs for writer in pipeline.writers(name)]
    if flow.outside:
        inputs = [flow.dataset, *inputs]
    fields: dict[str, object] = {
        "inputs": inputs,
        "cost_us": ASSUMED_COST_US,
        "kind": "aggregate" if flow.stateful else "map",
        "fragment": layout.home[flow.name],
        **measured_fields(layout, flow),
        **given_fields(layout, flow),
    }
    if flow.name in layout.fragments:  # once per fragment
        fields.setdefault("fixed_cores", ASSUMED_BATCH_CPU_S / settings.trigger_s)
    is_sink = pipeline.datasets[flow.dataset].kind == "sink"
    if (pin := pin_of(layout.project, flow, is_sink=is_sink)) is not None:
        fields["site"] = pin
    return fields


def _queries(layout: Layout) -> dict[str, dict[str, object]]:
    """The queries of `mooring.yml`, one per flow where several write the dataset, and all sinks."""
    pipeline, file = layout.pipeline, layout.project.settings_file
    given = layout.project.settings.problem_sections.get("queries") or {}
    queries: dict[str, dict[str, object]] = {}
    for name, fields in given.items():
        if not isinstance(fields, dict):
            raise InputError("found no mapping, expected reads and site", file=file, field=f"queries.{name}")
        dataset = str(fields.get("reads", name))
        writers = pipeline.writers(dataset)
        if not writers:
            closest = nearest(dataset, pipeline.datasets)
            raise InputError(
                f"found {dataset!r}, expected a dataset or sink of the pipeline",
                file=file,
                field=f"queries.{name}.reads",
                remedy=f"did you mean {closest!r}?" if closest else None,
            )
        for writer in writers:
            own = name if len(writers) == 1 else f"{name}:{writer.name}"
            queries[own] = {**fields, "reads": operator_name(writer)}
    for sink in pipeline.sinks:
        if sink.name not in given:
            raise InputError(
                f"found no site for the sink {sink.name!r} ({sink.place})",
                file=file,
                field=f"queries.{sink.name}",
                remedy=f"add queries: {{{sink.name}: {{site: ...}}}}",
            )
    return queries


def _check_streams(layout: Layout) -> None:
    """Every source has an entry under `streams`, and every entry a source."""
    pipeline: Pipeline = layout.pipeline
    file, given = layout.project.settings_file, layout.project.settings.problem_sections.get("streams") or {}
    entering = {flow.dataset: flow for flow in pipeline.flows.values() if flow.outside}
    for name, flow in entering.items():
        if name not in given:
            raise InputError(
                f"found no stream for the source that {flow.name!r} reads ({flow.place})",
                file=file,
                field=f"streams.{name}",
                remedy=f"add streams: {{{name}: {{site: ..., rate: ...}}}}",
            )
    for name in given:
        if name not in entering:
            closest = nearest(str(name), entering)
            raise InputError(
                f"found a stream {name!r}, but no flow into such a dataset reads an outside source",
                file=file,
                field=f"streams.{name}",
                remedy=f"did you mean {closest!r}?" if closest else "remove it",
            )
