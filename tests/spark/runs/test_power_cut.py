"""The disk with project and storage loses its power under load, and `mooring run` goes on by itself."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

import pyarrow.parquet

from lab.benchmarks._power_cut import LoopDisk, loop_disk, why_not
from lab.benchmarks._user_run import UserRun
from mooring.spark.runs.results import read_stored
from mooring.spark.storage.stream_logs import sink_entries

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker

SETTINGS = """\
sites: {here: {capacity: 2}}
streams: {numbers: {site: here, rate: 100}}
tables: {numbers: {keep: read}}
cuts: [numbers]
trigger_s: 2
"""
FLOWS = """
from pyspark import pipelines as dp

@dp.table
def numbers():
    return spark.readStream.schema("n long").json("LANDING")

@dp.table
def kept():
    return spark.readStream.table("numbers").dropDuplicates()

dp.create_sink("outside", "parquet", {"path": "FOLDER/out"})

@dp.append_flow(target="outside")
def to_outside():
    return spark.readStream.table("numbers")
"""


class Landing(threading.Thread):
    """Numbers offered on a disk that keeps its power, ten at a time, five times a second."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        folder.mkdir()
        self.folder, self.offered, self._over = folder, 0, threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.2):
            hidden = self.folder / f".{self.offered}"
            numbers = range(self.offered, self.offered + 10)
            hidden.write_text("".join(json.dumps({"n": n}) + "\n" for n in numbers))
            hidden.rename(self.folder / f"{self.offered}.json")
            self.offered += 10

    def finish(self) -> list[int]:
        """All that was offered."""
        self._over.set()
        self.join()
        return list(range(self.offered))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LoopDisk]:
    """Mounted where the project will lie."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    with loop_disk(tmp_path, at="project") as made:
        yield made


def kept(project: Path) -> list[int]:
    rows = read_stored(project / ".mooring" / "storage", "kept")
    return sorted(rows["n"].to_pylist()) if rows.num_rows else []


def sunk(project: Path) -> list[int]:
    log = project / "out" / "_spark_metadata"
    files = [entry.path for entry in sink_entries(log)] if log.is_dir() else []
    return sorted(n for file in files for n in pyarrow.parquet.read_table(file)["n"].to_pylist())


@pytest.mark.spark
@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
def test_after_a_power_cut_a_run_goes_on_by_itself_and_every_row_is_there_once(
    make_project: ProjectMaker, disk: LoopDisk, tmp_path: Path
) -> None:
    landing = Landing(tmp_path / "landing")
    flows = FLOWS.replace("LANDING", str(landing.folder)).replace("FOLDER", str(disk.folder))
    project = make_project(settings=SETTINGS, numbers_py=flows)
    assert project == disk.folder
    os.sync()  # what lies there before the first run is nobody's loss
    user, channel = UserRun(project), project / ".mooring" / "storage" / "channels" / "numbers" / "numbers"
    landing.start()
    run = user.begin()
    try:
        user.wait(lambda: next(channel.glob("*.parquet"), None), "the first rows")
        first = next(channel.glob("*.parquet"))
        user.wait(lambda: not first.exists(), "rows to lie with their readers alone")
        before = len(sunk(project))
        user.wait(lambda: len(sunk(project)) > before, "one more batch")
        disk.cut()
        user.kill(run)
        disk.restore()
        run = user.begin()
        before = landing.offered
        user.wait(lambda: len(sunk(project)) > before and len(kept(project)) > before, "rows after the cut")
        truth = landing.finish()
        user.wait(lambda: len(sunk(project)) >= len(truth) <= len(kept(project)), "the last rows")
        assert sunk(project) == truth
        assert kept(project) == truth
        assert run.poll() is None
    finally:
        landing.finish()
        user.kill(run)
