"""Layouts over real folders without Spark: pipelines written down by hand, and what Spark would have left."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from mooring.model.problem.reading.yaml12 import parse_yaml
from mooring.spark.definitions.definitions import Dataset, DatasetKind, Place
from mooring.spark.engine.draining import old_cut
from mooring.spark.engine.fragment_query import fence
from mooring.spark.pipeline.cut_changes import CutChange
from mooring.spark.pipeline.layout import Layout, cut_pipeline
from mooring.spark.pipeline.pipeline import FlowNode, Pipeline
from mooring.spark.pipeline.project import load_project
from mooring.spark.pipeline.project_edits import AcceptedEdits, project_edits
from mooring.spark.runs.apply_edits import finish, settle
from mooring.spark.storage import stream_logs
from mooring.spark.storage.checkpoints.fragment_note import write_fragment_note

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker

SITES = "sites: {here: {capacity: 2}, there: {capacity: 2}}\nstreams: {}\n"


@dataclass(frozen=True)
class Flow:
    """A flow into the table of its own name, unless it says otherwise."""

    name: str
    reads: tuple[str, ...] = ()
    outside: bool = False
    stateful: bool = False
    into: str = ""
    kind: str = "table"
    static: tuple[str, ...] = ()
    """What it reads as it stands."""
    unobserved: bool = False
    paths: tuple[str, ...] = ()
    """Relative ones, of what it reads outside."""
    does: str = ""
    """What tells it from others, as a fingerprint would."""


def pipeline_of(flows: Sequence[Flow]) -> Pipeline:
    place = Place("flows.py", 1)
    nodes, datasets = {}, {}
    for flow in flows:
        dataset = flow.into or flow.name
        kind: DatasetKind = "sink" if flow.kind == "sink" else "table"
        datasets[dataset] = Dataset(dataset, "materialized" if flow.kind == "materialized" else kind, place)
        nodes[flow.name] = FlowNode(
            *(flow.name, dataset, flow.reads, (), flow.outside, flow.stateful, StructType()),
            fingerprint=flow.does or f"what {flow.name} does",
            place=place,
            static=flow.static,
            unobserved=flow.unobserved,
            relative_paths=flow.paths,
        )
    return Pipeline("test", datasets, nodes)


@dataclass(frozen=True)
class WrittenStorage:
    """A project's storage, and what becomes of it from run to run."""

    make_project: ProjectMaker
    as_read: bool = True
    """Tables that others read are kept until then, where nothing else is said and no query names them."""

    def layout(self, flows: Sequence[Flow], settings: str = "", sites: str = SITES) -> Layout:
        said = parse_yaml(sites + settings)
        assert isinstance(said, dict)
        if self.as_read:
            tables = {flow.into or flow.name for flow in flows} & {
                name for each in flows for name in each.reads
            }
            unsaid = tables - said.get("queries", {}).keys()
            said["tables"] = {name: {"keep": "read"} for name in sorted(unsaid)} | said.get("tables", {})
        project = load_project(self.make_project(settings=json.dumps(said)))
        project.storage_root.create()
        return cut_pipeline(project, pipeline_of(flows))

    def begin(
        self, flows: Sequence[Flow], settings: str = "", accepted: AcceptedEdits | None = None
    ) -> Layout:
        """A run up to where it would start its fragments."""
        layout = self.layout(flows, settings)
        edits = project_edits(finish(layout, layout.before), accepted)
        settle(edits, lambda change: _drain(edits.layout, change))
        return edits.layout

    def run(
        self,
        flows: Sequence[Flow],
        settings: str = "",
        accepted: AcceptedEdits | None = None,
        batches: int = 3,
    ) -> Layout:
        """A run in which every fragment commits so many more batches and reads all that is there."""
        layout = self.begin(flows, settings, accepted)
        for name in layout.fragments:
            run_fragment(layout, name, batches)
        return layout


def run_fragment(layout: Layout, name: str, batches: int, *, interrupted: bool = False) -> None:
    """What a query of Spark's would leave in its checkpoint and its channel: a file per batch and source."""
    operators, flows = layout.fragments[name].operators, layout.pipeline.flows
    checkpoint = fence(layout, name)
    marks = {flow: flows[flow].fingerprint for flow in operators}
    write_fragment_note(layout.fragment_note(name), name, marks)
    for log in ("offsets", "commits", "sources"):
        (checkpoint / log).mkdir(exist_ok=True)
    if not (checkpoint / "metadata").exists():
        (checkpoint / "metadata").write_text(f'{{"id":"query of {name}"}}')
    first = stream_logs.last_batch(checkpoint / "commits") + 1
    for batch in range(first, first + batches):
        sources = [*layout.reads_of(name), *(f"outside {flow}" for flow in operators if flows[flow].outside)]
        for number, source in enumerate(sources):
            _take_in(layout, source, checkpoint / "sources" / str(number), batch)
        offsets = [json.dumps({"logOffset": batch})] * len(sources)
        (checkpoint / "offsets" / str(batch)).write_text(
            "\n".join(["v1", '{"batchWatermarkMs":7}', *offsets])
        )
        if any(flows[flow].stateful for flow in operators):
            (checkpoint / "state" / "0").mkdir(parents=True, exist_ok=True)
            (checkpoint / "state" / "0" / f"{batch + 1}.delta").write_text("open windows")
        if name in layout.channels:
            _append(layout.channels[name].link, batch)
        if not (interrupted and batch == first + batches - 1):
            (checkpoint / "commits" / str(batch)).write_text("v1\n{}")


def _take_in(layout: Layout, source: str, log: Path, batch: int) -> None:
    log.mkdir(exist_ok=True)
    paths = [f"file:///data/{source}/{batch}"]
    if source in layout.channels:
        known = {entry.path for entry in stream_logs.source_entries(log, batch)}
        files = stream_logs.sink_entries(layout.channels[source].sink_log)
        paths = [f"file://{entry.path}" for entry in files if entry.path not in known]
    lines = [json.dumps({"path": path, "timestamp": 1, "batchId": batch}) for path in paths]
    (log / str(batch)).write_text("\n".join(["v1", *lines]))


def _append(folder: Path, batch: int) -> None:
    file = folder / f"part-{batch}.parquet"
    file.write_text("rows")
    log = folder / "_spark_metadata"
    log.mkdir(exist_ok=True)
    (log / str(batch)).write_text("v1\n" + json.dumps({"path": f"file://{file}", "size": 4}))


def _drain(layout: Layout, change: CutChange) -> None:
    """A batch of the old cut, the one that was interrupted if there is one, in which it reads everything."""
    run_fragment(old_cut(layout), change.fragment, 1)
