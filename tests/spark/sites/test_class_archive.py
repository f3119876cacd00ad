"""A class archive is kept per Java and place of Spark, in the user's cache or where MOORING_CACHE says."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.spark.connectors.fetched_jars import jars_folder
from mooring.spark.sites import class_archive
from mooring.spark.sites.class_archive import archive_path, usable_archive
from mooring.spark.sites.java import Java
from mooring.spark.sites.user_cache import kept_folder

JAVA = Java(Path("/opt/java/bin/java"), 17, "test")


@pytest.fixture(autouse=True)
def of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOORING_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_what_is_kept_lies_in_the_users_cache_or_where_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kept_folder() == tmp_path / "mooring"
    monkeypatch.setenv("MOORING_CACHE", str(tmp_path / "elsewhere"))
    assert archive_path(JAVA).parent == jars_folder().parent == tmp_path / "elsewhere"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOORING_CACHE", "here")
    assert kept_folder() == tmp_path / "here", "sites start in another folder"


def test_an_archive_is_used_once_it_is_there(tmp_path: Path) -> None:
    assert usable_archive(JAVA) is None
    archive_path(JAVA).parent.mkdir()
    archive_path(JAVA).touch()
    assert usable_archive(JAVA) is None, "a power cut leaves files empty"
    archive_path(JAVA).write_text("classes")
    assert usable_archive(JAVA) == archive_path(JAVA)


def test_every_java_and_every_place_of_spark_has_an_archive_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java passes over an archive of jars that lay elsewhere, and would do so for ever."""
    here = {archive_path(JAVA), archive_path(Java(Path("/usr/bin/other"), 17, "test"))}
    monkeypatch.setattr(class_archive, "spark_home", lambda: tmp_path)
    assert len(here | {archive_path(JAVA)}) == 3
