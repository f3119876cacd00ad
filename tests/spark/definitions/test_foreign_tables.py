"""A pipeline reads the tables of another one as they are committed, with `sites:` alone."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

import msgspec

from mooring.errors import InputError
from mooring.spark.definitions.foreign_tables import Neighbours
from mooring.spark.definitions.pipeline_spec import MARK_NOTE, STORAGE_NOTE, load_spec, work_folder_of_spec
from mooring.spark.runs.known_root import KnownRoot
from mooring.spark.storage.owned_folder import unowned
from mooring.spark.storage.pipeline_record import FlowRecord, PipelineRecord, read_record, write_record
from mooring.spark.storage.stream_logs import sink_line
from tests.spark.projects.mooring_run import all_rows, on_sites

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    assert "after their first run" in " ".join(capsys.readouterr().err.split())
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
    assert "'raw.orders' of another pipeline as a stream" in " ".join(capsys.readouterr().err.split())


def make_pipeline(spec_file: Path, database: str = "", *tables: str) -> Neighbours:
    """A pipeline that has stored these tables; with none, one that never ran."""
    spec_file.parent.mkdir(parents=True, exist_ok=True)
    said = f"database: {database}\n" if database else ""
    spec_file.write_text(f"name: {spec_file}\nstorage: file:///nowhere\n{said}libraries: []\n")
    if tables:
        work = work_folder_of_spec(spec_file)
        storage = work / "storage"
        storage.mkdir(parents=True)
        (work / STORAGE_NOTE).write_text(str(storage))
        flows = {name: FlowRecord(name, "table", "f", False) for name in tables}
        write_record(storage, PipelineRecord(flows=flows), unowned(storage))
    return Neighbours(spec_file.parent, load_spec(spec_file))


def test_tables_of_the_same_folder_and_of_those_beside_it_are_found_by_their_whole_name(
    tmp_path: Path,
) -> None:
    mart = make_pipeline(tmp_path / "mart" / "spark-pipeline.yml", "mart", "totals")
    make_pipeline(tmp_path / "raw" / "spark-pipeline.yaml", "raw", "orders", "silver.clean")
    make_pipeline(tmp_path / "mart" / "more.yml", "mart", "extra")
    for written in ("raw.orders", "spark_catalog.raw.orders", "`raw`.Orders"):
        table = mart.find(written)
        assert table is not None, written
        assert (table.key, table.spec_file) == ("orders", tmp_path / "raw" / "spark-pipeline.yaml")
    same_folder, other_database = mart.find("extra"), mart.find("silver.clean")
    assert same_folder is not None
    assert other_database is not None
    assert same_folder.spec_file == tmp_path / "mart" / "more.yml"
    assert other_database.key == "silver.clean"
    for written in ("orders", "totals", "lake.raw.orders", "raw.gone"):
        assert mart.find(written) is None, written


def test_a_note_that_a_power_cut_left_empty_names_no_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the folder that the command runs in."""
    mart = make_pipeline(tmp_path / "mart" / "spark-pipeline.yml")
    raw = tmp_path / "raw" / "spark-pipeline.yml"
    make_pipeline(raw, "raw", "orders")
    work = work_folder_of_spec(raw)
    monkeypatch.chdir(work / "storage")
    (work / STORAGE_NOTE).write_text("")
    assert mart.find("raw.orders") is None
    assert KnownRoot(work).path() is None


def test_a_table_whose_rows_go_as_they_are_read_is_not_lent(tmp_path: Path) -> None:
    mart = make_pipeline(tmp_path / "mart" / "spark-pipeline.yml")
    make_pipeline(tmp_path / "raw" / "spark-pipeline.yml", "", "orders")
    table, session = mart.find("orders"), cast("SparkSession", None)
    assert table is not None
    with pytest.raises(InputError, match="is not kept there"):
        table.frame(session)


def test_a_table_that_several_have_is_refused_by_name(tmp_path: Path) -> None:
    mart = make_pipeline(tmp_path / "mart" / "spark-pipeline.yml")
    make_pipeline(tmp_path / "a" / "spark-pipeline.yml", "", "orders")
    make_pipeline(tmp_path / "b" / "spark-pipeline.yml", "", "orders")
    with pytest.raises(InputError, match="several neighbouring pipelines"):
        mart.find("orders")


def test_a_storage_of_somebody_else_and_one_that_is_not_the_noted_one_lend_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mart, raw = (tmp_path / name / "spark-pipeline.yml" for name in ("mart", "raw"))
    here = make_pipeline(mart)
    make_pipeline(raw, "raw", "orders")
    work = work_folder_of_spec(raw)
    assert here.find("raw.orders") is not None
    (work / MARK_NOTE).write_text("mooring-another")
    assert here.find("raw.orders") is None, "what lies there is not what it stored"
    (work / MARK_NOTE).unlink()
    assert here.find("raw.orders") is not None
    theirs, stat = work / STORAGE_NOTE, Path.stat

    def owned_by_another(path: Path, **options: bool) -> os.stat_result:
        found = stat(path, **options)
        return os.stat_result((*found[:4], 4711, *found[5:])) if path == theirs else found

    monkeypatch.setattr(Path, "stat", owned_by_another)
    assert here.find("raw.orders") is None


def test_a_log_that_leads_out_of_the_lent_storage_is_refused(tmp_path: Path) -> None:
    mart = make_pipeline(tmp_path / "mart" / "spark-pipeline.yml")
    raw = tmp_path / "raw" / "spark-pipeline.yml"
    make_pipeline(raw, "", "orders")
    storage = work_folder_of_spec(raw) / "storage"
    table = mart.find("orders")
    assert table is not None
    record = read_record(storage)
    assert record is not None
    write_record(storage, msgspec.structs.replace(record, results={"orders": "asked"}), unowned(storage))
    channel = table._channel("orders", unowned(storage))
    channel.create()
    channel.sink_log.mkdir()
    (channel.sink_log / "0").write_bytes(b"v1\n" + sink_line("file:///etc/passwd", 4, 0))
    with pytest.raises(InputError, match=r"names /etc/passwd, which lies outside"):
        table.frame(cast("SparkSession", None))
