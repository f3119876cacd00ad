"""A move changes where a fragment runs and nothing else, even from a frozen site or through a crash."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.controller.journal import Journal
from mooring.controller.move_list import resume, settle
from mooring.errors import EngineError, InputError
from mooring.model.deployment.moves import Move
from mooring.model.placement.placement import FragmentSites
from mooring.spark.engine import moving
from mooring.spark.engine.engine import SparkEngine
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs.project_run import read_layout
from mooring.spark.runs.results import read_stored
from mooring.spark.sites.embedded_site import EmbeddedSite
from mooring.spark.sites.endpoint import Endpoint, close_session
from mooring.spark.sites.java import find_java
from mooring.spark.sites.sites import SiteHandle, SiteHandles
from mooring.spark.storage.checkpoints.state_store import PROVIDER, ROCKSDB
from mooring.spark.storage.stream_logs import last_batch, recorded_settings
from tests.controller.carried_out import apply_list
from tests.spark.quick_start import quick_start

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

    from tests.spark.conftest import ProjectMaker

PATIENCE_S = 90
ROWS_PER_SECOND = 10
WINDOW_S = 2
COUNTED = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

@dp.table
def counted():
    numbers = spark.readStream.table("numbers").withWatermark("at", "1 second")
    windows = numbers.groupBy(F.window("at", "2 seconds"))
    return windows.agg(F.sum("n").alias("n"), F.count("*").alias("rows"))
"""
SETTINGS = """\
sites: {a: {capacity: 1}, b: {capacity: 1}}
streams: {numbers: {site: a, rate: 100}}
queries: {counted: {site: b}}
trigger_s: 0.2
"""


class Feed:
    """Ten rows per second of event time, a file per second."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seconds = 0

    def give(self, seconds: int) -> None:
        for second in range(self.seconds, self.seconds + seconds):
            at = f"2020-01-01T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}Z"
            hidden = self.folder / f".{second}"
            hidden.write_text(f'{{"n": {second}, "at": "{at}"}}\n' * ROWS_PER_SECOND)
            hidden.rename(self.folder / f"{second:05d}.json")
        self.seconds += seconds

    def closed_windows(self) -> list[int]:
        """Sums of the windows that the watermark has passed, which lags a second behind the newest row."""
        starts = range(0, self.seconds - 1 - WINDOW_S, WINDOW_S)
        return [ROWS_PER_SECOND * (start + start + 1) for start in starts]


def found_windows(engine: SparkEngine) -> list[int]:
    table = read_stored(engine.layout.root, "counted")
    return sorted(table["n"].to_pylist()) if table.num_rows else []


def wait_until(happened: Callable[[], bool], engine: SparkEngine | None = None) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        if engine is not None:
            engine.check()
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


def is_over(query: StreamingQuery) -> bool:
    return not query.isActive


def settle_windows(engine: SparkEngine, feed: Feed) -> None:
    """Everything due is delivered, once."""
    wait_until(lambda: len(found_windows(engine)) >= len(feed.closed_windows()), engine)
    assert found_windows(engine) == feed.closed_windows()


EngineMaker = Callable[..., SparkEngine]


@pytest.fixture
def make_engine(make_project: ProjectMaker) -> Iterator[EngineMaker]:
    engines: list[SparkEngine] = []

    def make(servers: dict[str, EmbeddedSite], more_settings: str = "") -> SparkEngine:
        folder = make_project(settings=SETTINGS + more_settings, counted_py=COUNTED)
        sites = SiteHandles(
            SiteHandle(name, 1.0, server.endpoint, server) for name, server in servers.items()
        )
        layout = read_layout(load_project(folder), sites["b"])
        engines.append(SparkEngine(layout, sites, {"counted": "counted"}))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()


@pytest.mark.spark
@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked at in /proc")
def test_a_site_frozen_inside_a_batch_and_thawed_after_its_fragments_moved_changes_nothing(
    make_engine: EngineMaker, site: EmbeddedSite, tmp_path: Path
) -> None:
    frozen = EmbeddedSite("a", tmp_path / "frozen", find_java(), capacity=1, options=quick_start())
    try:
        frozen.start()
        frozen.wait_ready()
        engine = make_engine({"a": frozen, "b": site})
        feed = Feed(engine.layout.project.folder / "input")
        engine.start("numbers", "a")
        engine.start("counted", "a")
        feed.give(4)
        wait_until(lambda: len(found_windows(engine)) > 0, engine)
        checkpoint = engine.layout.checkpoint("counted")
        feed.give(3)
        wait_until(lambda: last_batch(checkpoint / "offsets") > last_batch(checkpoint / "commits"))
        assert frozen._server_pid is not None
        os.kill(frozen._server_pid, signal.SIGSTOP)
        old = engine.roster.running()
        for fragment in old:
            engine.roster.remove(fragment.name)  # nobody can ask it to stop there
        for fragment in old:
            engine.start(fragment.name, "b")
        feed.give(6)
        settle_windows(engine, feed)
        os.kill(frozen._server_pid, signal.SIGCONT)
        feed.give(4)
        for fragment in old:
            wait_until(partial(is_over, fragment.query))
            assert fragment.query.exception() is not None
            close_session(fragment.session)
        feed.give(4)
        settle_windows(engine, feed)
        assert not (checkpoint / "commits").exists()
    finally:
        frozen.stop()


class Crash(BaseException):
    """Mooring is gone in the middle of a move."""


@pytest.mark.parametrize(("stage", "state_bytes"), [("stopped", 0), ("fenced", 1_000_000_000)])
def test_a_move_cut_by_a_crash_is_resumed_without_losing_a_row(
    make_engine: EngineMaker, site: EmbeddedSite, tmp_path: Path, stage: str, state_bytes: int
) -> None:
    """Whether its state is small, and in Spark's default store, or said to be large, and in RocksDB."""

    def crash(step: int, move: Move, reached: str, report: object) -> None:
        if (step, reached) == (1, stage):
            raise Crash

    stated = f"statistics: {{counted: {{state_bytes: {state_bytes}}}}}\n"
    engine = make_engine({"a": site, "b": site}, stated)
    feed = Feed(engine.layout.project.folder / "input")
    journal = Journal(tmp_path, time.time)
    old = FragmentSites({"numbers": "a", "counted": "a"})
    new = FragmentSites({"numbers": "b", "counted": "b"})
    for fragment, where in old.items():
        engine.start(fragment, where)
    journal.note_placement(old, "planned")
    feed.give(5)
    settle_windows(engine, feed)
    moves = [Move("counted", "a", "b"), Move("numbers", "a", "b")]
    with pytest.raises(Crash):
        apply_list(engine, journal, old, moves, crash)
    assert engine.homes().keys() == ({"counted"} if stage == "fenced" else {"counted", "numbers"})
    feed.give(3)
    later = make_engine({"a": site, "b": site}, stated)  # while the crashed one's query still runs, as it may
    found = resume(Journal(tmp_path, time.time))
    assert found is not None
    assert found.placement == new
    settle(Journal(tmp_path, time.time))
    for fragment, where in found.placement.items():
        later.start(fragment, where)
    feed.give(4)
    settle_windows(later, feed)
    assert Journal(tmp_path, time.time).placement() == new
    recorded = recorded_settings(later.layout.checkpoint("counted"))
    assert (recorded[PROVIDER] == ROCKSDB) == (state_bytes > 0)


def test_a_target_that_cannot_take_a_fragment_leaves_it_where_it_was(
    make_engine: EngineMaker, site: EmbeddedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine({"a": site, "b": site})
    feed = Feed(engine.layout.project.folder / "input")
    for fragment in ("numbers", "counted"):
        engine.start(fragment, "a")
    feed.give(5)
    settle_windows(engine, feed)
    query = engine.roster["counted"].query
    gone = SiteHandle("b", 1.0, Endpoint("sc://localhost:1"), None)
    with monkeypatch.context() as patch:
        patch.setitem(engine.sites._handles, "b", gone)
        with pytest.raises(EngineError, match="does not answer"):
            engine.move("counted", "b")
    assert engine.roster["counted"].query is query
    assert query.isActive
    with monkeypatch.context() as patch:
        patch.setattr(moving, "first_batch", lambda query, commits, **told: "no room")
        with pytest.raises(EngineError, match=r"runs at 'a' again: .*no room"):
            engine.move("counted", "b")
    assert engine.roster["counted"].site == "a"
    assert not engine.in_move("counted")
    flow = engine.layout.project.folder / "transformations" / "counted.py"
    flow.write_text(COUNTED.replace('F.sum("n")', 'F.max("n")'))
    with pytest.raises(InputError, match="'counted' was edited while the pipeline runs"):
        engine.move("counted", "b")
    flow.write_text(COUNTED + "# only a comment")
    moved = engine.move("counted", "b")
    assert moved.state_bytes is not None
    assert moved.state_bytes > 0
    feed.give(4)
    settle_windows(engine, feed)
    assert engine.snapshot().fragments["counted"].state_bytes > 0
