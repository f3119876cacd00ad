"""What stands for a view in a catalog names the files of one version, the current one (no Spark)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.spark.storage import stream_logs
from mooring.spark.storage.owned_folder import unowned
from mooring.spark.storage.views.listed_version import ListedVersion
from mooring.spark.storage.views.versions import ReadsOf, ViewVersion, ViewVersions


@pytest.fixture(autouse=True, scope="module")
def no_power_failures() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture
def listed(tmp_path: Path) -> ListedVersion:
    versions = ViewVersions(tmp_path / "views" / "v")
    versions.folder.mkdir(parents=True)
    return ListedVersion(versions, unowned(tmp_path), lambda path: f"file://{path}")


def publish(listed: ListedVersion, *names: str) -> list[Path]:
    """A version with these files, which are returned."""
    folder = listed.versions.next_folder()
    folder.mkdir()
    for name in names:
        (folder / name).write_text("rows")
    version = ViewVersion(folder.name, names, 1, 4, 0.0, 1.0, 5, ReadsOf(), "query")
    listed.versions.publish(version, listed.owned.out)
    return [folder / name for name in names]


def named(listed: ListedVersion) -> list[Path]:
    return [entry.path for entry in stream_logs.sink_entries(listed.folder / "_spark_metadata")]


def test_it_names_one_version_after_the_other_and_nothing_before_the_first(listed: ListedVersion) -> None:
    listed.follow()
    assert named(listed) == []
    assert listed.folder.is_dir(), "so that the table can be read"
    for number in range(4):
        files = publish(listed, "part-0", f"part-{number + 1}")
        assert named(listed) != files, "it follows, and a kill in between leaves the one before"
        listed.follow()
        assert named(listed) == files
    listed.follow()
    left = sorted(path.name for path in (listed.folder / "_spark_metadata").iterdir())
    assert left == ["3.compact", "4.compact"], "nothing to say, nothing written"


def test_a_sweep_leaves_it_alone(listed: ListedVersion) -> None:
    files = publish(listed, "part-0")
    listed.follow()
    listed.versions.sweep(listed.owned.remove, now_s=1e12)
    assert named(listed) == files
    assert all(file.is_file() for file in files)


def test_an_owner_that_was_overtaken_changes_nothing(listed: ListedVersion, tmp_path: Path) -> None:
    before = publish(listed, "part-0")
    listed.follow()
    publish(listed, "part-0")
    listed.owned.folder.rename(tmp_path / "taken")
    with pytest.raises(OSError, match=r"No such file or directory|Not a directory"):
        listed.follow()
    assert named(listed) == before
