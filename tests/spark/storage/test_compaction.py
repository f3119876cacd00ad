"""Merging small files shows every reader each row once, whatever comes between (no Spark needed)."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

import pyarrow
import pyarrow.parquet
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.errors import EngineError
from mooring.spark.storage import ages
from mooring.spark.storage.compacted_name import read_name
from mooring.spark.storage.compaction import Merges
from mooring.spark.storage.owned_folder import unowned
from mooring.spark.storage.retention import Keep
from mooring.spark.storage.stream_logs import live_files, read_lines, sink_entries
from tests.spark.storage.merged_table import JUMPS_MS, SMALL, Table

STEPS = [
    *("append", "append", "append", "start_compaction", "trim", "merge", "merge", "reopen", "clock_jumps"),
    *(
        "early_joins",
        "early_reads",
        "early_reads",
        "early_restarts",
        "late_joins",
        "late_reads",
        "late_restarts",
    ),
]


@given(st.lists(st.sampled_from(STEPS), max_size=50))
@settings(max_examples=20, deadline=None)
def test_every_reader_gets_every_row_once_and_a_batch_finds_them_all(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    table = Table(tmp_path_factory.mktemp("table"))
    for step in steps:
        getattr(table, step)()
        table.check()
    table.late_joins()
    for _ in range(4):
        table.go_on(5)
        table.late_restarts()
    table.check_over()


def test_no_clock_has_a_reader_leave_out_what_is_written_after_it_was_wrong(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.join("early")
    for _ in JUMPS_MS:
        table.append()
        table.early_reads()
        table.clock_jumps()
        table.append()
        table.early_restarts()
        table.early_reads()
    assert sorted(table.readers["early"].rows) == list(range(2 * len(JUMPS_MS)))


@given(st.lists(st.sampled_from([step for step in STEPS if "late" not in step]), max_size=50))
@settings(max_examples=10, deadline=None)
def test_a_compaction_from_before_the_swap_brings_back_the_old_files_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    """As with a listing that is stale: the swap comes while Spark compacts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Merges, "_no_compaction_is_near", lambda self, compacted: True)
        table = Table(tmp_path_factory.mktemp("table"))
        table.early_joins()
        for step in ["append"] * 7 + ["early_reads", "early_reads", "start_compaction", "merge", *steps]:
            getattr(table, step)()
            table.check()
        table.go_on()
        table.check_over()


def test_files_and_entries_grow_with_rows_and_not_with_batches(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.channel.merges.options = replace(SMALL, fan=8, most_files=8)
    table.join("early")
    table.go_on(120)
    table.check_over()
    assert any(entry.items == 64 for entry in sink_entries(table.writer.log))
    assert len(sink_entries(table.writer.log)) < 35
    assert len(list(table.channel.folder.glob("*"))) < 50
    assert len([line for _, file in live_files(table.readers["early"].log) for line in read_lines(file)]) < 35


class Killed(BaseException):
    """As by kill -9."""


@contextmanager
def killed_at(number: int, *, afterwards: bool) -> Iterator[None]:
    """The process ends before or after its `number`th change of a name, and changes nothing any more."""
    done = 0

    def deadly(real: Any) -> Any:
        def change(*args: Any, **named: Any) -> Any:
            nonlocal done
            done += 1
            if done > number or (done == number and not afterwards):
                raise Killed
            result = real(*args, **named)
            if done == number:
                raise Killed
            return result

        return change

    with pytest.MonkeyPatch.context() as patch:
        for name in ("replace", "rename", "unlink"):
            patch.setattr(os, name, deadly(getattr(os, name)))
        yield


@pytest.mark.parametrize("afterwards", [False, True])
def test_a_merge_can_be_killed_at_any_point(tmp_path: Path, afterwards: bool) -> None:
    """At each change of a file's name, from planning the merge to the last of its files deleted."""
    number, unharmed = 0, False
    while not unharmed:
        number += 1
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
        table = Table(tmp_path)
        table.join("early")
        for _ in range(6):
            table.append()
            table.readers["early"].read()
        try:
            for _ in range(6):
                table.append()
                table.readers["early"].read()
                with killed_at(number, afterwards=afterwards):
                    table.merge()
                    table.trim()
            unharmed = True
        except Killed:
            table.check()
            table.reopen()
            table.check()
            table.early_restarts()
        table.late_joins()
        table.go_on(6)
        table.check_over()
        assert not list(table.channel.folder.glob(".*")), "hidden files were left"
    assert number > 5


def test_what_is_kept_for_a_while_goes_with_its_age_though_it_was_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ages, "LATE", 0.4)  # else something would be trimmed after every batch
    table = Table(tmp_path, Keep(for_good=True, age_s=100))
    monkeypatch.setattr(ages, "passed", lambda: ("started", 5.0 * table.writer.batch))
    table.channel.merges.options, merged = replace(SMALL, span=0.2), 0
    for _ in range(60):
        table.append()
        table.merge()
        table.trim()
        rows = table.visible()
        assert rows == list(range(rows[0], table.writer.batch + 1))
        assert min(table.writer.batch + 1, 20) <= len(rows) < 40
        merged += any(read_name(entry.path.name) for entry in sink_entries(table.writer.log))
    assert merged > 20
    assert table.channel.state().aged_items == rows[0] == table.channel.state().start


def test_a_reader_that_takes_over_anothers_progress_stands_where_that_one_did(tmp_path: Path) -> None:
    """As a fragment does that was cut off another; its log names no file that was merged before."""
    table = Table(tmp_path)
    table.join("early")
    table.go_on(20)
    assert read_name(sink_entries(table.writer.log)[0].path.name) is not None
    shutil.copytree(tmp_path / "early", tmp_path / "heir")
    table.channel.register("heir")
    assert table.channel.state().committed["heir"] == 20


def test_a_table_whose_columns_changed_is_merged_before_and_after_the_change(tmp_path: Path) -> None:
    table = Table(tmp_path)
    for batch in range(24):
        table.append()
        if batch < 12:
            part = table.channel.folder / f"part-{batch}"
            pyarrow.parquet.write_table(pyarrow.table({"row": [batch], "more": [0]}), part)
        table.merge()
        table.trim()
        table.check()
    for _ in range(36):
        table.append()
        table.merge()
        table.trim()
    table.check()
    spans = [read_name(entry.path.name) for entry in sink_entries(table.writer.log)]
    assert not any(span.first < 12 < span.end for span in spans if span is not None)
    assert sum(span is not None for span in spans) > 2
    assert len(spans) < 40


def test_no_file_outside_the_channel_is_merged_whatever_its_log_says(tmp_path: Path) -> None:
    table = Table(tmp_path)
    for _ in range(9):
        table.append()
    foreign = tmp_path / "foreign"
    pyarrow.parquet.write_table(pyarrow.table({"row": [7]}), foreign)
    compact = live_files(table.writer.log)[0][1]
    compact.write_text(compact.read_text().replace(f"{table.channel.folder}/part-1", str(foreign)))
    with pytest.raises(EngineError, match="is no file of"):
        table.merge()


def test_nothing_is_merged_before_a_new_reader_has_seen_files_as_they_were_written(tmp_path: Path) -> None:
    """Its newest file is one of 1970 until then, and a merged one would be as new to it as any."""
    table = Table(tmp_path)
    table.go_on(40)
    table.join("late")
    table.late_reads()
    before = sink_entries(table.writer.log)
    assert read_name(before[0].path.name) is not None
    for _ in range(3):
        table.append()
        table.merge()
        table.trim()
    assert sink_entries(table.writer.log)[: len(before)] == before


def test_tables_that_are_not_kept_or_not_to_be_merged_stay_as_they_are(tmp_path: Path) -> None:
    table = Table(tmp_path, Keep(for_good=True, merge=False))
    table.go_on(20)
    assert table.channel.merge_plan() is None
    assert len(sink_entries(table.writer.log)) == 20


def test_a_log_that_names_half_of_what_was_merged_is_named(tmp_path: Path) -> None:
    table = Table(tmp_path)
    for _ in range(9):
        table.append()
    table.merge()
    compact = live_files(table.writer.log)[0][1]
    lines = compact.read_text().split("\n")
    merged = table.channel._note()["merges"][0]
    listed = json.loads((unowned(tmp_path).merge_lists("channel") / f"{merged['id']}.json").read_text())
    half = json.dumps({"path": f"file://{listed['files'][0]}", "size": 4})
    compact.write_text("\n".join([*lines, half]))
    with pytest.raises(EngineError, match="names some of the files"):
        table.trim()


@pytest.mark.parametrize("name", ["hidden", "into"])
def test_nothing_outside_the_table_is_removed_or_moved_whatever_a_list_of_a_merge_says(
    tmp_path: Path, name: str
) -> None:
    table = Table(tmp_path)
    table.append()
    precious = tmp_path / "precious"
    precious.write_text("not the table's")
    names = {
        "into": f"merged-0-1-1-{'0' * 16}.parquet",
        "hidden": f".merging-{'0' * 16}",
        name: "../precious",
    }
    note = table.channel._note()
    note["merges"] = [{"id": "0" * 16, "into": names["into"], "at": None, "due_s": None}]
    table.channel._write_note(note)
    lists = table.channel.merges._lists
    lists.mkdir(exist_ok=True)
    listed = {"hidden": names["hidden"], "size": 4, "modified_ms": 1, "files": []}
    (lists / f"{'0' * 16}.json").write_text(json.dumps(listed))
    with pytest.raises(EngineError, match="that no merge made"):
        table.channel.register("another")
    assert precious.read_text() == "not the table's"
