"""The report says where the data is, draws the placement, and leaves out what is empty (no Spark needed)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from pyspark.sql.types import StructType

from mooring.model.placement.placement import OperatorSites
from mooring.planning import plan
from mooring.spark.definitions.definitions import Dataset, Place
from mooring.spark.pipeline.layout import Layout, cut_pipeline
from mooring.spark.pipeline.pipeline import FlowNode, Pipeline
from mooring.spark.pipeline.pipeline_problem import problem_of
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs.record.graph_drawing import graph_svg
from mooring.spark.runs.record.run_report import RunRecord, placement_words, write_report

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker

PLACE = Place("flows.py", 1)
SITES = "sites: {here: {capacity: 2}, there: {capacity: 1}}\n"
KNOWN = (
    "streams: {numbers: {rate: 100}}\nstatistics: {numbers: {cost_us: 50, fixed_cores: 0.1}, "
    "small: {cost_us: 50, fixed_cores: 0.1}}"
)


def layout_of(make_project: ProjectMaker, settings: str) -> Layout:
    """numbers, read from outside, then small."""

    def flow(name: str, *inputs: str) -> FlowNode:
        return FlowNode(name, name, inputs, (), not inputs, False, StructType(), "", PLACE)

    flows = {"numbers": flow("numbers"), "small": flow("small", "numbers")}
    datasets = {name: Dataset(name, "table", PLACE) for name in flows}
    project = load_project(make_project(settings=SITES + settings))
    return cut_pipeline(project, Pipeline("chain", datasets, flows))


def words_of(layout: Layout) -> str:
    made = plan(problem_of(layout))
    return " ".join(placement_words(layout, made.metrics, made.explanation.sentences))


def test_a_plan_from_assumptions_says_so_instead_of_how_far_rates_go(
    make_project: ProjectMaker,
) -> None:
    said = words_of(layout_of(make_project, ""))
    assert said.startswith("Planned from assumed costs of numbers, small and assumed rates of numbers:")
    assert "times the present" not in said


def test_a_plan_from_figures_says_what_they_mean_for_the_pipeline(make_project: ProjectMaker) -> None:
    said = words_of(layout_of(make_project, KNOWN))
    assert "All rates together can grow to" in said
    assert "of all rate combinations within the total capacity" in said
    for term in ("feasible set", "plane distance", "rate directions", "assumed"):
        assert term not in said


def test_the_picture_shows_where_every_fragment_runs(make_project: ProjectMaker) -> None:
    picture = graph_svg(layout_of(make_project, ""), {"numbers": "here", "small": "there"})
    assert ">numbers at here<" in picture
    assert ">small at there<" in picture


def test_a_report_leaves_out_what_is_empty_and_says_where_the_data_is(tmp_path: Path) -> None:
    record = RunRecord("p", "rod", OperatorSites({}), [], {}, {}, storage="/data/p")
    record.tables = [
        {
            "name": "small",
            "kind": "table",
            "site": "here",
            "rows": 7,
            "format": "parquet",
            "path": "/data/p/c",
        }
    ]
    _, page = write_report(record, tmp_path)
    text = page.read_text()
    assert "Stored under /data/p" in text
    assert "<td>small</td><td>table</td><td>here</td><td>7</td><td>parquet</td><td>/data/p/c</td>" in text
    for empty in ("Queries", "Channels", "Notes", "<svg"):
        assert empty not in text
