"""The versions of materialized views are looked at, and what is missing or left over is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.doctor.diagnosis import Diagnosis
from mooring.doctor.examination import examine
from mooring.spark.storage.owned_folder import OwnedFolder
from mooring.spark.storage.views.version_channel import VersionChannel
from mooring.spark.storage.views.versions import ReadsOf, ViewVersion, ViewVersions

if TYPE_CHECKING:
    from tests.doctor.conftest import StoredProject


def written(stored: StoredProject) -> ViewVersions:
    versions = ViewVersions(stored.root / "views" / "v")
    folder = versions.next_folder()
    folder.mkdir(parents=True)
    (folder / "part-0.json").write_text("\n\n\n\n\n\n\n")
    version = ViewVersion(folder.name, ("part-0.json",), 7, 7, 0.0, 1.0, 5, ReadsOf(), "what it does")
    versions.publish(version, stored.owned)
    return versions


def found(stored: StoredProject) -> list[Diagnosis]:
    return [finding for finding in examine(stored.folder).findings if finding.part == "view"]


def test_a_version_that_is_there_is_sound(stored: StoredProject) -> None:
    written(stored)
    (seen,) = found(stored)
    assert (seen.name, seen.state) == ("v", "sound")
    assert "version 1 with 7 rows in 1 files" in seen.what


def test_a_file_that_is_missing_is_lost(stored: StoredProject) -> None:
    versions = written(stored)
    versions.files()[0].unlink()
    (seen,) = found(stored)
    assert seen.state == "lost"
    assert "part-0" in seen.what


def test_a_file_of_another_size_or_with_other_rows_is_lost(stored: StoredProject) -> None:
    (file,) = written(stored).files()
    for content, said in (
        ("\n\n", "2 bytes, the pointer says 7"),
        ("-\n-\n-\n-", "3 rows, the pointer says 7"),
    ):
        file.write_text(content)
        (seen,) = found(stored)
        assert seen.state == "lost"
        assert said in seen.what


def test_a_damaged_pointer_is_lost_and_a_refresh_that_was_given_up_pending(stored: StoredProject) -> None:
    versions = written(stored)
    (versions.folder / "000002-0a0b0c0d").mkdir()
    assert [each.state for each in found(stored)] == ["sound", "pending"]
    versions.pointer.write_text("{")
    (seen,) = found(stored)
    assert seen.state == "lost"
    assert "computed again" in str(seen.remedy)


def test_what_readers_of_a_view_as_a_stream_still_need_is_a_channel_that_is_sound(
    stored: StoredProject,
) -> None:
    """Though its log counts refreshes, of which the checkpoint of its writer knows nothing."""
    folder, link = stored.root / "channels" / "v" / "v", stored.root / "links" / "v"
    owned, versions = OwnedFolder(stored.owned), written(stored)
    channel = VersionChannel(
        "v", folder, link, stored.checkpoints, owned, versions, lambda path: f"file://{path}"
    )
    channel.create()
    channel.register("late")
    (seen,) = [each for each in examine(stored.folder).findings if (each.part, each.name) == ("channel", "v")]
    assert (seen.state, "1 files" in seen.what) == ("sound", True), seen
    (channel.folder / channel.committed().entries[0].path.name).unlink()
    (seen,) = [each for each in examine(stored.folder).findings if (each.part, each.name) == ("channel", "v")]
    assert seen.state == "lost"
