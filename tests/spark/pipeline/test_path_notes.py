"""Relative paths of data start where the command is run, and nobody is surprised by that."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import InputError
from mooring.spark.definitions.plan_reads import plan_of, reads_of
from mooring.spark.definitions.relative_paths import relative_in_names
from mooring.spark.definitions.sql_definitions import tables_read
from mooring.spark.pipeline.path_notes import path_notes
from mooring.spark.pipeline.project import load_project
from mooring.spark.pipeline.project_edits import project_edits
from mooring.spark.pipeline.site_options import site_options
from mooring.spark.runs.project_run import _as_running
from mooring.spark.runs.run_files import RunFiles
from mooring.spark.sites.embedded_site import EmbeddedOptions
from mooring.spark.storage.pipeline_record import read_record
from tests.spark.pipeline.test_pipeline import read
from tests.spark.pipeline.written_storage import Flow, WrittenStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.conftest import ProjectMaker

FLOWS = [Flow("raw", outside=True, paths=("./data",)), Flow("rest", reads=("raw",))]
EXISTING = 'sites: {a: {capacity: 1}, b: {capacity: 1, connect: "sc://there:15002"}}\n'


@pytest.fixture
def storage(make_project: ProjectMaker) -> WrittenStorage:
    return WrittenStorage(make_project)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder from now on, which is not the project's."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_embedded_sites_take_relative_paths_from_the_folder_of_the_command(
    make_project: ProjectMaker, elsewhere: Path
) -> None:
    options = site_options(load_project(make_project()), EmbeddedOptions())
    assert options is not None
    assert options.working_folder == elsewhere


def test_relative_paths_are_found_in_python_and_in_sql(session: SparkSession) -> None:
    read = session.readStream.schema("n long").json
    assert reads_of(plan_of(read("./in"))).relative_paths == ("./in",)
    assert reads_of(plan_of(read("file:///in"))).relative_paths == ()
    given = session.readStream.schema("n long").format("json").option("path", "in").load()
    assert reads_of(plan_of(given)).relative_paths == ("in",)
    assert reads_of(plan_of(session.table("parquet.`../x.parquet`"))).relative_paths == ("../x.parquet",)
    in_sql = tables_read("SELECT * FROM orders JOIN json.`./y` USING (n)")
    assert relative_in_names(table.name for table in in_sql) == ["./y"]


def test_a_path_that_is_not_there_is_refused_with_where_relative_ones_start(
    make_project: ProjectMaker, session: SparkSession
) -> None:
    with pytest.raises(InputError, match="Path does not exist") as refusal:
        read(make_project(bad_sql="CREATE MATERIALIZED VIEW v AS SELECT * FROM json.`./gone`"), session)
    assert "start at the current folder" in (refusal.value.remedy or "")


def test_check_says_where_relative_paths_start(storage: WrittenStorage, elsewhere: Path) -> None:
    (note,) = path_notes(storage.layout(FLOWS))
    assert note.startswith(f"the relative path './data' (raw) starts at {elsewhere}")
    assert path_notes(storage.layout([Flow("raw", outside=True)])) == []


def test_check_says_that_existing_endpoints_start_them_elsewhere(storage: WrittenStorage) -> None:
    *_, note = path_notes(storage.layout(FLOWS, sites=EXISTING))
    assert "at 'b' the relative path './data' (raw) starts in the folder that the server" in note


def test_a_run_from_another_folder_says_that_relative_paths_lead_elsewhere_now(
    storage: WrittenStorage, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = storage.run(FLOWS).root
    record = read_record(root)
    assert record is not None
    assert record.run_from == str(elsewhere)
    assert not project_edits(storage.layout(FLOWS)).notes
    monkeypatch.chdir(elsewhere.parent)
    (note,) = project_edits(storage.layout(FLOWS)).notes
    assert f"started at {elsewhere} in the last run and starts at {elsewhere.parent} now" in note


def test_commands_beside_a_run_take_relative_paths_as_it_does(
    storage: WrittenStorage, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = storage.run(FLOWS).project
    monkeypatch.chdir(elsewhere.parent)
    assert _as_running(load_project(project.folder)).run_from == elsewhere.parent
    with RunFiles(project.work_folder).held():
        assert _as_running(load_project(project.folder)).run_from == elsewhere
