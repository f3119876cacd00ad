"""The engine starts, measures, trims, moves and stops fragments, and a move loses and doubles nothing."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.contracts.engine import Engine, carry_out
from mooring.errors import EngineError
from mooring.model.deployment.channels import Channel
from mooring.model.placement.placement import Placement
from mooring.spark.engine.engine import SparkEngine
from mooring.spark.engine.meters import FragmentMeter
from mooring.spark.pipeline.pipeline_problem import problem_of
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs.project_run import read_layout
from mooring.spark.runs.results import read_stored
from mooring.spark.sites.sites import SiteHandle, SiteHandles

if TYPE_CHECKING:
    from mooring.spark.sites.embedded_site import EmbeddedSite
    from tests.spark.conftest import ProjectMaker

PATIENCE_S = 60
COUNTED = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

@dp.table
def counted():
    numbers = spark.readStream.table("numbers").withWatermark("at", "1 second")
    windows = numbers.groupBy(F.window("at", "10 seconds"))
    return windows.agg(F.sum("n").alias("n"), F.count("*").alias("rows"))
"""
SETTINGS = """\
sites: {a: {capacity: 1}, b: {capacity: 1}}
streams: {numbers: {site: a, rate: 100}}
queries: {counted: {site: b}}
tables: {numbers: {keep: read}}
trigger_s: 0.3
"""


def feed(folder: Path, second: int) -> None:
    """Ten rows within one second of event time; the sums of all seconds are known."""
    at = f"2020-01-01T00:{second // 60:02d}:{second % 60:02d}Z"
    hidden = folder / "input" / f".{second}"
    hidden.write_text("\n".join(json.dumps({"n": second, "at": at}) for _ in range(10)))
    hidden.rename(folder / "input" / f"{second:04d}.json")


def wait_until(engine: SparkEngine, happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        engine.check()
        assert time.monotonic() < deadline
        time.sleep(0.1)


class AheadClock:
    """Of this machine, but for `ahead_s`."""

    def __init__(self, ahead_s: float) -> None:
        self.ahead_s = ahead_s

    def time(self) -> float:
        return time.time() + self.ahead_s

    def monotonic(self) -> float:
        return time.monotonic()


@pytest.fixture
def engine(make_project: ProjectMaker, site: EmbeddedSite) -> Iterator[SparkEngine]:
    """Two sites by name, served by one server: what matters here is that the fragment starts anew."""
    folder = make_project(settings=SETTINGS, counted_py=COUNTED)
    sites = SiteHandles(SiteHandle(name, 1.0, site.endpoint, site) for name in ("a", "b"))
    made = SparkEngine(read_layout(load_project(folder), sites["a"]), sites, {"counted": "counted"})
    yield made
    made.close()


def test_a_moved_fragment_goes_on_with_its_state_and_its_place_in_the_channel(
    engine: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = engine.layout.project.folder
    engine.start("numbers", "a")
    engine.start("counted", "a")
    for second in range(25):
        feed(folder, second)
    wait_until(engine, lambda: read_stored(engine.layout.root, "counted").num_rows >= 1)
    moved = engine.move("counted", "b")
    assert (moved.from_site, moved.to_site) == ("a", "b")
    assert moved.pause_s > 0
    assert engine.roster["counted"].site == "b"
    for second in range(25, 60):
        feed(folder, second)
        engine.trim()
    feed(folder, 3000)
    wait_until(engine, lambda: read_stored(engine.layout.root, "counted").num_rows >= 6)
    found = read_stored(engine.layout.root, "counted")
    expected = [sum(10 * second for second in range(start, start + 10)) for start in range(0, 60, 10)]
    assert sorted(found["n"].to_pylist()) == expected
    assert found["rows"].to_pylist() == [100] * 6
    engine.snapshot()
    seen = engine.snapshot()
    assert seen.fragments["numbers"].rows_in == 610
    assert seen.fragments["counted"].rows_out == 6
    assert seen.queries["counted"].latency_s is not None
    assert seen.channels["numbers"].crosses == ["b"]
    assert seen.channels["numbers"].bytes_written > 0
    assert seen.sites["b"].fragments == ["counted"]
    measured = engine.measure()
    assert measured.fragments["counted"].site == "b"
    assert measured.stream_rates.keys() == {"numbers"}
    # From now on the reports of one fragment lack a field: only its own figures are missing.
    take = FragmentMeter.take

    def odd(meter: FragmentMeter, reports: Iterable[Mapping[str, Any]], ahead_s: float = 0.0) -> None:
        if meter is engine.progress.meters["counted"]:
            raise KeyError("timestamp")
        take(meter, reports, ahead_s)

    monkeypatch.setattr(FragmentMeter, "take", odd)
    measured = engine.measure()
    assert measured.fragments.keys() == {"numbers"}
    assert measured.stream_rates.keys() == {"numbers"}
    assert "KeyError: 'timestamp'" in measured.unknown["measuring counted"]
    engine.move("counted", "a")
    assert engine.homes()["counted"] == "a"


def test_a_query_that_sleeps_until_a_wrong_clock_says_so_is_in_trouble_until_it_is_started_again(
    engine: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.start("numbers", "a")
    monkeypatch.setattr("mooring.spark.engine.site_clocks.time", clock := AheadClock(3600.0))
    assert engine.inspect() == []
    clock.ahead_s = 0.0
    (trouble,) = engine.inspect()
    assert (trouble.fragment, trouble.site) == ("numbers", "a")
    assert "was set back by 3600 s" in str(trouble.failure)
    engine.forget("numbers")
    engine.start("numbers", "a")
    assert engine.inspect() == []
    feed(engine.layout.project.folder, 1)
    wait_until(engine, lambda: read_stored(engine.layout.root, "numbers").num_rows == 10)


def test_it_is_an_engine_that_placements_are_carried_out_on(engine: SparkEngine) -> None:
    """The same calls that drive the simulator: connect, start, measure, disconnect."""
    problem = problem_of(engine.layout)
    typed: Engine = engine
    carry_out(typed, Placement.from_dict(problem, {"numbers:ingest": "a", "counted": "b"}))
    assert engine.homes() == {"numbers": "a", "counted": "b"}
    assert engine.layout.channels["numbers"].readers() == ["counted"]
    assert engine.layout.channels["counted"].readers() == ["results counted"]
    engine.stop("counted")
    engine.disconnect(Channel("numbers", "counted"))
    assert engine.layout.channels["numbers"].readers() == []


def test_what_cannot_be_done_is_an_engine_error(engine: SparkEngine) -> None:
    engine.start("numbers", "a")
    with pytest.raises(EngineError, match="already runs"):
        engine.start("numbers", "b")
    with pytest.raises(EngineError, match="no site 'c'"):
        engine.move("numbers", "c")
    assert engine.roster["numbers"].query.isActive
    engine.roster["numbers"].query.stop()
    with pytest.raises(EngineError, match="ended by itself"):
        engine.check()


@pytest.mark.parametrize("gone", ["channels/numbers", "owned/000001/checkpoints/counted"])
def test_nothing_is_started_while_something_of_the_storage_is_lost(engine: SparkEngine, gone: str) -> None:
    problem = problem_of(engine.layout)
    placement = Placement.from_dict(problem, {"numbers:ingest": "a", "counted": "b"})
    carry_out(engine, placement)
    for second in range(25):
        feed(engine.layout.project.folder, second)
    wait_until(engine, lambda: read_stored(engine.layout.root, "counted").num_rows >= 1)
    engine.stop_all()
    shutil.rmtree(engine.layout.root / gone)
    engine.layout.create()
    with pytest.raises(EngineError, match=r"are lost: (numbers|counted): the (folder|checkpoint in)"):
        carry_out(engine, placement)
    assert engine.homes() == {}
