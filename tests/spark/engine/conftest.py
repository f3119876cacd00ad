"""Fragments of a layout, started one by one at the site that is up, and ended after the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mooring.spark.engine.fragment_query import RunningFragment
    from mooring.spark.pipeline.layout import Layout
    from mooring.spark.sites.embedded_site import EmbeddedSite
    from tests.spark.engine.fragment_scene import LayOut, Start


@pytest.fixture
def lay_out(session: SparkSession) -> LayOut:
    from mooring.spark.definitions.definitions import load_definitions
    from mooring.spark.pipeline.layout import cut_pipeline
    from mooring.spark.pipeline.pipeline import read_pipeline
    from mooring.spark.pipeline.project import load_project

    def make(folder: Path) -> Layout:
        project = load_project(folder)
        (project.settings.storage / "empty").mkdir(parents=True, exist_ok=True)
        definitions = load_definitions(folder, project.spec, session)
        pipeline = read_pipeline(project.spec, definitions, session, project.settings.storage / "empty")
        layout = cut_pipeline(project, pipeline)
        layout.create()
        return layout

    return make


@pytest.fixture
def start(site: EmbeddedSite) -> Iterator[Start]:
    from mooring.spark.engine.fragment_query import prepare_fragment
    from mooring.spark.sites.endpoint import close_session

    running: list[RunningFragment] = []

    def begin(layout: Layout, name: str, **options: bool) -> RunningFragment:
        fragment = prepare_fragment(layout, layout.fragments[name], "here", site.endpoint, **options).start()
        running.append(fragment)
        return fragment

    yield begin
    for fragment in running:
        if fragment.query.isActive:
            fragment.query.stop()
        close_session(fragment.session)
