"""Tables stand in an endpoint's catalog under their own names, and never over what others made."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.spark.pipeline.definitions import load_definitions
from mooring.spark.pipeline.layout import cut_pipeline
from mooring.spark.pipeline.pipeline import read_pipeline
from mooring.spark.pipeline.project import load_project
from mooring.spark.running.fragment_query import prepare_fragment
from mooring.spark.sites.endpoint import close_session, open_session
from mooring.spark.tables.registration import register_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mooring.spark.running.fragment_query import RunningQuery
    from mooring.spark.sites.embedded_site import EmbeddedSite
    from tests.spark.conftest import ProjectMaker

NUMBERS = """
from pyspark import pipelines as dp

@dp.table(comment="as they came, it's all", cluster_by=["n"])
def listed_numbers():
    return spark.readStream.schema("n long, at timestamp").json("INPUT")

dp.create_streaming_table("listed_parts", table_properties={"of": "two"})

@dp.append_flow(target="listed_parts")
def low():
    return spark.readStream.table("listed_numbers").filter("n < 3").select("n")

@dp.append_flow(target="listed_parts")
def high():
    return spark.readStream.table("listed_numbers").filter("n >= 3")

@dp.table
def listed_taken():
    return spark.readStream.table("listed_numbers")
"""
PATIENCE_S = 150
SETTINGS = "sites: {here: {capacity: 2}}\nregister: true\n"


def wait_for_end(query: RunningQuery) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while query.isActive:
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.1)


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
    why = "there is a table or view listed_taken already, which Mooring did not make"
    expected = [f"listed_taken is not registered at here: {why}"]
    assert register_tables(layout, "here", catalog) == expected
    lines = [json.dumps({"n": n, "at": "2020-01-01T00:00:00Z"}) for n in range(6)]
    (folder / "input" / "a.json").write_text("\n".join(lines))
    for name in ("listed_numbers", "low", "high"):
        prepared = prepare_fragment(layout, layout.fragments[name], "here", site.endpoint, to_the_end=True)
        running = prepared.start()
        wait_for_end(running.query)
        close_session(running.session)
    channel = layout.channels["listed_numbers"]
    shutil.copy(channel.committed().entries[0].path, channel.folder / "part-of-a-killed-batch.parquet")

    assert register_tables(layout, "here", catalog) == expected, "what is there stays"
    tools = open_session(site.endpoint)
    rows = sorted(row.n for row in tools.table("listed_numbers").collect())
    assert rows == list(range(6))
    parts = {row.n: row.at is not None for row in tools.table("listed_parts").collect()}
    assert parts == {n: n >= 3 for n in range(6)}
    assert tools.table("listed_taken").columns == ["theirs"]
    assert tools.catalog.getTable("listed_numbers").description == "as they came, it's all"
    said = tools.sql("SHOW TBLPROPERTIES listed_numbers").collect()
    assert {row.key: row.value for row in said}["clusteringColumns"] == '[["n"]]'
    close_session(tools)
