"""The pipeline whose storage is tried, as the shipped layout has it, and what its rows must come to.

| query | reads                          | writes                                       |
| ----- | ------------------------------ | -------------------------------------------- |
| `a`   | rows from outside              | the table `A`                                |
| `b`   | `A`                            | the table `B`                                |
| `c`   | `A` twice, as a self-join does | files of the sink `C`, outside the storage   |
| `d`   | `B`                            | files of the sink `D`                        |
| `e`   | `A`, from when it is added     | the table `E`                                |
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from pyspark.pipelines.cli import PipelineSpec
from pyspark.sql.types import StructType

from lab.storage_faults.steps import AGE_S, QUERIES, READS, Keep, Query, Setting
from mooring.disk import Disk
from mooring.model.problem.network import Network
from mooring.model.problem.surroundings import Surroundings
from mooring.spark.definitions.definitions import Dataset, Place
from mooring.spark.pipeline.layout import Layout, fragments_with
from mooring.spark.pipeline.pipeline import FlowNode, Pipeline
from mooring.spark.pipeline.project import Project, ProjectSettings
from mooring.spark.storage import retention
from mooring.spark.storage.owned_folder import OwnedFolder
from mooring.spark.storage.pipeline_record import NOTHING_RECORDED, read_record

ROOT, SINKS = Path("/storage"), Path("/sinks")
SIDES: dict[Query, tuple[str, ...]] = dict.fromkeys(QUERIES, ("",)) | {"c": ("+left", "+right")}
"""What the sources of a query mark their rows with, so that two of them can be told apart."""
IN_SINKS: tuple[Query, ...] = ("c", "d")
_FOLDER = Path("/project")
_KEEPS: dict[Keep, retention.Keep] = {
    "read": retention.READ,
    "all": retention.ALL,
    "age": retention.Keep(True, AGE_S),
}


def dataset_of(query: Query) -> str:
    return query.upper()


def sink_folder(query: Query) -> Path:
    return SINKS / dataset_of(query)


def runs_in(setting: Setting, *, joined: bool) -> tuple[Query, ...]:
    """Queries of the pipeline: a query comes with those that it reads."""
    chosen = {*setting.queries, *(("e",) if joined else ())}
    needed = {READS[query] for query in chosen}
    return tuple(query for query in QUERIES if query in chosen | needed)


def downstream(query: Query, queries: Collection[Query]) -> tuple[Query, ...]:
    """A query and all that is made of what it writes."""
    found = {query}
    for each in QUERIES:
        if READS[each] in found:
            found.add(each)
    return tuple(each for each in queries if each in found)


def project_of(setting: Setting) -> Project:
    tables = {"A": _KEEPS[setting.keep_a], "B": _KEEPS[setting.keep_b]}
    settings = ProjectSettings(around=Surroundings((), (), Network(), None), tables=tables, storage=ROOT)
    spec = PipelineSpec("tried", str(_FOLDER), None, None, {}, [])
    return Project(_FOLDER, _FOLDER / "spec.yml", spec, _FOLDER / "mooring.yml", settings, run_from=_FOLDER)


def layout_of(project: Project, queries: Collection[Query], owned: OwnedFolder | None, disk: Disk) -> Layout:
    """Cut as every run does it, but without asking Spark what the definitions mean."""
    place = Place("flows.py", 1)
    datasets, flows = dict[str, Dataset](), dict[str, FlowNode]()
    for query in queries:
        name, source = dataset_of(query), READS[query]
        if query in IN_SINKS:
            options = {"path": str(sink_folder(query))}
            datasets[name] = Dataset(name, "sink", place, "parquet", options)
        else:
            datasets[name] = Dataset(name, "table", place)
        inputs = () if source is None else (dataset_of(source),)
        flows[query] = FlowNode(
            query, name, inputs, (), source is None, False, StructType(), f"{query} 1", place
        )
    pipeline = Pipeline("tried", datasets, flows)
    before = read_record(ROOT, disk) or NOTHING_RECORDED
    fragments = fragments_with(project, pipeline, before, datasets.keys())
    return Layout(project, pipeline, fragments, "", before, owned, disk)
