"""Materialized views on Spark: refreshed in the order of the graph from what was fixed, and read whole."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.spark.engine.engine import SparkEngine
from mooring.spark.pipeline.pipeline_problem import problem_of
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs.project_run import read_layout
from mooring.spark.runs.results import read_stored
from mooring.spark.sites.sites import SiteHandle, SiteHandles

if TYPE_CHECKING:
    from mooring.spark.sites.embedded_site import EmbeddedSite
    from tests.spark.conftest import ProjectMaker

PATIENCE_S = 60
VIEWS = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

@dp.materialized_view
def total():
    return spark.read.table("numbers").agg(F.sum("n").alias("n"), F.count("*").alias("rows"))

@dp.temporary_view
def named():
    return spark.read.table("numbers").join(spark.read.json("NAMES"), "n")

@dp.materialized_view
def share():
    return spark.read.table("named").crossJoin(spark.read.table("total").withColumnRenamed("n", "all"))

@dp.materialized_view
def ten():
    return spark.range(10)
"""
SQL = "CREATE MATERIALIZED VIEW even AS SELECT id FROM ten WHERE id % 2 = 0"
SETTINGS = """\
sites: {a: {capacity: 1}, b: {capacity: 1}}
streams: {numbers: {site: a, rate: 100}}
queries: {total: {site: b}}
trigger_s: 0.3
refresh_s: 0.1
tables: {share: {refresh_s: 1}}
"""


def feed(folder: Path, *numbers: int) -> None:
    hidden = folder / "input" / f".{numbers[0]}"
    hidden.write_text("\n".join(json.dumps({"n": n, "at": "2020-01-01T00:00:00Z"}) for n in numbers))
    hidden.rename(folder / "input" / f"{numbers[0]:04d}.json")


def rows_of(engine: SparkEngine, view: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = read_stored(engine.layout.root, view).to_pylist()
    return rows


def wait_until(engine: SparkEngine, happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        engine.check()
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.fixture
def engine(make_project: ProjectMaker, site: EmbeddedSite, tmp_path: Path) -> Iterator[SparkEngine]:
    """Two sites by name, served by one server."""
    names = tmp_path / "names.json"
    names.write_text("\n".join(json.dumps({"n": n, "name": f"n{n}"}) for n in (1, 2)))
    folder = make_project(settings=SETTINGS, views_py=VIEWS.replace("NAMES", str(names)), even_sql=SQL)
    sites = SiteHandles(SiteHandle(name, 1.0, site.endpoint, site) for name in ("a", "b"))
    made = SparkEngine(read_layout(load_project(folder), sites["a"]), sites, {"total": "total"})
    yield made
    made.close()


def test_views_follow_what_they_read_and_a_move_goes_on_with_them(engine: SparkEngine) -> None:
    flows = engine.layout.pipeline.flows
    assert flows["share"].static == ("numbers", "total")
    assert flows["share"].views == ("named",)
    assert (flows["share"].unobserved, flows["total"].unobserved) == (True, False)
    assert [name for name in flows if name in ("total", "share")] == ["total", "share"]
    operators = {operator.name: operator for operator in problem_of(engine.layout).operators}
    assert operators["share"].inputs == ("numbers:ingest", "total")
    assert operators["even"].inputs == ("ten",)
    assert operators["ten"].inputs == ()
    for fragment in engine.layout.fragments:
        engine.start(fragment, "a")
    folder = engine.layout.project.folder
    feed(folder, 1, 2, 3)
    wait_until(engine, lambda: rows_of(engine, "total") == [{"n": 6, "rows": 3}])
    wait_until(engine, lambda: {row["id"] for row in rows_of(engine, "even")} == {0, 2, 4, 6, 8})
    wait_until(engine, lambda: {row["all"] for row in rows_of(engine, "share")} == {6})
    assert {row["name"] for row in rows_of(engine, "share")} == {"n1", "n2"}
    moved = engine.move("total", "b")
    assert moved.to_site == "b"
    feed(folder, 4)
    wait_until(engine, lambda: rows_of(engine, "total") == [{"n": 10, "rows": 4}])
    wait_until(engine, lambda: {row["all"] for row in rows_of(engine, "share")} == {10})
    version = engine.layout.views["ten"].current()
    assert version is not None
    assert version.number == 1, "nothing that it reads can change"
    seen = engine.snapshot()
    assert seen.fragments["total"].site == "b"
    assert seen.fragments["total"].batches > 0
