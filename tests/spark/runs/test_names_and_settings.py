"""Names in all their parts, sessions in all their ways and settings in SQL mean what they mean to Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import InputError
from mooring.model.placement.placement import FragmentSites
from mooring.spark.engine.engine import SparkEngine
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs.project_run import read_layout
from mooring.spark.runs.results import read_stored
from mooring.spark.sites.sites import SiteHandle, SiteHandles

if TYPE_CHECKING:
    from mooring.spark.sites.embedded_site import EmbeddedSite
    from tests.spark.conftest import ProjectMaker
    from tests.spark.runs.conftest import WaitUntil

SPEC = """\
name: test
storage: file://FOLDER/pipelines-storage
database: sales
configuration: {shop.least: "3", shop.schema: silver, "spark.sql.shuffle.partitions": "1"}
libraries: [{glob: {include: transformations/**}}]
"""
TABLES = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.builder.appName("mine").config("shop.most", "8").getOrCreate()
LEAST = int(spark.conf.get("shop.least"))

@dp.table(name="sales.big")
def big():
    mine = SparkSession.builder.getOrCreate()
    numbers = mine.readStream.table("spark_catalog.sales.Numbers")
    return numbers.where(F.col("numbers.n") >= LEAST).where("sales.numbers.n < 100")

@dp.table(name="silver.even")
def even():
    return spark.sql("SELECT big.n FROM STREAM sales.big WHERE big.n % 2 = 0")

@dp.append_flow(target="spark_catalog.silver.few")
def into_few():
    return spark.readStream.table("silver.even").select("even.n")
"""
QUERIES = """\
SET shop.top = 9;
CREATE STREAMING TABLE ${shop.schema}.few;
USE sales;
CREATE STREAMING TABLE fewer AS
SELECT few.n, ${shop.least} AS least FROM STREAM(${shop.schema}.few) WHERE silver.few.n < ${shop.top};
"""


def make(make_project: ProjectMaker, settings: str) -> Path:
    folder = make_project(settings=settings, tables_py=TABLES, queries_sql=QUERIES)
    (folder / "spark-pipeline.yml").write_text(SPEC.replace("FOLDER", str(folder)))
    return folder


def test_names_of_all_parts_reach_the_same_tables_from_python_and_sql(
    make_project: ProjectMaker, site: EmbeddedSite, wait_until: WaitUntil
) -> None:
    folder = make(
        make_project,
        "sites: {here: {capacity: 2}}\ntrigger_s: 0.2\ntables: {sales.fewer: {keep: all}}\n"
        "pins: {spark_catalog.sales.big: here}\nqueries: {even: {reads: silver.even, site: here}}",
    )
    (folder / "input" / "all.json").write_text(
        "\n".join(json.dumps({"n": n, "at": "2020-01-01T00:00:00Z"}) for n in range(12))
    )
    handle = SiteHandle("here", 2.0, site.endpoint, site)
    layout = read_layout(load_project(folder), handle)
    assert set(layout.pipeline.flows) == {"numbers", "big", "silver.even", "into_few", "fewer"}
    assert layout.pipeline.flows["into_few"].inputs == ("silver.even",)
    assert layout.keep_of("fewer").for_good
    engine = SparkEngine(layout, SiteHandles([handle]), {})
    try:
        engine.start_all(FragmentSites(dict.fromkeys(layout.fragments, "here")))
        storage = layout.project.settings.storage
        wait_until(lambda: read_stored(storage, "fewer").num_rows >= 3, "rows in fewer")
        assert sorted(row["n"] for row in read_stored(storage, "fewer").to_pylist()) == [4, 6, 8]
        assert {row["least"] for row in read_stored(storage, "fewer").to_pylist()} == {3}
    finally:
        engine.close()


def test_a_setting_that_an_endpoint_cannot_take_is_named_by_the_spec(
    make_project: ProjectMaker, site: EmbeddedSite
) -> None:
    folder = make(make_project, "sites: {here: {capacity: 2}}")
    spec = folder / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("shop.least:", 'spark.sql.warehouse.dir: "/x", shop.least:'))
    with pytest.raises(InputError) as refused:
        read_layout(load_project(folder), SiteHandle("here", 2.0, site.endpoint, site))
    assert refused.value.field == "configuration.spark.sql.warehouse.dir"
    assert "spark-pipeline.yml" in str(refused.value)
    assert "flow" not in str(refused.value)
