"""The loop behind a view answers as a query does, never refreshes twice at once, and gives up what is stopped
(no Spark).
"""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import EngineError
from mooring.spark.storage.views.versions import ReadsOf, ViewVersion
from mooring.spark.views.refresh_loop import RefreshLoop
from mooring.spark.views.schedule import ViewSchedule

PATIENCE_S = 60


class FakeRefresher:
    """Takes as long as it is held, and counts how many are under way."""

    def __init__(self, view: str = "v") -> None:
        self.flow = SimpleNamespace(dataset=view)
        self.held, self.begun = threading.Event(), threading.Event()
        self.done = self.most = self.now = 0
        self.failure: Exception | None = None
        self.is_overtaken = False
        self.interrupted = threading.Event()
        conf = SimpleNamespace(get=lambda name: "local")
        self.session = SimpleNamespace(conf=conf, interruptAll=self.interrupt)

    def interrupt(self) -> None:
        self.interrupted.set()
        self.held.set()

    def refresh(self) -> ViewVersion:
        self.now += 1
        self.most = max(self.most, self.now)
        self.begun.set()
        assert self.held.wait(PATIENCE_S)
        self.now -= 1
        if self.interrupted.is_set():
            raise EngineError("interrupted")
        if self.failure is not None:
            raise self.failure
        self.done += 1
        return ViewVersion(f"{self.done:06d}-00000000", (), 3, 9, 0.0, 0.25, 7, ReadsOf(), "")


class FixedSchedule(ViewSchedule):
    def __init__(self, due: bool) -> None:
        nothing: Any = None
        super().__init__(nothing)
        self._due = due

    def is_due(self, view: str) -> bool:
        return self._due


def loop_of(refresher: Any, schedule: ViewSchedule, *, once: bool = False) -> RefreshLoop:
    return RefreshLoop(refresher, schedule, "here", once=once)


def ended(loop: RefreshLoop) -> bool:
    loop._thread.join(PATIENCE_S)
    return not loop._thread.is_alive()


def test_in_an_update_it_refreshes_once_and_ends_without_an_error() -> None:
    refresher = FakeRefresher()
    refresher.held.set()
    loop = loop_of(refresher, FixedSchedule(due=False), once=True)
    assert ended(loop)
    assert (refresher.done, loop.exception(), loop.isActive) == (1, None, False)
    (report,) = [json.loads(each.json) for each in loop.recentProgress]
    assert (report["batchId"], report["sources"][0]["numInputRows"]) == (1, 7)
    assert report["sink"]["numOutputRows"] == 3


def test_a_refresh_that_fails_ends_the_loop_with_its_error() -> None:
    refresher = FakeRefresher()
    refresher.failure = EngineError("division by zero")
    refresher.held.set()
    loop = loop_of(refresher, FixedSchedule(due=True))
    assert ended(loop)
    assert not loop.isActive
    assert "division by zero" in str(loop.exception())


def test_a_refresh_under_way_is_given_up_when_the_loop_is_stopped() -> None:
    refresher = FakeRefresher()
    loop = loop_of(refresher, FixedSchedule(due=True))
    assert refresher.begun.wait(PATIENCE_S)
    assert loop.isActive
    assert not loop.status["isTriggerActive"], "nobody waits for it"
    loop.stop()
    assert refresher.interrupted.is_set()
    assert ended(loop)
    assert (refresher.done, loop.exception()) == (0, None)


def test_a_loop_that_was_overtaken_ends_by_itself() -> None:
    refresher = FakeRefresher()
    loop = loop_of(refresher, FixedSchedule(due=False))
    refresher.is_overtaken = True
    assert ended(loop)
    assert loop.exception() is None


def test_a_site_refreshes_one_view_at_a_time() -> None:
    schedule = FixedSchedule(due=True)
    one, other = FakeRefresher("v"), FakeRefresher("w")
    loops = [loop_of(one, schedule, once=True)]
    assert one.begun.wait(PATIENCE_S)
    loops.append(loop_of(other, schedule, once=True))
    assert not other.begun.is_set()
    one.held.set()
    assert other.begun.wait(PATIENCE_S)
    assert one.now == 0
    other.held.set()
    assert all(map(ended, loops))
