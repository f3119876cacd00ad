"""Looking at a channel reads what is new of its logs, and remembers little of the rest (no Spark needed)."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.spark.storage import channel_positions, followed_log, stream_logs
from mooring.spark.storage.channel_positions import ChannelPositions
from mooring.spark.storage.file_channel import FileChannel
from mooring.spark.storage.retention import ALL
from mooring.spark.storage.stream_logs import LogLine
from tests.spark.storage.test_file_channel import FakeSpark, commit
from tests.spark.storage.test_retention import kept_channel


def look(channel: FileChannel, position: int) -> int:
    """As a run does: where everybody is, what came, and whether anything is lost."""
    channel.state()
    assert channel.lost() is None
    return position + len(channel.appended_since(position))


def test_a_look_reads_every_line_once_whoever_wrote_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = 0

    def counted(content: bytes, file: Path) -> list[LogLine]:
        nonlocal read
        lines = parse(content, file)
        read += len(lines)
        return lines

    parse = stream_logs.parse_lines
    for module in (stream_logs, followed_log):
        monkeypatch.setattr(module, "parse_lines", counted)
    spark, channel = FakeSpark(tmp_path), kept_channel(tmp_path, ALL)
    channel.register("reader")
    position = 0
    for batch in range(60):
        spark.append()
        commit(spark.reader, batch, [[str(channel.folder / f"part-{batch}")]])
        if batch == 1:
            position, read = look(channel, position), 0
        elif batch > 1 and batch % 7 > 2:
            position = look(channel, position)
    assert look(channel, position) == 60
    assert channel.state().committed["reader"] == 60
    assert read == 2 * 58


def test_nothing_is_remembered_by_name_of_what_all_readers_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_positions, "_RECENT", 3)
    spark = FakeSpark(tmp_path)
    positions = ChannelPositions(spark.log, [tmp_path / "channel"], lambda reader: tmp_path / reader)
    for batch in range(40):
        spark.append()
        if batch < 30:
            commit(spark.reader, batch, [[str(tmp_path / "channel" / f"part-{batch}")]])
        positions.refresh(0, (), ["reader", "results"])
    assert (positions.end, positions.committed("reader"), positions.committed("results")) == (40, 30, 0)
    assert positions._names == [f"part-{batch}" for batch in range(30, 40)]
    assert len(positions._recent) == 3
    assert not any(source.ahead or source.planned for source in positions._sources.values())
