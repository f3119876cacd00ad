"""A run's book says once what there is to know of clocks, and reports the headroom of the last look."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.controller.run_headroom import RunHeadroom
from mooring.model.placement.placement import OperatorSites
from mooring.spark.engine.snapshot import ChannelSnapshot, SiteSnapshot, Snapshot
from mooring.spark.runs.record.run_report import RunRecord, write_report
from mooring.spark.runs.run_files import RunFiles
from mooring.spark.runs.run_recorder import RunBook


def test_clocks_that_differ_and_files_without_a_time_are_said_once(tmp_path: Path) -> None:
    said: list[str] = []
    seen = Snapshot(
        0.0,
        7.0,
        sites={
            "oslo": SiteSnapshot(None, True, 1.0, None, [], clock_ahead_s=-300.0),
            "here": SiteSnapshot(None, True, 1.0, None, [], clock_ahead_s=0.2),
        },
        channels={"numbers": ChannelSnapshot(0.0, 0, 0, {}, [], untimed_files=3)},
    )
    engine = SimpleNamespace(last_snapshot=seen)
    record = RunRecord("p", "rod", OperatorSites({}), [], {}, {})
    book = RunBook(cast(Any, None), cast(Any, engine), RunFiles(tmp_path), record, said.append)
    for _ in range(2):
        book.write({}, {})
    assert len(said) == 2
    assert "the clock of oslo is 300 s behind that of this machine" in said[0]
    assert "latencies after it are unknown" in said[1]


def test_the_report_has_the_headroom_of_the_last_look(tmp_path: Path) -> None:
    engine = SimpleNamespace(last_snapshot=Snapshot(0.0, 7.0))
    record = RunRecord("p", "rod", OperatorSites({}), [], {}, {})
    book = RunBook(cast(Any, None), cast(Any, engine), RunFiles(tmp_path), record, lambda line: None)
    known = RunHeadroom("three looks are needed").as_json()
    book.write({}, {"headroom": known})
    data, page = write_report(record, tmp_path)
    assert record.as_json()["headroom"] == known
    assert "not known yet: three looks are needed" in data.read_text()
    assert "not known yet: three looks are needed" in page.read_text()
