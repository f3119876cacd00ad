"""Tables and views stand in an endpoint's catalog under their own names, and never over what others made."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.spark.definitions.definitions import load_definitions
from mooring.spark.engine.fragment_query import prepare_fragment
from mooring.spark.engine.lifecycle import start_refreshing
from mooring.spark.pipeline.layout import Layout, cut_pipeline
from mooring.spark.pipeline.pipeline import read_pipeline
from mooring.spark.pipeline.project import load_project
from mooring.spark.sites.endpoint import close_session, open_session
from mooring.spark.tables.registration import register_tables
from mooring.spark.views.schedule import ViewSchedule

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mooring.spark.engine.fragment_query import RunningQuery
    from mooring.spark.sites.embedded_site import EmbeddedSite
    from tests.spark.conftest import ProjectMaker

NUMBERS = """
from pyspark import pipelines as dp

@dp.table(comment="as they came, it's all", cluster_by=["n"])
def listed_numbers():
    return spark.readStream.schema("n long, at timestamp").json("INPUT")

dp.create_streaming_table(
    "listed_parts", comment="no (PROPERTIES) and (PROPERTIES, here", table_properties={"of": "two"}
)

@dp.append_flow(target="listed_parts")
def low():
    return spark.readStream.table("listed_numbers").filter("n < 3").select("n")

@dp.append_flow(target="listed_parts")
def high():
    return spark.readStream.table("listed_numbers").filter("n >= 3")

@dp.table(comment="its (PROPERTIES)", table_properties={"(PROPERTIES,": "PROPERTIES)", "it's": "AS SELECT"})
def listed_copy():
    return spark.readStream.table("listed_numbers").select("n")

@dp.table
def listed_taken():
    return spark.readStream.table("listed_numbers")

@dp.materialized_view(comment="how many there are")
def listed_count():
    return spark.read.table("listed_numbers").groupBy().count()

@dp.materialized_view(partition_cols=["odd"])
def listed_by_kind():
    return spark.read.table("listed_numbers").selectExpr("n", "n % 2 = 1 AS odd")

@dp.materialized_view
def listed_taken_view():
    return spark.read.table("listed_numbers")
"""
PATIENCE_S = 150
SETTINGS = "sites: {here: {capacity: 2}}\nregister: true\n"


def wait_for_end(query: RunningQuery) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while query.isActive:
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.1)


def run_to_the_end(layout: Layout, fragment: str, site: EmbeddedSite) -> None:
    prepared = prepare_fragment(layout, layout.fragments[fragment], "here", site.endpoint, to_the_end=True)
    if layout.pipeline.is_view(fragment):
        prepared.starter = partial(start_refreshing, ViewSchedule(layout))
    running = prepared.start()
    wait_for_end(running.query)
    assert running.query.exception() is None
    close_session(running.session)


def feed(folder: Path, numbers: range) -> None:
    lines = [json.dumps({"n": n, "at": "2020-01-01T00:00:00Z"}) for n in numbers]
    (folder / "input" / f"{numbers.start}.json").write_text("\n".join(lines))


@pytest.fixture
def catalog(site: EmbeddedSite) -> Iterator[SparkSession]:
    """Left as it was found."""
    session = open_session(site.endpoint)
    yield session
    for table in [table for table in session.catalog.listTables() if table.name.startswith("listed")]:
        session.sql(f"DROP {'VIEW' if table.tableType == 'VIEW' else 'TABLE'} {table.name}").collect()
    close_session(session)


def test_tables_are_registered_with_exactly_what_is_committed(
    make_project: ProjectMaker, site: EmbeddedSite, session: SparkSession, catalog: SparkSession
) -> None:
    """A session remembers the files of tables that it has read, so they are read in another one."""
    folder = make_project(settings=SETTINGS, numbers_py=NUMBERS)
    project = load_project(folder)
    assert project.settings.register
    definitions = load_definitions(folder, project.spec, session)
    project.settings.storage.mkdir(parents=True)
    layout = cut_pipeline(project, read_pipeline(project.spec, definitions, session, folder / "input"))
    layout.create()
    catalog.sql("CREATE TABLE listed_taken (theirs INT) USING parquet").collect()
    catalog.sql("CREATE VIEW listed_taken_view AS SELECT 1 AS theirs").collect()
    expected = [
        f"{name} is not registered at here: the catalog has another table or view {name}, "
        "which Mooring did not create"
        for name in ("listed_taken", "listed_taken_view")
    ]
    assert register_tables(layout, "here", catalog) == expected
    tools = open_session(site.endpoint)
    assert tools.table("listed_count").collect() == [], "there is no version yet"
    close_session(tools)
    feed(folder, range(6))
    for name in ("listed_numbers", "low", "high", "listed_count", "listed_by_kind"):
        run_to_the_end(layout, name, site)
    channel = layout.channels["listed_numbers"]
    shutil.copy(channel.committed().entries[0].path, channel.folder / "part-of-a-killed-batch.parquet")

    assert register_tables(layout, "here", catalog) == expected, "what is there stays"
    tools = open_session(site.endpoint)
    rows = sorted(row.n for row in tools.table("listed_numbers").collect())
    assert rows == list(range(6))
    parts = {row.n: row.at is not None for row in tools.table("listed_parts").collect()}
    assert parts == {n: n >= 3 for n in range(6)}
    assert tools.table("listed_taken").columns == tools.table("listed_taken_view").columns == ["theirs"]
    assert tools.table("listed_count").collect() == [(6,)]
    kinds = {row.n: row.odd for row in tools.table("listed_by_kind").collect()}
    assert kinds == {n: n % 2 == 1 for n in range(6)}
    assert tools.catalog.getTable("listed_numbers").description == "as they came, it's all"
    said = tools.sql("SHOW TBLPROPERTIES listed_numbers").collect()
    assert {row.key: row.value for row in said}["clusteringColumns"] == '[["n"]]'
    odd = {row.key: row.value for row in tools.sql("SHOW TBLPROPERTIES listed_copy").collect()}
    assert (odd["(PROPERTIES,"], odd["it's"]) == ("PROPERTIES)", "AS SELECT"), "as the pipeline says it"
    assert tools.catalog.getTable("listed_copy").description == "its (PROPERTIES)"
    said_of_parts = tools.catalog.getTable("listed_parts").description
    assert said_of_parts == "no (PROPERTIES) and (PROPERTIES, here"
    close_session(tools)
    feed(folder, range(6, 10))
    for name in ("listed_numbers", "listed_count"):
        run_to_the_end(layout, name, site)
    tools = open_session(site.endpoint)
    assert tools.table("listed_count").collect() == [(10,)], "nobody registered it again"
    close_session(tools)
