"""The model of Spark's files does what Spark 4 was seen to do (docs/decisions/0012, 0017, 0027)."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from lab.storage_faults.simulated_disk import SimulatedDisk, SimulatedStorage, Stopped, VirtualClock
from lab.storage_faults.spark_model import (
    ChannelSource,
    FileSink,
    MicroBatches,
    OutsideSource,
    SparkFailure,
    SparkOptions,
)
from mooring.spark.storage import stream_logs

_OPTIONS = SparkOptions(compact_interval=3)
_TABLE, _SINK = Path("/table"), Path("/sink")


class Two:
    """A query that writes a table, and one that copies it into a sink."""

    def __init__(self, options: SparkOptions = _OPTIONS) -> None:
        self.disk = SimulatedDisk(SimulatedStorage(VirtualClock()))
        self.options, self.offered = options, list[str]()

    def writer(self) -> MicroBatches:
        sources = [OutsideSource(self.offered, 4)]
        sink = FileSink(self.disk, _TABLE, self.options)
        return MicroBatches(self.disk, Path("/writer"), sources, sink, self.options)

    def reader(self) -> MicroBatches:
        sources = [ChannelSource(self.disk, _TABLE, Path("/reader/sources/0"), self.options)]
        sink = FileSink(self.disk, _SINK, self.options)
        return MicroBatches(self.disk, Path("/reader"), sources, sink, self.options)

    def write(self, writer: MicroBatches, *rows: str) -> None:
        self.offered += rows
        self.disk.storage.clock.sleep(5)
        assert writer.step()

    def delivered(self) -> Sequence[str]:
        return FileSink(self.disk, _SINK, self.options).delivered()


def test_rows_go_through_two_queries_that_are_started_again_now_and_then() -> None:
    two = Two()
    for i in range(25):
        writer = two.writer()
        two.write(writer, f"r{2 * i}", f"r{2 * i + 1}")
        reader = two.reader()
        if i % 4:
            reader.step()
    while reader.step():
        pass
    assert sorted(two.delivered()) == sorted(two.offered)
    log = _TABLE / "_spark_metadata"
    assert "23.compact" in two.disk.list(log)
    assert "2.compact" not in two.disk.list(log), "what was compacted goes after a while"


@pytest.mark.parametrize("at", range(60))
def test_a_query_that_ends_at_any_operation_delivers_its_batch_once(at: int) -> None:
    two = Two()
    two.write(two.writer(), "r0", "r1")
    reader, left = two.reader(), at

    def end(name: str, path: Path) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            two.disk.stop()

    two.disk.before = end
    try:
        reader.step()
    except Stopped:
        two.disk = SimulatedDisk(two.disk.storage)
    two.disk.before = lambda name, path: None
    two.write(two.writer(), "r2")
    reader = two.reader()
    while reader.step():
        pass
    assert sorted(two.delivered()) == ["r0", "r1", "r2"]


def test_a_sink_skips_numbers_that_its_log_has() -> None:
    two = Two()
    two.write(two.writer(), "r0")
    two.reader().step()
    two.disk.delete(Path("/reader"))
    two.write(two.writer(), "r1")
    reader = two.reader()
    while reader.step():
        pass
    assert two.delivered() == ["r0"], "its numbers began with 0 again, and nothing was said"


def test_a_file_that_is_gone_is_left_out_and_a_torn_one_ends_the_query() -> None:
    two = Two()
    for row in ("r0", "r1"):
        two.write(two.writer(), row)
    _, second = (path for path in two.disk.list(_TABLE) if path.startswith("part"))
    two.disk.storage.damage(_TABLE / second, b"PAR1torn")
    reader = two.reader()
    with pytest.raises(SparkFailure, match="not a Parquet file"):
        reader.step()
    two.disk.delete(_TABLE / second)
    two.reader().step()
    assert two.delivered() == ["r0"]


def test_files_that_are_too_much_older_than_the_newest_are_passed_over() -> None:
    two = Two(SparkOptions(compact_interval=3, max_file_age_s=7 * 86400))
    two.disk.storage.clock.step(30 * 86400)
    two.write(two.writer(), "ahead")
    reader = two.reader()
    reader.step()
    two.disk.storage.clock.step(-30 * 86400)
    two.write(two.writer(), "right")
    assert not reader.step()
    assert not two.reader().step()
    assert two.delivered() == ["ahead"]


def test_readers_of_a_pipeline_go_by_no_date() -> None:
    two = Two()
    two.disk.storage.clock.step(30 * 86400)
    two.write(two.writer(), "ahead")
    reader = two.reader()
    reader.step()
    two.disk.storage.clock.step(-30 * 86400)
    two.write(two.writer(), "right")
    assert reader.step()
    assert two.delivered() == ["ahead", "right"]


def test_a_query_whose_source_log_is_gone_ends_and_takes_no_batch_for_empty() -> None:
    two = Two()
    two.write(two.writer(), "r0")
    reader = two.reader()
    looked = reader.sources[0].rows
    assert reader._plan()
    assert reader._planned is not None
    two.disk.move(Path("/reader"), Path("/elsewhere"))
    with pytest.raises(SparkFailure, match="does not exist"):
        looked("-", reader._planned[0])


def test_what_is_not_synced_is_lost_with_the_power() -> None:
    for durable in (True, False):
        kept = 0
        for seed in range(20):
            two = Two(SparkOptions(durable=durable))
            two.write(two.writer(), "r0")
            two.reader().step()
            two.disk.storage.power_cut(seed)
            two.disk = SimulatedDisk(two.disk.storage)
            with contextlib.suppress(SparkFailure, OSError):
                kept += two.delivered() == ["r0"]
        assert (kept == 20) == durable


def test_mooring_reads_the_logs_as_spark_writes_them(tmp_path: Path) -> None:
    two = Two()
    writer = two.writer()
    for i in range(4):
        two.write(writer, f"r{i}")
    two.reader().step()
    for path, content in two.disk.storage.tree("/").items():
        copy = tmp_path / path.lstrip("/")
        if content is None:
            copy.mkdir(parents=True, exist_ok=True)
        else:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
    log = tmp_path / "table" / "_spark_metadata"
    assert stream_logs.last_batch(log) == 3
    assert len(stream_logs.sink_entries(log)) == 4
    assert stream_logs.compact_interval(log) == 3
    assert stream_logs.committed_source_batches(tmp_path / "reader") == [0]
    assert len(stream_logs.source_entries(tmp_path / "reader" / "sources" / "0", 0)) == 3
