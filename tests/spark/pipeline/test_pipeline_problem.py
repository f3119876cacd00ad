"""A project becomes a problem whose fragments, streams and queries are the pipeline's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import InputError
from mooring.model.problem.problem import Problem
from mooring.spark.definitions.definitions import load_definitions
from mooring.spark.pipeline.layout import cut_pipeline
from mooring.spark.pipeline.pipeline import read_pipeline
from mooring.spark.pipeline.pipeline_problem import problem_of
from mooring.spark.pipeline.project import load_project
from mooring.spark.pipeline.statistics_used import statistics_notes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.conftest import ProjectMaker

CODE = """
from pyspark import pipelines as dp

dp.create_sink("out", "noop", {})

@dp.table
def small():
    return spark.readStream.table("numbers").filter("n < 10")

@dp.append_flow(target="out")
def deliver():
    return spark.readStream.table("small")
"""
SETTINGS = """\
sites: {here: {capacity: 2}, there: {capacity: 1}}
streams: {numbers: {site: here, rate: 100}}
queries: {out: {site: there, max_latency_ms: 9000}, small: {site: here}}
statistics: {small: {cost_us: 7, selectivity: 0.5}}
trigger_s: 2
"""


def problem_and_notes(folder: Path, session: SparkSession) -> tuple[Problem, list[str]]:
    project = load_project(folder)
    (folder / "empty").mkdir(exist_ok=True)
    definitions = load_definitions(folder, project.spec, session)
    layout = cut_pipeline(project, read_pipeline(project.spec, definitions, session, folder / "empty"))
    return problem_of(layout), statistics_notes(layout)


def test_streams_operators_queries_and_pins_come_out_as_the_design_says(
    make_project: ProjectMaker, session: SparkSession
) -> None:
    problem, notes = problem_and_notes(make_project(settings=SETTINGS, more_py=CODE), session)
    operators = {operator.name: operator for operator in problem.operators}
    assert [stream.name for stream in problem.streams] == ["numbers"]
    assert operators["numbers:ingest"].site == "here"
    assert operators["small"].inputs == ("numbers:ingest",)
    assert (operators["small"].cost_us, operators["small"].selectivity) == (7.0, 0.5)
    assert operators["deliver"].site == "there"
    assert {query.name: query.reads for query in problem.queries} == {"out": "deliver", "small": "small"}
    assert problem.fragment_names == ("numbers", "small", "deliver")
    assert all(operator.fixed_cores > 0 for operator in operators.values())
    assert any("no statistics for numbers, deliver" in note for note in notes)


@pytest.mark.parametrize(
    ("wrong", "right", "field"),
    [
        ("numbers: {site", "nubmers: {site", "streams.nubmers"),
        ("small: {site: here}", "smal: {site: here}", "queries.smal.reads"),
        ("statistics", "pins: {samll: here}\nstatistics", "pins.samll"),
        ("capacity: 2", "capactiy: 2", "sites.here"),
        ("trigger_s: 2", "trigger_s: 0", "trigger_s"),
        ("trigger_s: 2", "triger_s: 2", "trigger_s"),
        ("trigger_s: 2", "channel: kafka", "channel"),
    ],
)
def test_a_wrong_mooring_yml_is_named_by_file_and_field(
    make_project: ProjectMaker, session: SparkSession, wrong: str, right: str, field: str
) -> None:
    folder = make_project(settings=SETTINGS.replace(wrong, right), more_py=CODE)
    with pytest.raises(InputError) as refusal:
        problem_and_notes(folder, session)
    assert field in str(refusal.value)
    assert "mooring.yml" in str(refusal.value)
