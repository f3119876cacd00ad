"""A pipeline can be planned with `sites:` alone, and what is assumed then is said (no Spark needed)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from pyspark.sql.types import StructType

from mooring.errors import InputError
from mooring.planning import plan
from mooring.spark.definitions.definitions import Dataset, Place
from mooring.spark.pipeline.layout import Layout, cut_pipeline
from mooring.spark.pipeline.pipeline import FlowNode, Pipeline
from mooring.spark.pipeline.pipeline_problem import as_measured, problem_of
from mooring.spark.pipeline.project import ASSUMED_RATE, load_project
from mooring.spark.pipeline.statistics_used import statistics_notes
from mooring.spark.runs.project_run import delivering
from mooring.spark.storage.learnt import Learnt, LearntFlow

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker

PLACE = Place("flows.py", 1)
SITES = "sites: {here: {capacity: 2}, there: {capacity: 1}}\n"


def flow(name: str, dataset: str, *inputs: str) -> FlowNode:
    return FlowNode(name, dataset, inputs, (), not inputs, False, StructType(), "", PLACE)


def layout_of(make_project: ProjectMaker, settings: str) -> Layout:
    """numbers, read from outside, flows into the sink out."""
    flows = [flow("numbers", "numbers"), flow("deliver", "out", "numbers")]
    datasets = {"numbers": Dataset("numbers", "table", PLACE), "out": Dataset("out", "sink", PLACE)}
    pipeline = Pipeline("chain", datasets, {each.name: each for each in flows})
    return cut_pipeline(load_project(make_project(settings=settings)), pipeline)


def test_sites_alone_are_enough_and_what_is_assumed_is_said(make_project: ProjectMaker) -> None:
    layout = layout_of(make_project, SITES)
    problem = problem_of(layout)
    assert [(stream.name, stream.rate, stream.site) for stream in problem.streams] == [
        ("numbers", ASSUMED_RATE, None)
    ]
    assert not problem.queries
    assert all(operator.site is None for operator in problem.operators)
    assert set(plan(problem).placement.as_dict().values()) <= {"here", "there"}
    said = "; ".join(statistics_notes(layout))
    assert "numbers: not under `streams`" in said
    assert "out: not under `queries`" in said
    assert "the rate of numbers is unknown" in said


def test_a_sink_that_no_query_names_still_counts_what_it_delivers(make_project: ProjectMaker) -> None:
    layout = layout_of(make_project, SITES)
    assert delivering(layout, problem_of(layout)) == {"out": "deliver"}


def learnt_rate(layout: Layout) -> Layout:
    """With what a run has learnt of numbers, before it was edited, and of a flow that is gone."""
    numbers = LearntFlow(
        flow="numbers", version="old", at="", looks=9, cost_us=3, cost_us_error=1, rate=7.5, rate_error=0.25
    )
    gone = LearntFlow(flow="gone", version="", at="", looks=9, cost_us=3, cost_us_error=1, rate=9.0)
    return replace(layout, learnt=Learnt((numbers, gone)))


def test_a_stream_may_say_where_it_is_read_and_leave_its_rate_to_the_first_run(
    make_project: ProjectMaker,
) -> None:
    layout = layout_of(make_project, SITES + "streams: {numbers: {site: there, max_rate: 40}}")
    (stream,) = problem_of(layout).streams
    assert (stream.site, stream.rate) == ("there", 40.0)
    layout = learnt_rate(layout)
    (stream,) = problem_of(layout).streams
    assert stream.rate == 7.5
    assert any("numbers 7.5 ± 0.2" in note for note in statistics_notes(layout))


def test_a_stated_rate_wins_over_a_learnt_one_unless_the_measured_ones_are_asked_for(
    make_project: ProjectMaker,
) -> None:
    layout = layout_of(make_project, SITES + "streams: {numbers: {site: there, rate: 40, min_rate: 20}}")
    layout = learnt_rate(layout)
    assert problem_of(layout).streams[0].rate == 40.0
    measured = as_measured(layout)[0].streams[0]
    assert (measured.rate, measured.min_rate) == (7.5, 7.5)


def test_a_stream_that_is_no_mapping_is_named(make_project: ProjectMaker) -> None:
    with pytest.raises(InputError) as refused:
        layout_of(make_project, SITES + "streams: {numbers: fast}")
    assert refused.value.field == "streams.numbers"
