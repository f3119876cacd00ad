"""A pipeline edited between two runs on Spark: its windows and rows are what they would have been."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import InputError
from mooring.model.placement.placement import FragmentSites
from mooring.spark.pipeline.project import load_project
from mooring.spark.pipeline.project_edits import AcceptedEdits
from mooring.spark.runs.project_run import PreparedRun, prepared_on
from mooring.spark.runs.results import read_stored
from mooring.spark.sites.sites import SiteHandle, SiteHandles
from mooring.spark.storage import stream_logs

if TYPE_CHECKING:
    from mooring.spark.sites.embedded_site import EmbeddedSite
    from tests.spark.conftest import ProjectMaker
    from tests.spark.runs.conftest import WaitUntil

SETTINGS = """\
sites: {here: {capacity: 2}}
streams: {numbers: {site: here, rate: 100}, others: {site: here, rate: 100}}
trigger_s: 0.2
tables: {numbers: {keep: read}, clean: {keep: read}}
"""
ONE_STREAM = SETTINGS.replace(", others: {site: here, rate: 100}", "")
CLEAN = """
from pyspark import pipelines as dp

@dp.table
def clean():
    return spark.readStream.table("numbers").filter("n >= 0")
"""
WINDOWS = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

@dp.table
def windows():
    rows = spark.readStream.table("clean").withWatermark("at", "0 seconds")
    found = rows.groupBy(F.window("at", "10 seconds")).agg(F.sum("n").alias("n"))
    return found.selectExpr("window.start AS start", "n")
"""
MORE = """
from pyspark import pipelines as dp

@dp.table
def others():
    return spark.readStream.schema("n long, at timestamp").json("INPUT-2")

@dp.append_flow(target="clean")
def more():
    return spark.readStream.table("others")
"""
ODD = """
from pyspark import pipelines as dp

@dp.table
def odd():
    return spark.readStream.table("clean").filter("n % 2 = 1")
"""


def feed(folder: Path, seconds: range, into: str = "input") -> None:
    """A row per second of event time; rows of ten seconds make a window."""
    lines = [json.dumps({"n": n, "at": f"2020-01-01T00:{n // 60:02d}:{n % 60:02d}Z"}) for n in seconds]
    hidden = folder / into / f".{seconds.start}"
    hidden.write_text("\n".join(lines))
    hidden.rename(folder / into / f"f{seconds.start}.json")


def sums(storage: Path) -> list[int]:
    return numbers(storage, "windows")


def odd(storage: Path) -> list[int]:
    return numbers(storage, "odd")


def numbers(storage: Path, dataset: str) -> list[int]:
    rows = read_stored(storage, dataset)
    return sorted(rows["n"].to_pylist()) if rows.num_rows else []


def sums_before(second: int) -> list[int]:
    """Of the windows that end by then."""
    return [sum(range(start, start + 10)) for start in range(0, second // 10 * 10, 10)]


def test_a_fragment_with_an_open_window_is_cut_in_two_and_no_row_is_lost_or_doubled(
    make_project: ProjectMaker, site: EmbeddedSite, wait_until: WaitUntil
) -> None:
    """The second reader of `clean` cuts it off from `windows`, whose last window is half full. The run before
    ended as if killed inside a batch, so the old cut is drained first. Then `clean` gets a second writer.
    """
    sites = SiteHandles([SiteHandle("here", 2.0, site.endpoint, site)])
    folder = make_project(settings=ONE_STREAM, clean_py=CLEAN, windows_py=WINDOWS)
    storage = load_project(folder).settings.storage

    @contextmanager
    def prepared(accepted: AcceptedEdits | None = None) -> Iterator[PreparedRun]:
        with prepared_on(load_project(folder), sites, accepted=accepted) as run:
            yield run

    def run_until(
        happened: Callable[[], bool], what: str, accepted: AcceptedEdits | None = None
    ) -> PreparedRun:
        with prepared(accepted) as run, run.engine() as engine:
            engine.start_all(FragmentSites(dict.fromkeys(run.layout.fragments, "here")))
            wait_until(happened, what)
            engine.check()
            engine.stop_all()
        return run

    feed(folder, range(45))
    first = run_until(lambda: sums(storage) == sums_before(45), "the first windows")
    assert set(first.layout.fragments) == {"numbers", "windows"}
    commits = first.layout.checkpoint("windows") / "commits"
    (commits / str(stream_logs.last_batch(commits))).unlink()

    (folder / "transformations" / "windows.py").unlink()
    with pytest.raises(InputError, match="'windows' was removed"), prepared():
        pass
    make_project(settings=ONE_STREAM, clean_py=CLEAN, windows_py=WINDOWS, odd_py=ODD)
    with pytest.raises(InputError, match="new flow 'odd' reads 'clean'"), prepared():
        pass

    feed(folder, range(45, 75))
    late = AcceptedEdits(join_late=("odd",))
    second = run_until(lambda: len(sums(storage)) >= 7, "the windows of both cuts", late)
    assert set(second.layout.fragments) == {"numbers", "clean", "windows", "odd"}
    assert sums(storage) == sums_before(75)

    make_project(SETTINGS, clean_py=CLEAN, windows_py=WINDOWS, odd_py=ODD, more_py=MORE)
    (folder / "input-2").mkdir()
    feed(folder, range(75, 85))
    feed(folder, range(85, 95), "input-2")
    third = run_until(lambda: len(sums(storage)) >= 9 and len(odd(storage)) >= 25, "the rows of both writers")
    assert third.layout.reads_of("windows") == ("clean", "more")
    assert sums(storage) == sums_before(95)
    assert odd(storage) == [n for n in range(45, 95) if n % 2]
