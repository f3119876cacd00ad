"""A kept graph is the one that was read, and only while nothing that it is made of has changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from mooring.spark.definitions.definitions import Dataset, Place
from mooring.spark.definitions.table_arguments import TableArguments
from mooring.spark.pipeline.kept_graph import KeptGraph
from mooring.spark.pipeline.pipeline import FlowNode, Pipeline
from mooring.spark.pipeline.project import load_project

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.conftest import ProjectMaker

COLUMNS = StructType([StructField("n", LongType()), StructField("tags", ArrayType(StringType(), False))])
PLACE = Place("transformations/flows.py", 3)
NUMBERS = FlowNode("numbers", "numbers", (), (), True, False, COLUMNS, "f", PLACE, spark_conf={"a.b": "1"})
GRAPH = Pipeline(
    "test",
    {
        "numbers": Dataset("numbers", "table", PLACE, arguments=TableArguments(COLUMNS, comment="c")),
        "out": Dataset(
            "out", "sink", Place("x.sql", None), "json", {"path": "/out"}, TableArguments("n INT")
        ),
    },
    {"numbers": NUMBERS, "deliver": replace(NUMBERS, name="deliver", dataset="out", inputs=("numbers",))},
    {"numbers": COLUMNS},
    ("skipped",),
)


def kept(folder: Path) -> KeptGraph:
    return KeptGraph(load_project(folder))


def test_a_graph_is_kept_as_it_was_read(make_project: ProjectMaker) -> None:
    folder = make_project()
    (folder / ".mooring").mkdir()
    assert kept(folder).read() is None
    kept(folder).keep(GRAPH)
    found = kept(folder).read()
    assert found is not None
    assert found.pipeline == GRAPH


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("transformations/numbers.py", "# another comment\n"),
        ("transformations/more.sql", "CREATE STREAMING TABLE s AS SELECT 1;\n"),
        ("beside.py", "FACTOR = 2\n"),
        ("spark-pipeline.yml", "configuration: {my.own: '1'}\n"),
        ("mooring.yml", "skip: [numbers]\n"),
        (".mooring/graph.json", "torn"),
    ],
)
def test_a_change_ends_it(make_project: ProjectMaker, file: str, text: str) -> None:
    folder = make_project()
    (folder / ".mooring").mkdir()
    kept(folder).keep(GRAPH)
    with (folder / file).open("a") as changed:
        changed.write(text)
    assert kept(folder).read() is None


def test_settings_that_say_nothing_of_the_graph_do_not_end_it(make_project: ProjectMaker) -> None:
    folder = make_project()
    (folder / ".mooring").mkdir()
    kept(folder).keep(GRAPH)
    (folder / "mooring.yml").write_text("sites: {one: {capacity: 1}, two: {capacity: 3}}\n")
    assert kept(folder).read() is not None


def test_what_files_cannot_tell_is_not_kept(make_project: ProjectMaker) -> None:
    folder = make_project()
    (folder / ".mooring").mkdir()
    looks_up = replace(NUMBERS, unobserved=True)
    infers = replace(NUMBERS, spark_conf={"spark.sql.streaming.schemaInference": "true"})
    for flow in (looks_up, infers):
        kept(folder).keep(GRAPH)
        kept(folder).keep(replace(GRAPH, flows={"numbers": flow}))
        assert kept(folder).read() is None
