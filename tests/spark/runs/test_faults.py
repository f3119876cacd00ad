"""A run goes through real faults, and its output stays equal to the truth row by row."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.controller.initial_placement import Wish
from mooring.controller.session import SessionOptions
from mooring.spark.engine.engine import EngineOptions
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs.project_run import prepared_run
from mooring.spark.runs.spark_run import SparkRun
from mooring.spark.storage.stream_logs import sink_entries

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker

PATIENCE_S = 120
SETTINGS = """\
sites: {a: {capacity: 2}, b: {capacity: 2}}
streams: {numbers: {site: a, rate: 100}}
queries:
  counted: {site: b}
  picky: {site: b}
statistics:
  numbers: {cost_us: 5}
  counted: {cost_us: 50}
  picky: {cost_us: 5}
trigger_s: 1
"""
FLOWS = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

@dp.table
def counted():
    numbers = spark.readStream.table("numbers").withWatermark("at", "1 second")
    windows = numbers.groupBy(F.window("at", "10 seconds").alias("span"))
    return windows.agg(F.sum("n").alias("n"), F.count("*").alias("rows")).select("span.start", "n", "rows")

@dp.table
def picky():
    checked = F.when(F.col("n") < 0, F.raise_error(F.lit("a negative number"))).otherwise(F.col("n"))
    return spark.readStream.table("numbers").select(checked.alias("n"))
"""


class Feed(threading.Thread):
    """Ten rows per second of event time, five seconds of it every half second, until halted."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder = folder
        self.second = 0
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.5):
            seconds = range(self.second, self.second + 5)
            self.put([row for second in seconds for row in 10 * [(second, second)]])
            self.second += 5

    def put(self, rows: list[tuple[int, int]]) -> None:
        """Rows of (event second, value), in one file."""
        lines = [json.dumps({"n": value, "at": instant(second)}) for second, value in rows]
        name = "-".join(map(str, rows[0]))
        hidden = self.folder / "input" / f".{name}"
        hidden.write_text("\n".join(lines))
        hidden.rename(self.folder / "input" / f"{name}.json")

    def finish(self) -> list[tuple[int, int]]:
        """Stop, close all windows, and say what each of them holds: (sum, rows)."""
        self.over.set()
        self.join()
        self.put([(self.second + 3600, 0)])
        windows: dict[int, list[int]] = {}
        for second in range(self.second):
            windows.setdefault(second // 10, []).extend([second] * 10)
        return sorted((sum(values), len(values)) for values in windows.values())


def instant(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_577_836_800 + second))


class Run(threading.Thread):
    """What `mooring run` does, in a thread of this process, until told to stop."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder = folder
        self.told: list[str] = []
        self.failure: BaseException | None = None
        self._over = threading.Event()

    def run(self) -> None:
        try:
            with prepared_run(load_project(self.folder)) as prepared:
                run = SparkRun(prepared, Wish("llf"), say=self.told.append)
                options, pace = EngineOptions(silence_s=4.0), SessionOptions(look_s=1.0)
                with run.started(options, pace) as (session, _):
                    session.run(lambda passed: self._over.is_set())
                run.end("over")
        except BaseException as failure:
            self.failure = failure

    def stop(self) -> None:
        self._over.set()
        self.join()

    def wait_for(self, happened: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not happened():
            if self.failure is not None:
                raise self.failure
            assert time.monotonic() < deadline, "\n".join([f"waited too long for {what}", *self.told])
            time.sleep(0.1)


def rows(folder: Path, dataset: str, *columns: str) -> list[tuple[int, ...]]:
    import pyarrow.parquet

    log = storage_of(folder) / "channels" / dataset / dataset / "_spark_metadata"
    found: list[tuple[int, ...]] = []
    for entry in sink_entries(log):
        table = pyarrow.parquet.ParquetFile(entry.path).read(columns=list(columns))
        found += zip(*(table[column].to_pylist() for column in columns), strict=True)
    return sorted(found)


def storage_of(folder: Path) -> Path:
    line = (folder / "mooring.yml").read_text().splitlines()[-1]
    return Path(line.removeprefix("storage: "))


def fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as out, contextlib.suppress(OSError):
        while True:
            out.write(bytes(4096))


def status(folder: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((folder / ".mooring" / "status.json").read_text())
    except FileNotFoundError:
        return {"troubles": {}, "fragments": {}}
    return found


def server_of(folder: Path, site: str) -> int:
    """The process id of a site's Java, by its command line; -1 if there is none."""
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else [b""]
        except OSError:
            continue
        if words[0].endswith(b"java") and f"{folder}/.mooring/sites/{site}/".encode() in b"\0".join(words):
            return int(entry.name)
    return -1


def grown(folder: Path, dataset: str) -> Callable[[], bool]:
    """Whether a dataset has got new rows since this was called."""
    before = len(rows(folder, dataset, "n"))
    return lambda: len(rows(folder, dataset, "n")) > before


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path | None]:
    """A disk of its own, small enough to be filled; None where this user may not mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        yield None
        return
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.mark.spark
@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
def test_dead_and_frozen_sites_lost_channels_full_disks_and_bad_rows_lose_and_double_nothing(
    make_project: ProjectMaker, small_disk: Path | None
) -> None:
    storage = small_disk or make_project(settings=SETTINGS) / ".mooring" / "storage"
    folder = make_project(settings=f"{SETTINGS}storage: {storage}\n", flows_py=FLOWS)
    feed, run = Feed(folder), Run(folder)
    run.start()
    try:
        run.wait_for(lambda: len(status(folder)["fragments"]) == 3, "all three fragments")
        feed.start()
        run.wait_for(lambda: len(rows(folder, "counted", "n")) > 0, "the first window")
        home = status(folder)["fragments"]["counted"]["site"]

        # A site is killed: what may move goes on at the other one.
        other = "b" if home == "a" else "a"
        victim = server_of(folder, home)
        os.kill(victim, signal.SIGKILL)
        run.wait_for(
            lambda: status(folder)["fragments"].get("counted", {}).get("site") == other, "a new site"
        )
        run.wait_for(grown(folder, "counted"), "windows after the kill")
        run.wait_for(lambda: server_of(folder, home) not in (-1, victim), "the site to be started again")
        run.wait_for(lambda: not status(folder)["troubles"], "no more trouble")

        # A site is frozen, its fragments move away, and it thaws.
        frozen = server_of(folder, other)
        os.kill(frozen, signal.SIGSTOP)
        run.wait_for(
            lambda: status(folder)["fragments"].get("counted", {}).get("site") == home, "moving away"
        )
        if home == "a":
            run.wait_for(grown(folder, "counted"), "windows beside the frozen site")
        os.kill(frozen, signal.SIGCONT)
        run.wait_for(lambda: not status(folder)["troubles"], "the thawed site to be back")

        # The files of a channel are taken away and put back.
        channel = storage_of(folder) / "channels" / "numbers" / "numbers"
        channel.rename(channel.with_name("elsewhere"))
        run.wait_for(lambda: "channel numbers" in status(folder)["troubles"], "the lost channel")
        assert "is missing" in status(folder)["troubles"]["channel numbers"]
        run.wait_for(lambda: status(folder)["fragments"] == {}, "all three fragments to stop")
        assert not channel.exists(), "made again, so that readers may have taken its files for deleted"
        channel.with_name("elsewhere").rename(channel)
        run.wait_for(lambda: len(status(folder)["fragments"]) == 3, "all three to go on")
        run.wait_for(grown(folder, "counted"), "windows after the channel is back")

        # The disk is full for a while. (Where none can be mounted, this part is left out.)
        if small_disk is not None:
            fill(small_disk / "ballast")
            run.wait_for(lambda: "No space left" in str(status(folder)["troubles"]), "the full disk")
            (small_disk / "ballast").unlink()
            run.wait_for(lambda: not status(folder)["troubles"], "room to be used again")
            run.wait_for(grown(folder, "counted"), "windows after the full disk")

        # A row that one flow cannot take: it is backed off, the other goes on.
        truth = feed.finish()
        run.wait_for(lambda: rows(folder, "counted", "n", "rows") == truth, "all windows")
        feed.put([(feed.second + 3601, -1)])
        run.wait_for(lambda: "picky" in status(folder)["troubles"], "the failing flow")
        assert "a negative number" in status(folder)["troubles"]["picky"]
        assert "flows.py" in status(folder)["troubles"]["picky"]
        assert "counted" in status(folder)["fragments"]
    finally:
        run.stop()
    assert run.failure is None
    assert rows(folder, "counted", "n", "rows") == truth
    numbers = sorted((second,) for second in range(feed.second) for _ in range(10))
    assert rows(folder, "picky", "n") == sorted([(0,), *numbers])
    report = json.loads((folder / ".mooring" / "report.json").read_text())
    assert any("is lost" in line for line in report["incidents"])
