"""A followed log tells what a whole reading would, whatever is done to it, and reads every line once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.atomic_files import write_whole
from mooring.errors import EngineError
from mooring.spark.storage import followed_log, stream_logs
from mooring.spark.storage.followed_log import FollowedLog
from mooring.spark.storage.stream_logs import LogLine, drop_entries, live_files, sink_entries

EVERY = 4
"""Batches from one compacted file to the next."""


class Log:
    """Written as Spark writes it, and tampered with as it never does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "_spark_metadata"
        self.folder.mkdir(parents=True)
        self.copy = folder / "copy"
        self.files = 0

    @property
    def newest(self) -> int:
        return stream_logs.last_batch(self.folder)

    def append(self, files: int = 1) -> None:
        batch = self.newest + 1
        lines = [self._line() for _ in range(files)]
        compact = (batch + 1) % EVERY == 0
        old = [line for _, file in live_files(self.folder) for line in file.read_text().split("\n")[1:]]
        name = f"{batch}.compact" if compact else str(batch)
        (self.folder / name).write_text("\n".join(["v1", *(old if compact else ()), *lines]))

    def append_two(self) -> None:
        self.append(2)

    def append_nothing(self) -> None:
        self.append(0)

    def retire(self) -> None:
        """Spark removes files that a compacted one repeats, after a while."""
        live = {file for _, file in live_files(self.folder)}
        for file in self.folder.iterdir():
            if file not in live:
                file.unlink()

    def shorten(self) -> None:
        drop_entries(self.folder, [entry.path for entry in sink_entries(self.folder)[:2]], write_whole)

    def go_back(self) -> None:
        for _, file in live_files(self.folder)[-1:]:
            file.unlink()

    def copy_away(self) -> None:
        shutil.rmtree(self.copy, ignore_errors=True)
        shutil.copytree(self.folder, self.copy)

    def put_back(self) -> None:
        if self.copy.exists():
            shutil.rmtree(self.folder)
            shutil.copytree(self.copy, self.folder)

    def _line(self) -> str:
        self.files += 1
        return json.dumps({"path": f"file:///channel/part-{self.files}", "size": self.files})


STEPS = ("append", "append_two", "append_nothing", "retire", "shorten", "go_back", "copy_away", "put_back")


@given(st.lists(st.sampled_from(("look", *STEPS)), max_size=40))
@settings(max_examples=60, deadline=None)
def test_what_was_told_is_what_a_whole_reading_finds(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    log = Log(tmp_path_factory.mktemp("log"))
    followed, told = FollowedLog(log.folder), list[LogLine]()
    for step in (*steps, "look", "append", "look"):
        if step != "look":
            getattr(log, step)()
            continue
        news = followed.news()
        told = [*([] if news.anew else told), *news.lines]
        assert [line.path for line in told] == [f"file://{entry.path}" for entry in sink_entries(log.folder)]


def test_every_line_is_read_once_however_often_spark_repeats_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = 0

    def counted(content: bytes, file: Path) -> list[LogLine]:
        nonlocal read
        lines = stream_logs.parse_lines(content, file)
        read += len(lines)
        return lines

    monkeypatch.setattr(followed_log, "parse_lines", counted)
    log = Log(tmp_path)
    log.append()
    followed = FollowedLog(log.folder)
    assert followed.news().anew
    for batch in range(100):
        log.append(1 + batch % 3)
        if batch % 7 > 2:  # also when several batches, a compacted one among them, came since the last look
            assert not followed.news().anew
    followed.news()
    assert read == log.files


def test_lines_read_before_a_damaged_file_are_told_once_it_is_mended(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.append()
    followed = FollowedLog(log.folder)
    followed.news()
    log.append()
    (log.folder / "2").write_text("v1\nnonsense")
    with pytest.raises(EngineError, match="names no file"):
        followed.news()
    (log.folder / "2").unlink()
    log.append()
    assert len(followed.news().lines) == 3


def test_a_file_changed_in_place_is_noticed(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.append()
    log.append()
    followed = FollowedLog(log.folder)
    followed.news()
    (log.folder / "0").write_text("")
    with pytest.raises(EngineError, match="is empty"):
        followed.news()
