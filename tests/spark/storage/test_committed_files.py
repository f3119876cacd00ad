"""What is told to be committed is what the logs vouch for, whatever else lies there (no Spark needed)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.errors import EngineError
from mooring.spark.storage import ages
from mooring.spark.storage.committed_files import CommittedFiles, committed_files_of, held_files
from mooring.spark.storage.compacted_file import write_merged
from mooring.spark.storage.file_channel import FileChannel
from mooring.spark.storage.owned_folder import unowned
from mooring.spark.storage.retention import ALL, READ, Keep
from tests.spark.storage.merged_table import SMALL, Writer, rows_of


@pytest.fixture(autouse=True, scope="module")
def fine_clock() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ages, "passed", lambda: ("started", time.monotonic()))  # finer than the system's
        yield


def channel_of(spark: Writer, keep: Keep = ALL) -> FileChannel:
    folder = spark.folder
    channel = FileChannel(
        folder.name,
        folder / "channel",
        folder / "link",
        lambda reader: folder / reader,
        unowned(folder),
        keep,
    )
    channel.merges.options = SMALL
    channel.create()
    channel.register("reader")
    if keep.for_good:
        channel.register("results")
    return channel


def committed_files(channels: Iterable[FileChannel]) -> CommittedFiles:
    return committed_files_of({channel.name: channel.committed() for channel in channels})


def rows(found: CommittedFiles) -> list[int]:
    return [row for file in found.files for row in rows_of(file.path)]


def merge(channel: FileChannel) -> None:
    if (plan := channel.merge_plan()) is not None:
        count = write_merged([entry.path for entry in plan.files], plan.hidden)
        channel.adopt(plan, count)


def test_files_of_killed_batches_are_left_out_and_every_flow_is_named(tmp_path: Path) -> None:
    one, other = Writer(tmp_path / "one"), Writer(tmp_path / "other")
    channels = [channel_of(one), channel_of(other)]
    one.append()
    one.append()
    (one.folder / "channel" / "part-00000-killed.snappy.parquet").write_text("rows of no batch")
    found = committed_files(channels)
    assert rows(found) == [0, 1]
    assert found.batches == {"one": 1, "other": -1}
    assert found.stored_bytes == 8


@given(st.lists(st.sampled_from(["append", "read", "trim", "merge", "start_compaction"]), max_size=40))
@settings(max_examples=40, deadline=None)
def test_every_row_is_there_once_whatever_was_merged(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    spark = Writer(tmp_path_factory.mktemp("c"))
    channel = channel_of(spark)
    for step in ["append", *steps]:
        if step == "trim":
            channel.trim()
        elif step == "merge":
            merge(channel)
        else:
            getattr(spark, step)()
        found = committed_files([channel])
        assert rows(found) == list(range(spark.batch + 1))
        assert found.batches == {channel.name: spark.batch}


def test_files_that_are_held_outlive_trimming_and_go_afterwards(tmp_path: Path) -> None:
    spark = Writer(tmp_path / "c")
    channel = channel_of(spark, READ)
    for _ in range(3):
        spark.append()
    with held_files([channel]) as found:
        spark.append()
        spark.read()
        channel.trim()
        assert rows(found) == [0, 1, 2]
    assert channel.trim().items == 4


def test_files_that_are_held_outlive_a_merge_and_its_grace(tmp_path: Path) -> None:
    spark = Writer(tmp_path / "c")
    channel = channel_of(spark)

    def go_on(batches: int) -> None:
        for _ in range(batches):
            spark.append()
            spark.read()
            channel.trim()

    go_on(9)
    with held_files([channel]) as found:
        merge(channel)
        go_on(9)
        assert any(file.merged for file in committed_files([channel]).files)
        assert rows(found) == list(range(9))
    go_on(1)
    assert not all(file.path.exists() for file in found.files)


def test_rows_that_are_too_old_are_no_longer_told_and_a_hold_does_not_keep_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = Writer(tmp_path / "c")
    monkeypatch.setattr(ages, "passed", lambda: ("started", 5.0 * spark.batch))
    channel = channel_of(spark, Keep(for_good=True, age_s=10))
    for _ in range(5):
        spark.append()
        assert channel.trim().items == 0
    spark.read()
    with held_files([channel]) as found:
        assert rows(found) == [3, 4]
        assert channel.trim().items == 3
        assert rows(found) == [3, 4]


def test_a_log_that_lacks_a_batch_is_named_rather_than_read_in_part(tmp_path: Path) -> None:
    spark = Writer(tmp_path / "c")
    channel = channel_of(spark)
    spark.append()
    spark.append()
    (spark.log / "0").unlink()
    with pytest.raises(EngineError, match="has no batch 0"):
        committed_files([channel])
