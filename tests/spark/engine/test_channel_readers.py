"""One damaged channel is one lost channel (no Spark needed)."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import EngineError
from mooring.spark.engine.channel_readers import ChannelReaders
from mooring.spark.storage.file_channel import FileChannel
from mooring.spark.storage.owned_folder import unowned
from mooring.spark.storage.stream_logs import sink_entries
from tests.spark.storage.test_file_channel import FakeSpark, commit


def written(folder: Path) -> FileChannel:
    """A channel with two files, the first of which its reader has committed."""
    folder.mkdir()
    channel = FileChannel(
        folder.name, folder / "channel", folder / "link", lambda reader: folder / reader, unowned(folder)
    )
    channel.create()
    channel.register("reader")
    spark = FakeSpark(folder)
    spark.append()
    spark.append()
    commit(folder / "reader", 0, [[str(sink_entries(spark.log)[0].path)]])
    return channel


def files(channel: FileChannel) -> list[str]:
    return sorted(path.name for path in channel.folder.glob("part-*"))


@pytest.mark.parametrize("damaged", ["channel/_spark_metadata/1", "reader/sources/0/0", "reader/offsets/0"])
def test_an_empty_log_file_of_one_channel_keeps_no_other_from_being_looked_at_and_trimmed(
    tmp_path: Path, damaged: str
) -> None:
    channels = {name: written(tmp_path / name) for name in ("a", "b", "c")}
    layout: Any = SimpleNamespace(channels=channels)
    readers, file = ChannelReaders(layout), tmp_path / "b" / damaged
    content = file.read_bytes()
    file.write_bytes(b"")
    own = damaged.startswith("channel")
    assert readers.lost().keys() == ({"b"} if own else set())  # else it is its reader's
    with pytest.raises(EngineError, match=f"the channel of b: .*{file} is (empty|cut short)") as told:
        readers.trim()
    assert "the channel of a" not in str(told.value)
    assert {name: files(channel) for name, channel in channels.items()} == {
        "a": ["part-1"],
        "b": ["part-0", "part-1"],
        "c": ["part-1"],
    }
    file.write_bytes(content)
    assert readers.lost() == {}
    assert readers.trim() == 4
    assert files(channels["b"]) == ["part-1"]


def test_a_channel_that_cannot_be_looked_at_now_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    channels = {name: written(tmp_path / name) for name in ("a", "b")}

    def stale(*args: object) -> None:
        raise OSError(116, "Stale file handle", str(tmp_path))

    monkeypatch.setattr(channels["a"], "lost", stale)
    monkeypatch.setattr(channels["a"], "_trim", stale)
    layout: Any = SimpleNamespace(channels=channels)
    assert ChannelReaders(layout).lost() == {}
    with pytest.raises(EngineError, match="Stale file handle"):
        ChannelReaders(layout).trim()
    assert files(channels["b"]) == ["part-1"]
