"""`mooring init` writes a mooring.yml that says what the graph has, and that runs as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from pyspark.sql.types import StructType

from mooring.cli.output.first_settings import first_settings
from mooring.spark.definitions.definitions import Dataset, Place
from mooring.spark.pipeline.layout import Layout, cut_pipeline
from mooring.spark.pipeline.pipeline import FlowNode, Pipeline
from mooring.spark.pipeline.project import load_project, load_project_without_settings

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker
    from tests.spark.runs.conftest import Verb

PLACE = Place("transformations/flows.py", 3)
SITES = {"site_a": 1.0, "site_b": 1.0}


def layout_of(make_project: ProjectMaker) -> Layout:
    """silver.raw, read from outside, flows into the table off and the sink out."""

    def flow(name: str, dataset: str, *inputs: str) -> FlowNode:
        return FlowNode(name, dataset, inputs, (), not inputs, False, StructType(), "", PLACE)

    flows = [
        flow("silver.raw", "silver.raw"),
        flow("off", "off", "silver.raw"),
        flow("deliver", "out", "silver.raw"),
    ]
    kinds = {"silver.raw": "table", "off": "table", "out": "sink"}
    datasets = {name: Dataset(name, kind, PLACE) for name, kind in kinds.items()}  # type: ignore[arg-type]
    pipeline = Pipeline("three", datasets, {each.name: each for each in flows})
    return cut_pipeline(load_project_without_settings(make_project()), pipeline)


def test_the_file_names_sites_streams_and_what_is_consumed_and_can_be_read(
    make_project: ProjectMaker,
) -> None:
    layout = layout_of(make_project)
    text = first_settings("three", SITES, layout, ".mooring")
    assert "silver.raw: {}  # read at transformations/flows.py:3" in text
    assert '"off": {site: site_a}  # streaming table, transformations/flows.py:3' in text
    layout.project.spec_file.with_name("mooring.yml").write_text(text)
    settings = load_project(layout.project.folder).settings
    assert [(site.name, site.capacity) for site in settings.sites] == [("site_a", 1.0), ("site_b", 1.0)]
    assert settings.unrated == ("silver.raw",)
    assert {name: query.site for name, query in settings.queries.items()} == {
        "off": "site_a",
        "out": "site_a",
    }


def test_a_pipeline_without_sources_or_results_gets_sites_alone(make_project: ProjectMaker) -> None:
    folder = make_project()
    (folder / "mooring.yml").write_text(first_settings("new", SITES, None, ".mooring"))
    settings = load_project(folder).settings
    assert (len(settings.sites), settings.streams, settings.queries) == (2, {}, {})


def test_a_file_that_is_there_is_not_written_over(make_project: ProjectMaker, mooring: Verb) -> None:
    folder = make_project(settings="sites: {mine: {capacity: 7}}")
    said = mooring("init", folder)
    assert said.code == 2
    assert "--force" in said.err
    assert "capacity: 7" in (folder / "mooring.yml").read_text()


@pytest.mark.usefixtures("reader_up_already")
def test_a_pipeline_that_cannot_be_read_yet_gets_its_sites_and_its_problems(
    make_project: ProjectMaker, mooring: Verb
) -> None:
    folder = make_project(bad_sql="CREATE TABLE t (n INT)")
    (folder / "mooring.yml").unlink()
    said = mooring("init", folder, "--sites", "3")
    assert said.code == 2
    assert "bad.sql:1" in said.err
    assert [site.name for site in load_project(folder).settings.sites] == ["site_a", "site_b", "site_c"]


@pytest.mark.usefixtures("reader_up_already")
def test_data_need_not_exist_yet(make_project: ProjectMaker, mooring: Verb) -> None:
    folder = make_project()
    (folder / "mooring.yml").unlink()
    (folder / "input").rmdir()
    said = mooring("init", folder, "--json")
    assert said.code == 0, said.err
    assert said.document["streams"] == ["numbers"]
    assert said.document["missing"] == [str(folder / "input")]
    assert not (folder / "input").exists()
    assert list(load_project(folder).settings.streams) == ["numbers"]
