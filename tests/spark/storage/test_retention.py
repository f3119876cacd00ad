"""One key says how long a table's rows are stored, and no reader loses any by it (no Spark needed)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import InputError
from mooring.spark.storage import ages
from mooring.spark.storage.file_channel import FileChannel
from mooring.spark.storage.owned_folder import unowned
from mooring.spark.storage.retention import ALL, READ, Keep, read_keep, results_reader
from mooring.spark.storage.stream_logs import sink_entries
from tests.spark.storage.test_file_channel import FakeSpark

HOUR_S = 3600
NOW_S = 1_700_000_000


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("all", ALL),
        ("read", READ),
        ("90s", Keep(for_good=True, age_s=90)),
        ("30m", Keep(for_good=True, age_s=1800)),
        ("12h", Keep(for_good=True, age_s=43200)),
        ("7d", Keep(for_good=True, age_s=604800)),
        ("2w", Keep(for_good=True, age_s=1209600)),
    ],
)
def test_what_may_be_said(said: str, meant: Keep) -> None:
    assert read_keep(said, "tables.x.keep") == meant


@pytest.mark.parametrize("said", ["7 days", "0d", "-1d", "1.5h", "d", "", 7, None, True, "9" * 30 + "d"])
def test_what_may_not_be_said_is_named_with_what_may(said: object) -> None:
    with pytest.raises(InputError, match="expected all, read, or a duration") as refused:
        read_keep(said, "tables.x.keep")
    assert refused.value.field == "tables.x.keep"


def test_a_word_that_is_nearly_right_comes_with_the_right_one() -> None:
    with pytest.raises(InputError) as refused:
        read_keep("reed", "tables.x.keep")
    assert refused.value.remedy == "did you mean read?"


def kept_channel(folder: Path, keep: Keep) -> FileChannel:
    results = results_reader("c")
    channel = FileChannel(
        "c",
        folder / "channel",
        folder / "link",
        lambda reader: folder / reader,
        unowned(folder),
        keep,
        results,
    )
    channel.create()
    channel.register(results)
    return channel


@dataclass
class Machine:
    """Whose clock can be set, and which can be started anew."""

    up_s: float = 0.0
    starts: int = 0
    ahead_s: float = 0.0

    def passed(self) -> tuple[str, float]:
        return f"start {self.starts}", self.up_s


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(ages, "passed", made.passed)
    return made


def hours(machine: Machine, spark: FakeSpark, channel: FileChannel, *since: float) -> int:
    """Append a file at each of these hours, and trim; how many went."""
    gone = 0
    for hour in since:
        machine.up_s = hour * HOUR_S
        spark.now_ms = round((NOW_S + hour * HOUR_S + machine.ahead_s) * 1000)
        spark.append()
        gone += channel.trim().items
    return gone


def test_rows_go_with_their_age_by_the_newest_file_and_that_is_counted(
    tmp_path: Path, machine: Machine
) -> None:
    spark, channel = FakeSpark(tmp_path), kept_channel(tmp_path, read_keep("12h", ""))
    assert hours(machine, spark, channel, 0, 1, 2) == 0
    assert hours(machine, spark, channel, 13.5) == 2
    state = channel.state()
    assert (state.start, state.end, state.aged_items, state.aged_bytes) == (2, 4, 2, 8)
    assert [entry.path.name for entry in sink_entries(spark.log)] == ["part-2", "part-3"]
    assert not (channel.folder / "part-1").exists()
    machine.up_s = 1000 * HOUR_S
    assert channel.trim().items == 0, "a table that gets no rows keeps the ones it has"


DECADE_S = 3653 * 24 * HOUR_S


@pytest.mark.parametrize("ahead_s", [DECADE_S, -DECADE_S])
def test_no_rows_go_because_a_clock_jumped(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch, ahead_s: float
) -> None:
    """For one batch: of who writes, and of who trims."""
    real_s = time.time
    monkeypatch.setattr(time, "time", lambda: real_s() + machine.ahead_s)
    spark, channel = FakeSpark(tmp_path), kept_channel(tmp_path, read_keep("7d", ""))
    assert hours(machine, spark, channel, *range(48)) == 0
    machine.ahead_s = ahead_s
    assert hours(machine, spark, channel, 48) == 0
    assert len(channel.committed().entries) == 49
    machine.ahead_s = 0
    assert hours(machine, spark, channel, 49) == 0
    assert hours(machine, spark, channel, 7 * 24 + 4) == 5, "and they go when they are due"


def test_time_in_which_the_machine_was_off_is_not_counted(tmp_path: Path, machine: Machine) -> None:
    """Nobody can tell it from a clock that was set."""
    spark, channel = FakeSpark(tmp_path), kept_channel(tmp_path, read_keep("12h", ""))
    hours(machine, spark, channel, 0, 6)
    machine.starts, machine.ahead_s = 1, DECADE_S
    channel = kept_channel(tmp_path, read_keep("12h", ""))
    assert hours(machine, spark, channel, 0, 5.5) == 0
    assert hours(machine, spark, channel, 6.5, 13) == 2


def test_what_is_remembered_of_ages_is_little(tmp_path: Path, machine: Machine) -> None:
    spark, channel = FakeSpark(tmp_path), kept_channel(tmp_path, read_keep("12h", ""))
    hours(machine, spark, channel, *(0.05 * number for number in range(400)))
    assert len(channel._note()["seen"]["ends"]) < 110


def test_age_never_passes_a_reader(tmp_path: Path, machine: Machine) -> None:
    spark, channel = FakeSpark(tmp_path), kept_channel(tmp_path, read_keep("12h", ""))
    channel.register("reader")
    hours(machine, spark, channel, 0)
    spark.read()
    assert hours(machine, spark, channel, 1, 50) == 1
    spark.read()
    assert channel.trim().items == 1
    assert channel.state().start == 2


@pytest.mark.parametrize(("keep", "left"), [(ALL, 3), (READ, 0)])
def test_all_keeps_what_was_read_and_read_does_not(
    tmp_path: Path, machine: Machine, keep: Keep, left: int
) -> None:
    spark = FakeSpark(tmp_path)
    channel = kept_channel(tmp_path, keep)
    if not keep.for_good:
        channel.forget(results_reader("c"))
    channel.register("reader")
    hours(machine, spark, channel, 0, 1, 500)
    spark.read()
    channel.trim()
    assert channel.state().end - channel.state().start == left
