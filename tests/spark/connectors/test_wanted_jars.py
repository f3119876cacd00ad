"""Jars of the spec and of `mooring.yml` become one list; what cannot be had is named with file and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.errors import InputError
from mooring.spark.connectors.wanted_jars import WantedJars, wanted_jars


def wanted(
    folder: Path,
    configuration: dict[str, str] | None = None,
    jars: tuple[str, ...] = (),
    packages: tuple[str, ...] = (),
) -> WantedJars:
    spec, settings = folder / "spark-pipeline.yml", folder / "mooring.yml"
    return wanted_jars(
        configuration or {}, jars, packages, folder=folder, spec_file=spec, settings_file=settings
    )


def test_paths_patterns_and_addresses_are_told_apart(tmp_path: Path) -> None:
    for name in ("a.jar", "lib/b.jar", "lib/c.jar"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = wanted(tmp_path, jars=("a.jar", "lib/*.jar", "https://x.org/d.jar", f"file://{tmp_path}/a.jar"))
    assert found.files == tuple(tmp_path / name for name in ("a.jar", "lib/b.jar", "lib/c.jar"))
    assert found.downloads == ("https://x.org/d.jar",)
    assert found.names == ["a.jar", "b.jar", "c.jar", "d.jar"]


def test_the_specs_jars_lie_where_the_command_runs_or_beside_the_spec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, project = tmp_path / "here", tmp_path / "project"
    for folder in (here, project):
        folder.mkdir()
        (folder / "both.jar").touch()
    (project / "own.jar").touch()
    monkeypatch.chdir(here)
    found = wanted(project, {"spark.jars": "both.jar, own.jar"})
    assert found.files == (here / "both.jar", project / "own.jar")


def test_packages_of_both_files_are_joined_with_the_specs_repositories(tmp_path: Path) -> None:
    configuration = {
        "spark.jars.packages": "g:a:1,g:b:2",
        "spark.jars.repositories": "https://repo.example",
        "spark.jars.excludes": "g:c",
    }
    found = wanted(tmp_path, configuration, packages=("g:b:2", "g:d:3"))
    assert found.packages == ("g:b:2", "g:d:3", "g:a:1")
    assert (found.repositories, found.excludes) == (("https://repo.example",), ("g:c",))


def test_a_project_without_jars_wants_none(tmp_path: Path) -> None:
    assert not wanted(tmp_path, {"spark.jars": "", "spark.sql.shuffle.partitions": "2"})


@pytest.mark.parametrize(
    ("configuration", "jars", "packages", "file", "field", "says"),
    [
        ({}, ("gone.jar",), (), "mooring.yml", "jars", "found no jar 'gone.jar'"),
        ({}, ("s3a://b/x.jar",), (), "mooring.yml", "jars", "copy it to this machine"),
        ({}, (), ("kafka",), "mooring.yml", "packages", "expected group:artifact:version"),
        ({"spark.jars": "gone.jar"}, (), (), "spark-pipeline.yml", "configuration.spark.jars", "gone.jar"),
        (
            {"spark.jars.packages": "a:b"},
            *((), (), "spark-pipeline.yml"),
            *("configuration.spark.jars.packages", "group:artifact:version"),
        ),
    ],
)
def test_what_cannot_be_a_jar_is_named_with_its_file_and_field(
    tmp_path: Path,
    configuration: dict[str, str],
    jars: tuple[str, ...],
    packages: tuple[str, ...],
    file: str,
    field: str,
    says: str,
) -> None:
    with pytest.raises(InputError, match=says) as found:
        wanted(tmp_path, configuration, jars, packages)
    assert (found.value.file, found.value.field) == (str(tmp_path / file), field)
