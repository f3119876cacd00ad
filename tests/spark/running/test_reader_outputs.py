"""Before files of a channel go, what was made of them is on disk (no Spark needed)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.disk import RealDisk
from mooring.spark.running.reader_outputs import ReaderOutputs
from mooring.spark.storage.stream_logs import sink_line


class NotingDisk(RealDisk):
    def __init__(self, root: Path) -> None:
        self.root, self.synced = root, list[str]()

    def sync(self, paths: Iterable[Path]) -> None:
        paths = list(paths)
        self.synced += [str(path.relative_to(self.root)) for path in paths if path.is_file()]
        super().sync(paths)


class Reader:
    """That has a checkpoint and writes files with a log."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.disk, self.sync_themselves = folder, NotingDisk(folder), False
        self.log = folder / "out" / "_spark_metadata"
        self.log.mkdir(parents=True)
        (folder / "checkpoint" / "commits").mkdir(parents=True)
        layout: Any = SimpleNamespace(
            disk=self.disk,
            fragments={"reader": None},
            channels={"reader": SimpleNamespace(sink_log=self.log)},
            checkpoint=lambda reader: folder / "checkpoint",
            sink_of=lambda reader: None,
        )
        self.outputs = ReaderOutputs(layout, lambda: self.sync_themselves)

    def batch(self, number: int) -> None:
        (self.folder / "out" / f"part-{number}").write_text("rows")
        line = sink_line(f"file://{self.folder}/out/part-{number}", 4, 0)
        (self.log / str(number)).write_bytes(b"v1\n" + line)
        (self.folder / "checkpoint" / "commits" / str(number)).write_text("v1\n{}")

    def secured(self) -> list[str]:
        self.disk.synced.clear()
        self.outputs.secure("reader")
        return sorted(self.disk.synced)


def test_rows_log_and_checkpoint_are_synced_once(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    reader.batch(0)
    assert reader.secured() == ["checkpoint/commits/0", "out/_spark_metadata/0", "out/part-0"]
    assert reader.secured() == []
    reader.batch(1)
    assert reader.secured() == ["checkpoint/commits/1", "out/_spark_metadata/1", "out/part-1"]


def test_nothing_is_synced_where_sites_do_it_but_what_was_written_before_they_did(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    reader.sync_themselves = True
    reader.batch(0)
    assert reader.secured() == []
    reader.sync_themselves = False
    reader.secured()
    reader.batch(1)
    reader.sync_themselves = True
    assert "out/part-1" in reader.secured()


def test_a_sync_that_fails_is_repeated_and_files_that_were_trimmed_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Reader(tmp_path)
    reader.batch(0)
    reader.batch(1)
    (tmp_path / "out" / "part-0").unlink()

    def fail(paths: Iterable[Path]) -> None:
        if any(path.name == "part-1" for path in list(paths)):
            raise OSError("the disk fails")

    with monkeypatch.context() as patch:
        patch.setattr(reader.disk, "sync", fail)
        with pytest.raises(OSError, match="the disk fails"):
            reader.outputs.secure("reader")
    assert "out/part-1" in reader.secured()


def test_who_reads_from_outside_has_made_nothing_that_could_be_synced(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    reader.batch(0)
    reader.outputs.secure("results of a table")
    assert reader.disk.synced == []
