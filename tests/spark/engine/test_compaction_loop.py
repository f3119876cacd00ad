"""Small files are merged by a thread beside the run, and adopted when the run trims (no Spark needed)."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

import pyarrow
import pyarrow.parquet

from mooring.errors import EngineError
from mooring.spark.engine.compaction_loop import Merging
from mooring.spark.storage.stream_logs import sink_entries
from tests.spark.storage.merged_table import Table


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("merging")]


def settle(merging: Merging) -> None:
    """A step that begins a merge, and one that adopts it."""
    merging.step()
    for thread in threads():
        thread.join()
    merging.step()


def test_a_merge_is_made_beside_the_run_and_adopted_by_it(tmp_path: Path) -> None:
    tables = {name: Table(tmp_path / name) for name in ("one", "two")}
    for table in tables.values():
        for _ in range(9):
            table.append()
    merging = Merging({name: table.channel for name, table in tables.items()})
    settle(merging)
    settle(merging)
    merging.close()
    assert not threads()
    for table in tables.values():
        table.check()
        assert len(sink_entries(table.writer.log)) < 9


@pytest.mark.parametrize("damaged", [False, True])
def test_files_that_cannot_be_merged_are_said_once_and_left(tmp_path: Path, damaged: bool) -> None:
    table = Table(tmp_path)
    for _ in range(9):
        table.append()
    for part in table.channel.folder.glob("part-*"):
        rows = pyarrow.table({"row": [[1]]})
        pyarrow.parquet.write_table(rows, part, use_compliant_nested_type=False, store_schema=False)
        if damaged:
            part.write_text("no rows")
    merging = Merging({"c": table.channel})
    with pytest.raises(EngineError, match="cannot be merged") as said:
        settle(merging)
    assert "merge: false" in str(said.value.remedy)
    settle(merging)
    assert len(sink_entries(table.writer.log)) == 9
    assert not list(table.channel.folder.glob(".merging*"))
