"""A channel's positions stay right whatever Spark does to its logs meanwhile (no Spark needed)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.disk import RealDisk
from mooring.errors import EngineError
from mooring.spark.storage.file_channel import FileChannel
from mooring.spark.storage.owned_folder import unowned
from mooring.spark.storage.stream_logs import committed_source_batches, sink_entries


class FakeSpark:
    """Writes the logs as Spark does: a file per batch, every third one compacted from all before it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "channel" / "_spark_metadata"
        self.reader = folder / "reader"
        self.epoch = 0
        self.batch = -1
        self.now_ms = 0
        self.read_log = -1
        self.taken: list[str] = []
        self.stale: list[str] | None = None

    def _lines(self, log: Path) -> list[str]:
        files = sorted(log.iterdir(), key=lambda file: int(file.name.split(".")[0]))
        compacts = [file for file in files if file.suffix == ".compact"]
        live = files[files.index(compacts[-1]) :] if compacts else files
        return [line for file in live for line in file.read_text().splitlines()[1:]]

    def start_compaction(self) -> None:
        """Spark has read the log for the compaction that the next batch does, and is slow to write it."""
        if self.batch % 3 != 1:
            return
        self.stale = self._lines(self.log) if self.log.exists() else []

    def append(self) -> None:
        self.batch += 1
        self.log.mkdir(parents=True, exist_ok=True)
        data = self.log.parent / f"part-{self.batch}"
        data.write_text("rows")
        line = json.dumps({"path": f"file://{data}", "size": 4, "modificationTime": self.now_ms})
        if self.batch % 3 == 2:
            lines = self.stale if self.stale is not None else self._lines(self.log)
            self.stale = None
            (self.log / f"{self.batch}.compact").write_text("\n".join(["v1", *lines, line]))
        else:
            (self.log / str(self.batch)).write_text("\n".join(["v1", line]))

    def read(self) -> None:
        """The reader takes in and commits everything the sink's log names and it has not seen."""
        fresh = [str(e.path) for e in sink_entries(self.log) if str(e.path) not in self.taken]
        for path in fresh:
            assert Path(path).exists(), "a reader was told of a file that is gone"
        self.read_log += 1
        for part in ("sources/0", "offsets", "commits"):
            (self.reader / part).mkdir(parents=True, exist_ok=True)
        entries = [json.dumps({"path": p, "timestamp": 0, "batchId": self.read_log}) for p in fresh]
        (self.reader / "sources/0" / str(self.read_log)).write_text("\n".join(["v1", *entries]))
        offsets = "\n".join(["v1", "{}", json.dumps({"logOffset": self.read_log})])
        (self.reader / "offsets" / str(self.read_log)).write_text(offsets)
        (self.reader / "commits" / str(self.read_log)).write_text("v1\n{}")
        self.taken += fresh

    def move_reader(self) -> None:
        """To another epoch, with its logs as they are."""
        if self.reader.exists():
            self.epoch += 1
            self.reader = self.reader.rename(self.folder / f"reader{self.epoch}")


STEPS = ["append", "read", "trim", "start_compaction", "move_reader"]


@given(st.lists(st.sampled_from(STEPS), max_size=40))
@settings(max_examples=60, deadline=None)
def test_no_file_is_lost_told_twice_or_kept_for_ever(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("channel")
    spark = FakeSpark(folder)
    channel = _channel(folder)
    channel.create()
    channel.register("reader")
    for step in steps:
        if step == "trim":
            channel.trim()
        elif step == "read":
            if spark.log.exists():
                spark.read()
        else:
            getattr(spark, step)()
        state = channel.state()
        assert state == _channel(folder).state(), "following the logs told something else than reading them"
        assert state.end == spark.batch + 1
        assert state.committed["reader"] == len(spark.taken)
        kept = {path.name for path in (folder / "channel").glob("part-*")}
        assert {f"part-{n}" for n in range(len(spark.taken), spark.batch + 1)} <= kept
    for _ in range(8):
        spark.append()
        spark.read()
        channel.trim()
    assert spark.taken == [str(folder / "channel" / f"part-{n}") for n in range(spark.batch + 1)]
    assert len(list((folder / "channel").glob("part-*"))) == 0
    assert len(sink_entries(spark.log)) <= 3


def _channel(folder: Path, inputs: int | None = None) -> FileChannel:
    """`inputs`: how many channels every reader reads."""
    return FileChannel(
        "c",
        folder / "channel",
        folder / "link",
        lambda reader: next(folder.glob(f"{reader}*"), folder / reader),
        unowned(folder),
        inputs_of=lambda reader: inputs,
    )


def commit(reader: Path, batch: int, sources: list[list[str] | None]) -> None:
    """Write a reader's logs for one batch, with the files that each of its sources took in; None for one that
    has read nothing so far.
    """
    for number, paths in enumerate(sources):
        if paths is None:
            continue
        (reader / "sources" / str(number)).mkdir(parents=True, exist_ok=True)
        lines = [json.dumps({"path": path, "timestamp": 0, "batchId": batch}) for path in paths]
        (reader / "sources" / str(number) / str(batch)).write_text("\n".join(["v1", *lines]))
    for part in ("offsets", "commits"):
        (reader / part).mkdir(parents=True, exist_ok=True)
    offsets = ["-" if paths is None else json.dumps({"logOffset": batch}) for paths in sources]
    (reader / "offsets" / str(batch)).write_text("\n".join(["v1", "{}", *offsets]))
    (reader / "commits" / str(batch)).write_text("v1\n{}")


def test_a_query_that_reads_a_channel_twice_has_read_what_both_its_sources_have(tmp_path: Path) -> None:
    """What arrives between their listings is in one batch of the one and the next of the other."""
    spark, channel = FakeSpark(tmp_path), _channel(tmp_path)
    channel.create()
    channel.register("reader")
    spark.append()
    spark.append()
    first, second = [str(entry.path) for entry in sink_entries(spark.log)]
    commit(spark.reader, 0, [[first], [first, second]])
    assert channel.state().committed["reader"] == 1
    channel.trim()
    assert not Path(first).exists()
    assert Path(second).exists()
    commit(spark.reader, 1, [[second], []])
    assert channel.state().committed["reader"] == 2


def test_a_side_of_a_self_join_that_has_read_nothing_yet_has_not_read_what_the_other_has(
    tmp_path: Path,
) -> None:
    """The file came between the two listings of the query's first batch."""
    spark, channel = FakeSpark(tmp_path), _channel(tmp_path, inputs=1)
    channel.create()
    channel.register("reader")
    spark.append()
    first = str(sink_entries(spark.log)[0].path)
    commit(spark.reader, 0, [[first], None])
    assert channel.state().committed["reader"] == 0
    assert channel.trim().items == 0
    commit(spark.reader, 1, [[], [first]])
    assert channel.state().committed["reader"] == 1


def test_a_channel_is_trimmed_though_another_one_of_its_reader_has_no_rows_yet(tmp_path: Path) -> None:
    """A reader with as many sources as channels has one for each."""
    spark, channel = FakeSpark(tmp_path), _channel(tmp_path, inputs=2)
    channel.create()
    channel.register("reader")
    spark.append()
    commit(spark.reader, 0, [[str(sink_entries(spark.log)[0].path)], None])
    assert channel.trim().items == 1


def test_a_source_of_another_channel_neither_holds_this_one_back_nor_counts_for_it(tmp_path: Path) -> None:
    spark, channel = FakeSpark(tmp_path), _channel(tmp_path)
    channel.create()
    channel.register("reader")
    for batch in range(4):
        spark.append()
        mine = str(sink_entries(spark.log)[-1].path)
        commit(spark.reader, batch, [[f"/elsewhere/part-{batch}"], [mine]])
        assert channel.state().committed["reader"] == batch + 1
        assert channel.trim().items == 1


def test_a_reader_that_was_put_back_from_a_copy_has_not_read_what_it_had(tmp_path: Path) -> None:
    spark, channel = FakeSpark(tmp_path), _channel(tmp_path)
    channel.create()
    channel.register("reader")
    for batch in range(2):
        spark.append()
        commit(spark.reader, batch, [[str(sink_entries(spark.log)[-1].path)]])
    assert channel.state().committed["reader"] == 2
    (spark.reader / "commits" / "1").unlink()
    assert channel.state().committed["reader"] == 1


def flow_channel(folder: Path) -> FileChannel:
    """One of a flow whose checkpoint, like every other, lies in `checkpoint`."""
    return FileChannel(
        "flow",
        folder / "flow",
        folder / "links" / "flow",
        lambda reader: folder / "checkpoint",
        unowned(folder),
    )


def test_a_batch_begun_but_not_committed_may_be_in_the_sinks_log_and_one_never_begun_may_not(
    tmp_path: Path,
) -> None:
    """The first is what a kill between the sink's commit and the checkpoint's leaves behind."""
    log = flow_channel(tmp_path)
    log.create()
    (tmp_path / "flow" / "_spark_metadata").mkdir()
    assert not log.goes_beyond(-1)
    (tmp_path / "flow" / "_spark_metadata" / "0").write_text("v1")
    assert not log.goes_beyond(0)
    assert log.goes_beyond(-1)


def test_a_log_behind_its_writers_checkpoint_is_lost_and_one_put_back_is_not(tmp_path: Path) -> None:
    log = flow_channel(tmp_path)
    log.create()
    assert log.lost() is None
    for folder in ("flow/_spark_metadata", "checkpoint/commits"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "flow" / "_spark_metadata" / "0").write_text("v1")
    (tmp_path / "checkpoint" / "commits" / "0").write_text("v1")
    assert log.lost() is None
    (tmp_path / "flow").rename(tmp_path / "away")
    assert "is missing" in str(log.lost())
    (tmp_path / "flow" / "_spark_metadata").mkdir(parents=True)
    assert "ends at batch -1" in str(log.lost())
    (tmp_path / "flow" / "_spark_metadata").rmdir()
    (tmp_path / "flow").rmdir()
    (tmp_path / "away").rename(tmp_path / "flow")
    assert log.lost() is None


def test_a_log_with_a_hole_or_behind_another_link_is_lost(tmp_path: Path) -> None:
    """What a writer leaves that made its folder again and went on, or that wrote past the link."""
    log = flow_channel(tmp_path)
    log.create()
    for folder in ("flow/_spark_metadata", "checkpoint/commits"):
        (tmp_path / folder).mkdir(parents=True)
    for number in ("7", "9.compact", "10", "11"):
        (tmp_path / "flow" / "_spark_metadata" / number).write_text("v1")
    (tmp_path / "checkpoint" / "commits" / "11").write_text("v1")
    assert log.lost() is None
    (tmp_path / "flow" / "_spark_metadata" / "10").unlink()
    assert "has no batch 10" in str(log.lost())
    (tmp_path / "flow" / "_spark_metadata" / "10").write_text("v1")
    (tmp_path / "links" / "flow").unlink()
    assert "is no link" in str(log.lost())
    log.create()
    assert log.lost() is None


def test_a_storage_that_was_moved_or_copied_is_told_from_one_that_lacks_files(tmp_path: Path) -> None:
    """Its logs name files where it was written: gone by now, or those of the storage it is a copy of."""
    log, before = flow_channel(tmp_path), tmp_path / "before" / "links" / "flow" / "part-0"
    log.create()
    for folder in (tmp_path / "flow" / "_spark_metadata", tmp_path / "checkpoint" / "commits", before.parent):
        folder.mkdir(parents=True)
    entry = json.dumps({"path": before.as_uri(), "size": 1})
    (tmp_path / "flow" / "_spark_metadata" / "0").write_text(f"v1\n{entry}")
    (tmp_path / "checkpoint" / "commits" / "0").write_text("v1")
    for there in (False, True):
        if there:
            before.touch()
        assert f"its log names {before}, which is no file of {tmp_path / 'flow'}" in str(log.lost())


def test_files_named_without_the_link_are_refused_with_a_way_out(tmp_path: Path) -> None:
    """Spark would refuse them later and say less."""
    log = flow_channel(tmp_path)
    (tmp_path / "flow" / "_spark_metadata").mkdir(parents=True)
    entry = json.dumps({"path": (tmp_path / "flow" / "part-0").as_uri(), "size": 1})
    (tmp_path / "flow" / "_spark_metadata" / "0").write_text(f"v1\n{entry}")
    with pytest.raises(EngineError, match="--fresh"):
        log.create()


@pytest.mark.parametrize("named", ["/outside/precious", "channel/../precious", "channel/_spark_metadata"])
def test_nothing_outside_the_channel_is_deleted_whatever_its_log_says(tmp_path: Path, named: str) -> None:
    spark = FakeSpark(tmp_path)
    channel = FileChannel(
        "f", tmp_path / "channel", tmp_path / "channel", lambda reader: spark.reader, unowned(tmp_path)
    )
    channel._note_file.write_text(
        json.dumps({"start": 0, "trimming": [], "doubtful": {}, "readers": {"reader": 0}})
    )
    precious = tmp_path / "precious"
    precious.write_text("not a channel's")
    spark.append()
    (spark.log / "0").write_text(
        "\n".join(["v1", json.dumps({"path": f"file://{tmp_path / named}", "size": 4})])
    )
    for part in ("sources/0", "offsets", "commits"):
        (spark.reader / part).mkdir(parents=True, exist_ok=True)
    line = json.dumps({"path": f"file://{tmp_path / named}", "timestamp": 0, "batchId": 0})
    (spark.reader / "sources/0" / "0").write_text("\n".join(["v1", line]))
    (spark.reader / "offsets" / "0").write_text("\n".join(["v1", "{}", json.dumps({"logOffset": 0})]))
    (spark.reader / "commits" / "0").write_text("v1\n{}")
    with pytest.raises(EngineError, match="is no file of"):
        channel.trim()
    assert precious.exists()
    assert spark.log.is_dir()


@pytest.mark.parametrize("diverted", ["link", "folder"])
def test_nothing_is_deleted_where_a_diverted_link_leads(tmp_path: Path, diverted: str) -> None:
    """Who can write into the storage cannot have Mooring delete what only Mooring may."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "part-0").touch()
    channel = flow_channel(tmp_path)
    channel.create()
    note = {"start": 1, "trimming": [str(channel.link / "part-0")], "doubtful": {}, "readers": {}}
    channel._note_file.write_text(json.dumps(note))
    if diverted == "link":
        channel.link.unlink()
        channel.link.symlink_to(precious)
    else:
        channel.folder.rmdir()
        channel.folder.symlink_to(precious)
    with pytest.raises(EngineError, match="is no file of"):
        channel.trim()
    assert (precious / "part-0").exists()


def test_a_torn_note_is_named(tmp_path: Path) -> None:
    channel = flow_channel(tmp_path)
    channel.create()
    whole = channel._note_file.read_bytes()
    channel._note_file.write_text('{"start": 0, "trimm')
    with pytest.raises(EngineError, match="cannot be read"):
        channel.state()
    channel._note_file.write_bytes(whole.replace(b'"start": 0', b'"start": 1'))
    with pytest.raises(EngineError, match="cannot be read: its checksum is"):
        channel.readers()


def test_a_folder_that_a_note_tells_of_is_never_made_again(tmp_path: Path) -> None:
    channel = flow_channel(tmp_path)
    channel.create()
    assert channel.lost() is None
    channel.folder.rmdir()
    channel.create()
    assert not channel.folder.exists()
    assert "is missing" in str(channel.lost())


def test_rows_without_the_note_of_who_needs_them_are_refused(tmp_path: Path) -> None:
    channel = flow_channel(tmp_path)
    channel.create()
    channel.sink_log.mkdir()
    (channel.sink_log / "0").write_text("v1")
    channel._note_file.unlink()
    with pytest.raises(EngineError, match="its list of readers"):
        channel.create()


@pytest.mark.parametrize("content", ["", "v2\n", "v1\nnot json", 'v1\n{"size": 3}', "v1\n[]"])
def test_a_log_file_that_spark_did_not_write_so_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "0").write_text(content)
    with pytest.raises(EngineError, match=str(tmp_path / "0")):
        sink_entries(tmp_path)


def test_sources_that_keep_no_log_of_files_stand_beside_those_that_do(tmp_path: Path) -> None:
    """A fragment may read a channel and a `rate` source, whose offset is a bare number."""
    for part in ("offsets", "commits"):
        (tmp_path / part).mkdir()
    lines = ["v1", "{}", '{"logOffset": 7}', "42", "-", "not json", '{"other": 1}']
    (tmp_path / "offsets" / "3").write_text("\n".join(lines))
    (tmp_path / "commits" / "3").write_text("v1\n{}")
    assert committed_source_batches(tmp_path) == [7, None, -1, None, None]


class NotingDisk(RealDisk):
    def __init__(self) -> None:
        self.unsynced: list[str] = []

    def replace(self, path: Path, data: bytes, *, durable: bool = True, **more: Any) -> None:
        if not durable:
            self.unsynced.append(path.name)
        super().replace(path, data, durable=durable, **more)


def test_logs_that_trimming_writes_anew_are_on_disk_before_they_have_their_names(tmp_path: Path) -> None:
    """A power cut would leave them empty, and the channel lost with all that it still holds."""
    disk, spark = NotingDisk(), FakeSpark(tmp_path)
    owned, link = unowned(tmp_path, disk), tmp_path / "link"
    channel = FileChannel("c", tmp_path / "channel", link, lambda reader: spark.reader, owned)
    channel.create()
    channel.register("reader")
    for _ in range(3):
        spark.append()
        spark.read()
    assert channel.trim().items == 3
    assert sink_entries(spark.log) == []
    assert disk.unsynced == []
