"""People are told where tables lie, what is committed, and how to read exactly that."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

import pandas
import pyarrow
import pyarrow.parquet
from pyarrow import orc

from mooring.cli.main import main
from mooring.spark.runs.run_files import RunFiles
from mooring.spark.storage import file_rows
from mooring.spark.storage.owned_folder import unowned
from mooring.spark.storage.pipeline_record import FlowRecord, PipelineRecord
from mooring.spark.storage.views.versions import ReadsOf, ViewVersion, ViewVersions
from mooring.spark.tables import manifest
from mooring.spark.tables.stored_tables import TableShelf
from tests.spark.pipeline.written_storage import Flow, WrittenStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mooring.spark.pipeline.layout import Layout
    from tests.spark.conftest import ProjectMaker

FLOWS = (
    Flow("packets", outside=True),
    Flow("small", ("packets",)),
    Flow("one", ("small",), into="both"),
    Flow("two", ("small",), into="both"),
    Flow("staged", ("packets",)),
    Flow("counted", ("staged",)),
)


@pytest.fixture
def layout(make_project: ProjectMaker) -> Layout:
    """Three batches of each flow, with two rows in every file, and a file of a batch that never committed."""
    storage = WrittenStorage(make_project, as_read=False)
    layout = storage.run(FLOWS, "tables: {staged: {keep: read}}")
    for channel in layout.channels.values():
        for file in channel.folder.glob("*.parquet"):
            pyarrow.parquet.write_table(pyarrow.table({"n": [1, 2]}), file)
        pyarrow.parquet.write_table(pyarrow.table({"n": [-1]}), channel.folder / "orphan.parquet")
    files = RunFiles(layout.project.work_folder)
    files.folder.mkdir(exist_ok=True)
    files.write_status({"fragments": {"one": {"site": "here"}, "two": {"site": "there"}}})
    return layout


def told(layout: Layout, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict[str, Any]]:
    capsys.readouterr()
    assert main(["tables", str(layout.project.folder), "--json", *words]) == 0
    return {table["name"]: table for table in json.loads(capsys.readouterr().out)["tables"]}


def test_committed_rows_are_counted_and_the_line_reads_exactly_them(
    layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = told(layout, capsys)
    assert {name: table["rows"] for name, table in tables.items()} == {
        "packets": 6,
        "small": 6,
        "both": 12,
        "staged": None,
        "counted": 6,
    }
    both = tables["both"]
    assert set(both) == {"name", "kind", "site", "rows", "bytes", "path", "format", "read"}
    assert (both["kind"], both["site"], both["format"]) == ("streaming table", "here, there", "parquet")
    assert Path(both["path"]).is_dir()
    names = {"json": json, "pandas": pandas, "Path": Path}
    read = eval(both["read"]["pandas"], names)  # noqa: S307
    assert sorted(read["n"]) == [1] * 6 + [2] * 6
    assert set(both["read"]) == {"spark", "pandas", "duckdb"}
    assert tables["staged"]["path"] is None


def test_the_line_for_spark_reads_the_committed_rows_at_a_site(
    layout: Layout, capsys: pytest.CaptureFixture[str], session: SparkSession
) -> None:
    for name, table in told(layout, capsys).items():
        if table["read"]:
            read = eval(table["read"]["spark"], {"json": json, "spark": session, "Path": Path})  # noqa: S307
            assert sorted(row.n for row in read.collect()) == sorted([1, 2] * (table["rows"] // 2)), name


@pytest.mark.parametrize("partitioned", [False, True])
def test_the_line_for_duckdb_names_the_committed_files(tmp_path: Path, partitioned: bool) -> None:
    """By DuckDB itself where it is installed, which these tests do not require; else by what it is asked."""
    folder = tmp_path / "it's k=1" if partitioned else tmp_path
    folder.mkdir(exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table({"n": [1, 2]}), folder / "part-0.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"n": [-1]}), folder / "orphan.parquet")
    files = [(folder / "part-0.parquet", 1)]
    listed = manifest.make_manifest(tmp_path / "t.json", "t", "parquet", {}, files)
    lines = manifest.read_lines(tmp_path / "t.json", "parquet", tmp_path, "", partitioned=partitioned)
    code = f"import json; from pathlib import Path; import duckdb; print({lines['duckdb']}.fetchall())"
    if importlib.util.find_spec("duckdb") is not None:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert sorted(row[0] for row in ast.literal_eval(done.stdout)) == [1, 2]
    asked: list[tuple[list[str], bool]] = []

    def read_parquet(files: list[str], *, hive_partitioning: bool = False) -> None:
        asked.append((files, hive_partitioning))

    stand_in = SimpleNamespace(read_parquet=read_parquet)
    eval(lines["duckdb"], {"json": json, "Path": Path, "duckdb": stand_in})  # noqa: S307
    assert asked == [(list(listed.files), partitioned)]


def test_people_see_what_is_not_stored_and_can_ask_for_one(
    layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tables", str(layout.project.folder)]) == 0
    out = capsys.readouterr().out
    assert "staged: not stored: it runs inside counted" in out
    assert list(told(layout, capsys, "--table", "small")) == ["small"]
    assert main(["tables", str(layout.project.folder), "--table", "smal"]) == 2
    assert "did you mean 'small'" in capsys.readouterr().err


def test_only_files_that_are_new_are_opened_again(
    layout: Layout, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told(layout, capsys)
    opened = list[Path]()
    monkeypatch.setattr(manifest, "rows_in", lambda path: opened.append(path))
    assert told(layout, capsys)["both"]["rows"] == 12
    assert not opened


def test_nothing_is_told_of_a_project_that_never_ran(
    make_project: ProjectMaker, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_project()
    assert main(["tables", str(folder)]) == 0
    assert "has not run yet" in capsys.readouterr().out
    assert not (folder / ".mooring").exists()


def test_sinks_of_files_and_views_are_told_too(tmp_path: Path) -> None:
    out, log = tmp_path / "out", tmp_path / "out" / "_spark_metadata"
    log.mkdir(parents=True)
    for name in ("part-0.parquet", "orphan.parquet"):
        pyarrow.parquet.write_table(pyarrow.table({"n": list(range(37))}), out / name)
    (log / "0").write_text("v1\n" + json.dumps({"path": f"file://{out / 'part-0.parquet'}", "size": 900}))
    versions = ViewVersions(tmp_path / "views" / "seen")
    folder = versions.next_folder()
    folder.mkdir(parents=True)
    pyarrow.parquet.write_table(pyarrow.table({"n": [1]}), folder / "part-0.parquet")
    version = ViewVersion(folder.name, ("part-0.parquet",), 1, 10, 0.0, 0.1, 1, ReadsOf(), "f")
    versions.publish(version, tmp_path)
    flows = {
        "deliver": FlowRecord("out", "sink", "f", False, "parquet", path="./out"),
        "send": FlowRecord("topic", "sink", "f", False, "kafka"),
        "seen": FlowRecord("seen", "materialized", "f", False),
        "unseen": FlowRecord("unseen", "materialized", "f", False),
    }
    record = PipelineRecord({name: (name,) for name in flows}, flows, run_from=str(tmp_path))
    shelf = TableShelf(tmp_path, unowned(tmp_path), record, tmp_path / "project", tmp_path / "manifests")
    tables = {table.name: table for table in shelf.tables()}
    assert (tables["out"].rows, tables["out"].path) == (37, str(out))
    assert (tables["topic"].rows, tables["topic"].format, tables["topic"].path) == (None, "kafka", None)
    assert (tables["seen"].rows, tables["seen"].path) == (1, str(folder))
    assert (tables["unseen"].rows, tables["unseen"].note) == (0, "never refreshed")


def _avro_block(rows: int) -> bytes:
    """A byte per row, and numbers as Avro has them."""
    number = bytes([2 * rows]) if rows < 64 else bytes([2 * rows & 0x7F | 0x80, 2 * rows >> 7])
    return number + number + bytes(rows) + bytes(16)


def test_rows_are_told_by_the_files_of_every_format(tmp_path: Path) -> None:
    table = pyarrow.table({"n": [1, 2, 3]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    orc.write_table(table, tmp_path / "a.orc")
    (tmp_path / "a.json").write_text('{"n":1}\n{"n":2}\n{"n":3}\n')
    (tmp_path / "a.csv.gz").write_bytes(b"")
    blocks = b"".join(_avro_block(rows) for rows in (1, 200))
    (tmp_path / "a.avro").write_bytes(b"Obj\x01\x02\x02k\x04vw\x00" + bytes(16) + blocks)
    found = {file.name: file_rows.rows_in(file) for file in tmp_path.iterdir()}
    assert found == {"a.parquet": 3, "a.orc": 3, "a.json": 3, "a.csv.gz": None, "a.avro": 201}
    assert file_rows.rows_in(tmp_path / "gone.parquet") is None
