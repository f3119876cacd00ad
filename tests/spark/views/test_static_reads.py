"""A streaming flow looks up what stands in a view: in an update as plain Spark does, else refused."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import UnsupportedError
from mooring.model.placement.placement import FragmentSites
from mooring.spark.engine.engine import EngineOptions, SparkEngine
from mooring.spark.pipeline.pipeline_problem import problem_of
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs.project_run import read_layout
from mooring.spark.runs.results import read_stored
from mooring.spark.runs.update_choice import UpdateChoice, update_order
from mooring.spark.sites.sites import SiteHandle, SiteHandles

if TYPE_CHECKING:
    from mooring.spark.sites.embedded_site import EmbeddedSite
    from tests.spark.conftest import ProjectMaker

PATIENCE_S = 120
FLOWS = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

@dp.materialized_view
def total():
    return spark.read.table("numbers").agg(F.sum("n").alias("total"))

@dp.table
def joined():
    return spark.readStream.table("numbers").crossJoin(spark.read.table("total")).select("n", "total")

@dp.table
def both():
    now = spark.read.table("total").select(F.col("total").alias("now"))
    return spark.readStream.table("total").crossJoin(now)
"""


def feed(folder: Path, *numbers: int) -> None:
    text = "\n".join(json.dumps({"n": n, "at": "2020-01-01T00:00:00Z"}) for n in numbers)
    (folder / "input" / f"{numbers[0]}.json").write_text(text)


def update(engine: SparkEngine) -> list[tuple[int, int]]:
    """Fragment after fragment, as an update orders them; what `joined` then holds."""
    order, ended = update_order(engine.layout, UpdateChoice()), list[str]()
    while left := order.unreached(ended):
        (name, *_) = order.ready(begun=ended, ended=ended)
        engine.start(name, "a")
        deadline = time.monotonic() + PATIENCE_S
        while engine.reached_end() != [name]:
            engine.check()
            assert time.monotonic() < deadline, left
            time.sleep(0.1)
        ended.append(name)
    rows = read_stored(engine.layout.root, "joined").to_pylist()
    return sorted((row["n"], row["total"]) for row in rows)


def test_a_flow_looks_up_what_stands_when_it_begins(make_project: ProjectMaker, site: EmbeddedSite) -> None:
    folder = make_project(settings="sites: {a: {capacity: 1}}\n", flows_py=FLOWS)
    sites = SiteHandles([SiteHandle("a", 1.0, site.endpoint, site)])
    layout = read_layout(load_project(folder), sites["a"])
    assert layout.pipeline.flows["joined"].static == ("total",)
    assert layout.comes_after("joined") == ("numbers", "total")
    both = layout.pipeline.flows["both"]
    assert (both.inputs, both.static) == (("total",), ("total",))
    operators = {operator.name: operator for operator in problem_of(layout).operators}
    assert operators["joined"].inputs == ("numbers:ingest",), "what it looks up is no stream to it"
    feed(folder, 1, 2, 3)
    engine = SparkEngine(layout, sites, {}, EngineOptions(to_the_end=True))
    try:
        assert update(engine) == [(1, 6), (2, 6), (3, 6)]
        feed(folder, 10)
        assert update(engine) == [(1, 6), (2, 6), (3, 6), (10, 16)]
        versions = [(row["total"], row["now"]) for row in read_stored(layout.root, "both").to_pylist()]
        assert sorted(versions) == [(6, 6), (16, 16)], "each beside what stood when it was delivered"
    finally:
        engine.close()
    endless = SparkEngine(layout, sites, {})
    try:
        with pytest.raises(UnsupportedError, match="'joined' reads 'total' as a fixed table beside a stream"):
            endless.start_all(FragmentSites(dict.fromkeys(layout.fragments, "a")))
    finally:
        endless.close()
