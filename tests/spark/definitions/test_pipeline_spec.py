"""A project is found by its folder or by its spec, and specs of one folder keep apart (no Spark needed)."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import InputError
from mooring.spark.definitions.pipeline_spec import spec_file_of
from mooring.spark.pipeline.project import load_project, work_folder_of

SPEC = "name: test\nstorage: file:///x\nlibraries: [{glob: {include: transformations/**}}]\n"
SITES = "sites: {here: {capacity: 2}}\n"


def write(folder: Path, **texts: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name.replace('__', '.').replace('_', '-')}").write_text(text)
    return folder


@pytest.mark.parametrize("name", ["spark_pipeline__yml", "spark_pipeline__yaml", "nightly__yaml"])
def test_the_one_spec_of_a_folder_is_found(tmp_path: Path, name: str) -> None:
    folder = write(tmp_path, **{name: SPEC}, mooring__yml=SITES)
    assert spec_file_of(folder).name == name.replace("__", ".").replace("_", "-")


def test_of_several_specs_one_is_to_be_named(tmp_path: Path) -> None:
    folder = write(tmp_path, bronze__yml=SPEC, gold__yml=SPEC, mooring__yml=SITES)
    with pytest.raises(InputError, match=r"bronze\.yml, gold\.yml.*--spec"):
        spec_file_of(folder)
    assert spec_file_of(folder / "gold.yml").name == "gold.yml"


def test_both_names_of_the_one_spec_are_too_many(tmp_path: Path) -> None:
    folder = write(tmp_path, spark_pipeline__yml=SPEC, spark_pipeline__yaml=SPEC)
    with pytest.raises(InputError, match="--spec"):
        spec_file_of(folder)


def test_specs_of_one_folder_have_storage_and_settings_of_their_own(tmp_path: Path) -> None:
    settings = {"mooring__yml": SITES, "gold__mooring__yml": "sites: {there: {capacity: 1}}\n"}
    folder = write(tmp_path, bronze__yml=SPEC, gold__yml=SPEC, spark_pipeline__yml=SPEC, **settings)
    projects = [load_project(folder / name) for name in ("", "bronze.yml", "gold.yml")]
    assert [project.settings.sites[0].name for project in projects] == ["here", "here", "there"]
    assert len({project.settings.storage for project in projects}) == 3
    assert [project.work_folder.name for project in projects] == [
        ".mooring",
        ".mooring-bronze",
        ".mooring-gold",
    ]
    assert work_folder_of(folder / "gold.yml") == projects[2].work_folder


def test_a_folder_without_a_spec_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="found no pipeline spec"):
        spec_file_of(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        spec_file_of(tmp_path / "nowhere")


def test_a_wrong_spec_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path, spark_pipeline__yml="name: x\nstorage: y\nlibrary: []\n", mooring__yml=SITES)
    with pytest.raises(InputError, match=r"spark-pipeline\.yml.*library"):
        load_project(folder)


def test_a_large_file_of_data_beside_the_definitions_is_not_read(tmp_path: Path) -> None:
    spec = "name: x\nstorage: file:///tmp/x\nlibraries: []\n"
    (tmp_path / "gold.yml").write_text(spec)
    (tmp_path / "data.yaml").write_text(spec + "rows: [" + "1, " * 100_000 + "1]\n")
    assert spec_file_of(tmp_path).name == "gold.yml"
