"""A pipeline and its `mooring.yml` as a problem that any policy can place.

A stream and an operator cannot share a name, so where a flow brings a stream in, the stream has the dataset's
name and the flow's operator is called `<flow>:ingest`. Every operator carries its fragment's name as its
label.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import msgspec

from mooring.errors import InputError
from mooring.model.load.measured.measured_problem import measured_problem
from mooring.model.problem.goals import Goals, read_goals
from mooring.model.problem.problem import Problem
from mooring.model.problem.query import Query
from mooring.model.problem.schema import Names, assembled, operators_of, read_operator_fields
from mooring.spark.definitions.names import PipelineNames
from mooring.spark.pipeline.layout import Layout, pin_of
from mooring.spark.pipeline.pipeline import FlowNode
from mooring.spark.pipeline.shuffle_partitions import cores_of
from mooring.spark.pipeline.statistics_used import (
    ASSUMED_COST_US,
    assumed_batch_cpu_s,
    interval_s,
    measured_fields,
    overruling_fields,
    version_load,
    view_load,
)
from mooring.spark.pipeline.streams_used import measured_rates, streams_used


def operator_name(flow: FlowNode) -> str:
    return f"{flow.name}:ingest" if flow.outside and flow.name == flow.dataset else flow.name


def problem_of(layout: Layout) -> Problem:
    """The problem whose placements are placements of the layout's fragments."""
    pipeline = layout.pipeline
    around = replace(layout.project.settings.around, streams=streams_used(layout))
    try:
        given = {operator_name(flow): _operator(layout, flow) for flow in pipeline.flows.values()}
        operators = operators_of(given, Names.of(around, given))
        made = assembled(around, operators, _queries(layout), _goals(layout, given))
    except InputError as error:
        error.file = error.file or str(layout.project.settings_file)
        raise
    return replace(made, network=replace(made.network, trigger_s=layout.project.settings.trigger_s))


def _goals(layout: Layout, operators: Collection[str]) -> Goals:
    """Those of `mooring.yml`, which names datasets and flows."""
    pipeline, settings = layout.pipeline, layout.project.settings
    names = PipelineNames.of(layout.project.spec)

    def key(written: str) -> str:
        own = names.key(written)
        if own in pipeline.flows:
            return operator_name(pipeline.flows[own])
        writers = pipeline.writers(own) if own in pipeline.datasets else []
        return operator_name(writers[0]) if len(writers) == 1 else own

    return read_goals(settings.goals, operators, settings.around.places, key) if settings.goals else Goals()


def as_measured(layout: Layout) -> tuple[Problem, Layout]:
    """The problem at the rates and costs that runs have learnt, even where others are stated; and the layout
    that says so.
    """
    measured = replace(layout, learnt=replace(layout.learnt, wins=True))
    return measured_problem(problem_of(measured), measured_rates(measured)), measured


def _operator(layout: Layout, flow: FlowNode) -> dict[str, Any]:
    """The fields of an operator: what `mooring.yml` says of it wins over what was measured or assumed."""
    pipeline, name = layout.pipeline, operator_name(flow)
    # What a flow looks up beside its streams does not come to it at a rate.
    read = (*flow.inputs, *flow.static) if pipeline.is_view(flow.name) else flow.inputs
    inputs = [operator_name(writer) for dataset in read for writer in pipeline.writers(dataset)]
    if flow.outside:
        inputs = [flow.dataset, *inputs]
    known: dict[str, object] = {
        "inputs": inputs,
        "cost_us": ASSUMED_COST_US,
        "kind": "aggregate" if flow.stateful else "map",
        "fragment": layout.home[flow.name],
        "moves_as": pipeline.moves_as(flow),
        **measured_fields(layout, flow),
    }
    fields = read_operator_fields({name: known})[name] | overruling_fields(layout, flow)
    if flow.name in layout.fragments:  # once per fragment
        fields.setdefault("fixed_cores", assumed_batch_cpu_s(layout, flow.name) / interval_s(layout, flow))
        fields["fixed_cores"] += version_load(layout, flow.name)
        fields.setdefault("parallel", float(cores_of(layout, flow.name)))
    if pipeline.is_view(flow.name):
        fields |= view_load(layout, flow)
    is_sink = pipeline.datasets[flow.dataset].kind == "sink"
    if (pin := pin_of(layout.project, flow, is_sink=is_sink)) is not None:
        fields["site"] = pin
    return fields


def _queries(layout: Layout) -> tuple[Query, ...]:
    """The queries of `mooring.yml`, one per flow where several write the dataset."""
    pipeline = layout.pipeline
    given = layout.project.settings.queries
    queries: list[Query] = []
    for name, query in given.items():
        writers = pipeline.writers(query.reads)
        for writer in writers:
            own = name if len(writers) == 1 else f"{name}:{writer.name}"
            queries.append(msgspec.structs.replace(query, name=own, reads=operator_name(writer)))
    return tuple(queries)
