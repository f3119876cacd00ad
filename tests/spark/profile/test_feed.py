"""Sample rows are replayed for ever with their clocks moved on, and land as Spark's own sink lands them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="the `spark` extra is not installed")

import pyarrow

from mooring.spark.profile.feed import FedChannel, FedFolder, Publish, publish_together, replays, shares_of
from mooring.spark.storage.stream_logs import sink_entries


def sample(rows: int, step_us: int = 1_000_000) -> pyarrow.Table:
    at = pyarrow.array([n * step_us for n in range(rows)], pyarrow.timestamp("us", tz="UTC"))
    return pyarrow.table({"n": list(range(rows)), "at": at})


def test_a_replay_never_ends_and_its_clock_never_goes_back() -> None:
    (replay,) = replays([sample(10)])
    taken = pyarrow.concat_tables([replay.take(n) for n in (3, 25, 7)])
    assert taken["n"].to_pylist() == [n % 10 for n in range(35)]
    assert taken["at"].cast("int64").to_pylist() == [n * 1_000_000 for n in range(35)]


def test_inputs_read_together_stay_in_step() -> None:
    long, short = replays([sample(10), sample(4)])
    long.take(10)
    short.take(4)
    assert long.take(1)["at"].cast("int64").to_pylist() == [10_000_000]
    assert short.take(1)["at"].cast("int64").to_pylist() == [10_000_000]
    assert shares_of([sample(30), sample(10)], 100) == [75, 25]
    assert shares_of([sample(1000), sample(1)], 10) == [10, 1]


def test_rows_out_of_order_and_coarse_or_zoneless_times_are_put_in_order() -> None:
    at = pyarrow.array([3_000_000_000, 1_000_000_000], pyarrow.timestamp("ns"))
    (replay,) = replays([pyarrow.table({"at": at, "n": [3, 1]})])
    assert replay.take(2)["n"].to_pylist() == [1, 3]
    plain = replays([pyarrow.table({"n": [1, 2]})])[0]
    assert plain.take(5)["n"].to_pylist() == [1, 2, 1, 2, 1]


def test_a_fed_channel_looks_like_a_file_sinks(tmp_path: Path) -> None:
    channel = FedChannel(tmp_path / "c")
    for _ in range(23):
        channel.write(sample(5))()
    entries = sink_entries(tmp_path / "c" / "_spark_metadata")
    assert len(entries) == 23
    assert all(entry.path.stat().st_size == entry.size for entry in entries)
    assert (tmp_path / "c" / "_spark_metadata" / "19.compact").exists()


def test_a_fed_folder_has_as_many_files_as_the_source_would_see(tmp_path: Path) -> None:
    few = FedFolder(tmp_path / "a", files=5)
    few.write(sample(45))()
    assert len(list((tmp_path / "a").iterdir())) == 5
    most = FedFolder(tmp_path / "b", "json", files=4)
    most.write(sample(45))()
    files = sorted((tmp_path / "b").iterdir())
    assert len(files) == 4
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert [row["n"] for row in rows] == list(range(45))
    assert rows[1]["at"].startswith("1970-01-01T00:00:01")


def test_nothing_is_shown_before_everything_is_written(tmp_path: Path) -> None:
    """Or a trigger in between would take half a batch, and put the other half down to the next."""
    seen: list[int] = []

    class Watched(FedChannel):
        def write(self, table: pyarrow.Table) -> Publish:
            seen.append(shown())
            return super().write(table)

    folders = [tmp_path / name for name in "abc"]
    channels = [Watched(folder) for folder in folders]

    def shown() -> int:
        return sum(len(sink_entries(folder / "_spark_metadata")) for folder in folders)

    publish_together(channels, [sample(5)] * 3)
    publish_together([FedFolder(tmp_path / "d", files=2)], [sample(4)])
    assert seen == [0, 0, 0]
    assert shown() == 3
    assert sorted(file.name for file in (tmp_path / "d").iterdir()) == ["00000000", "00000001"]
