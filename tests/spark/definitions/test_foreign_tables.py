"""A pipeline reads the tables of another one as they are committed, with `sites:` alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from tests.spark.projects.mooring_run import all_rows, on_sites

if TYPE_CHECKING:
    from mooring.spark.sites.embedded_site import EmbeddedSite

RAW = """
from pyspark import pipelines as dp

@dp.table(partition_cols=["odd"])
def orders():
    rows = spark.readStream.schema("n long").json("FOLDER/input")
    return rows.selectExpr("n", "n % 2 AS odd")

@dp.materialized_view(format="json")
def few():
    return spark.read.table("orders").where("n < 2")
"""
MART = """
from pyspark import pipelines as dp

@dp.temporary_view
def seen():
    return spark.read.table("raw.orders")

@dp.materialized_view
def sums():
    return spark.sql("SELECT seen.odd, sum(n) AS n FROM seen GROUP BY seen.odd")

@dp.materialized_view
def counts():
    return spark.read.table("raw.few").selectExpr("count(*) AS few")
"""
STREAM = """
from pyspark import pipelines as dp

@dp.table
def copied():
    return spark.readStream.table("raw.orders")
"""


def make(folder: Path, database: str, definitions: str, site: EmbeddedSite) -> Path:
    (folder / "transformations").mkdir(parents=True)
    (folder / "input").mkdir()
    (folder / "spark-pipeline.yml").write_text(
        f"name: {database}\nstorage: file://{folder}/plain\ndatabase: {database}\n"
        "libraries: [{glob: {include: transformations/**}}]\n"
    )
    (folder / "transformations" / "all.py").write_text(definitions.replace("FOLDER", str(folder)))
    on_sites(folder, 2, site.endpoint)
    return folder


def test_views_read_what_another_pipeline_has_committed_and_streams_are_refused(
    tmp_path: Path, site: EmbeddedSite, capsys: pytest.CaptureFixture[str]
) -> None:
    from mooring.cli.main import main

    raw, mart = make(tmp_path / "raw", "raw", RAW, site), make(tmp_path / "mart", "mart", MART, site)
    assert main(["check", str(mart)]) == 2
    assert "are found once Mooring has run them" in " ".join(capsys.readouterr().err.split())
    for arriving, sums in ((range(4), [2, 4]), (range(4, 6), [6, 9])):
        lines = [json.dumps({"n": n}) for n in arriving]
        (raw / "input" / f"{arriving.start}.json").write_text("\n".join(lines))
        assert main(["run", str(raw), "--once"]) == 0, capsys.readouterr().err
        assert main(["run", str(mart), "--once"]) == 0, capsys.readouterr().err
        said = " ".join(capsys.readouterr().err.split())
        assert f"raw.few is a table of the pipeline {raw / 'spark-pipeline.yml'}" in said
        found = all_rows(mart, site.endpoint)
        assert [json.loads(line)["n"] for line in found["sums"]] == sums
        assert found["counts"] == ['{"few": 2}']
    (mart / "transformations" / "all.py").write_text(STREAM)
    assert main(["check", str(mart)]) == 2
    assert "'raw.orders' of another pipeline into a stream" in " ".join(capsys.readouterr().err.split())
