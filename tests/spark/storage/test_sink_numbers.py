"""Batch numbers of sinks are remembered where their log cannot tell them, and disagreements are told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import EngineError
from mooring.spark.engine.channel_readers import ChannelReaders
from mooring.spark.storage.owned_folder import unowned
from mooring.spark.storage.sink_numbers import (
    NUMBERS_FILE_NAME,
    GivenUp,
    SinkPlace,
    disagreement,
    last_taken,
    remember,
    remembered,
    sink_place,
)


def numbered(folder: Path, *numbers: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        (folder / str(number)).write_text("v1\n")


def local_sink(folder: Path) -> SinkPlace:
    found = sink_place("s", "parquet", str(folder), folder, remote=False)
    assert found is not None
    return found


def test_the_log_of_a_sink_decides_and_what_cannot_be_read_is_remembered(tmp_path: Path) -> None:
    sink, owned = local_sink(tmp_path / "out"), unowned(tmp_path)
    assert last_taken(tmp_path, sink) == -1
    numbered(tmp_path / "out" / "_spark_metadata", 0, 1, 2)
    remember(tmp_path, [GivenUp("w", sink, 2, 2)], owned)
    assert last_taken(tmp_path, sink) == 2
    assert not (tmp_path / NUMBERS_FILE_NAME).exists()
    away = replace(sink, path="s3a://bucket/out", folder=None)
    with pytest.raises(EngineError, match="was interrupted inside batch 6"):
        remember(tmp_path, [GivenUp("w", away, 6, 5)], owned)
    for planned in (5, 3):
        remember(tmp_path, [GivenUp("w", away, planned, planned)], owned)
    assert last_taken(tmp_path, away) == 5, "never fewer"
    file = tmp_path / NUMBERS_FILE_NAME
    file.write_bytes(file.read_bytes().replace(b"5", b"4", 1))
    with pytest.raises(EngineError, match=r"sinks\.json cannot be read: its checksum is"):
        remembered(tmp_path)


def test_a_log_that_its_writer_has_not_planned_is_ahead(tmp_path: Path) -> None:
    sink, checkpoint = local_sink(tmp_path / "out"), tmp_path / "checkpoint"
    numbered(tmp_path / "out" / "_spark_metadata", 0, 1, 2)
    assert disagreement(sink, "w", checkpoint) is None, "it has not begun, and begins behind it"
    numbered(checkpoint / "offsets", 0, 1)
    ahead = disagreement(sink, "w", checkpoint)
    assert ahead is not None
    assert ahead.what.startswith("the sink 's' has batches up to 2 in ")
    numbered(checkpoint / "offsets", 2)
    assert disagreement(sink, "w", checkpoint) is None


def test_a_log_that_lacks_what_its_writer_has_committed_is_behind(tmp_path: Path) -> None:
    """Spark goes on after it, and says nothing of the rows in between."""
    sink, checkpoint = local_sink(tmp_path / "out"), tmp_path / "checkpoint"
    numbered(checkpoint / "offsets", 0, 1, 2)
    assert disagreement(sink, "w", checkpoint) is None, "nothing was delivered yet"
    numbered(checkpoint / "commits", 0, 1)
    gone = disagreement(sink, "w", checkpoint)
    assert gone is not None
    assert "is missing or empty, and its writer 'w' has committed up to 1" in gone.what
    numbered(tmp_path / "out" / "_spark_metadata", 0)
    behind = disagreement(sink, "w", checkpoint)
    assert behind is not None
    assert "ends at batch 0" in behind.what
    assert "--full-refresh s" in behind.remedy
    numbered(tmp_path / "out" / "_spark_metadata", 1)
    assert disagreement(sink, "w", checkpoint) is None
    assert disagreement(replace(sink, folder=None), "w", checkpoint) is None, "not to be read from here"
    (tmp_path / "local").mkdir()
    elsewhere = replace(sink, folder=tmp_path / "local", remote=True)
    assert disagreement(elsewhere, "w", checkpoint) is None, "the site may have another folder there"


def test_an_update_is_not_up_to_date_whose_sink_stands_elsewhere_than_its_writer(tmp_path: Path) -> None:
    """Spark says nothing of a batch that a sink skips."""
    sink, checkpoint = local_sink(tmp_path / "out"), tmp_path / "checkpoint"
    layout: Any = SimpleNamespace(
        sink_of=lambda fragment: sink,
        checkpoint=lambda fragment: checkpoint,
        reads_of=lambda fragment: (),
        disk=sink.disk,
    )
    numbered(checkpoint / "commits", 0, 1)
    assert ChannelReaders(layout).unread("w") == "", "somebody removed the log"
    numbered(tmp_path / "out" / "_spark_metadata", 0, 1)
    assert ChannelReaders(layout).unread("w") == ""
    numbered(tmp_path / "out" / "_spark_metadata", 2, 3)
    said = ChannelReaders(layout).unread("w")
    assert said.startswith("its batches end at 1, and the log of its sink ")
    assert said.endswith("at 3: the sink may have skipped batches")
