"""A start that nobody waits for any more leaves no session behind; no server is needed to show it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from pyspark.errors import PySparkException

from mooring.errors import SiteLostError
from mooring.spark.engine import lifecycle
from mooring.spark.engine.fragment_registry import OpenSession, Roster
from mooring.spark.engine.lifecycle import Lifecycle
from mooring.spark.sites.site_calls import SiteCalls


@dataclass
class Prepared:
    """A fragment at a site that answers only once it thaws."""

    thaw: threading.Event
    discarded: threading.Event = field(default_factory=threading.Event)
    frozen_at: str = ""
    site: str = "a"
    session_id: str = "1"
    closed: bool = False
    fragment: Any = field(default_factory=lambda: SimpleNamespace(name="f"))

    def prepare(self, *args: object, **options: object) -> Prepared:
        self._freeze("prepare")
        return self

    def fence(self) -> None: ...

    def launch(self) -> Any:
        self._freeze("launch")
        query = SimpleNamespace(isActive=True, stop=lambda: None)
        return SimpleNamespace(name="f", site="a", session=self, session_id="1", query=query)

    def discard(self) -> bool:
        self.discarded.set()
        return True

    def _freeze(self, at: str) -> None:
        if at == self.frozen_at:
            self.thaw.wait(60)


@pytest.mark.parametrize("frozen_at", ["prepare", "launch"])
def test_the_session_of_a_start_that_came_too_late_is_closed(
    monkeypatch: pytest.MonkeyPatch, frozen_at: str
) -> None:
    prepared = Prepared(threading.Event(), frozen_at=frozen_at)
    monkeypatch.setattr(lifecycle, "START_PATIENCE_S", 0.05)
    monkeypatch.setattr(lifecycle, "prepare_fragment", prepared.prepare)
    monkeypatch.setattr(lifecycle, "close_session", lambda session: session.discard())
    pipeline = SimpleNamespace(is_view=lambda fragment: False)
    layout: Any = SimpleNamespace(fragments={"f": None}, pipeline=pipeline)
    sites: Any = SimpleNamespace(of=lambda site: SimpleNamespace(endpoint=None))
    nothing: Any = None
    noted: list[list[str]] = []
    roster = Roster(lambda sessions: noted.append([each.session_id for each in sessions]))
    run = Lifecycle(
        layout, sites, SiteCalls(5.0), roster, nothing, nothing, accept_edits=False, schedule=nothing
    )
    with pytest.raises(SiteLostError, match="did not answer within"):
        run.start("f", "a")
    assert not prepared.discarded.is_set()
    prepared.thaw.set()
    assert prepared.discarded.wait(60)
    assert roster.homes() == {}
    until(lambda: noted == ([] if frozen_at == "prepare" else [["1"], []]))


class Query:
    """Of a site that does not answer for a while."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure, self.active = failure, True

    @property
    def isActive(self) -> bool:
        if self.failure is not None:
            raise self.failure
        return self.active

    def stop(self) -> None:
        self.active = False


def test_what_was_left_behind_is_noted_until_it_is_known_to_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However its fragment went on, and also if the site fails while it is being cleared."""
    noted: list[str] = []
    roster = Roster(lambda sessions: noted.__setitem__(slice(None), [each.session_id for each in sessions]))
    monkeypatch.setattr(lifecycle, "close_session", lambda session: True)
    nothing: Any = None
    sites: Any = SimpleNamespace(of=lambda site: SimpleNamespace(embedded=None))
    run = Lifecycle(
        nothing, sites, SiteCalls(5.0), roster, nothing, nothing, accept_edits=False, schedule=nothing
    )
    queries = {"1": Query(), "2": Query(PySparkException("unavailable")), "3": Query()}
    for session_id, query in queries.items():
        left: Any = SimpleNamespace(name="f", site="a", session=None, session_id=session_id, query=query)
        roster.opened(OpenSession("a", "f", session_id))
        roster.add(left)
        run.forget("f")
    roster.opened(OpenSession("b", "f", "4"))
    assert noted == ["1", "2", "3", "4"]
    assert run.clear_leftovers("a") == 2
    assert noted == ["2", "4"]
    queries["2"].failure = PySparkException("[INVALID_HANDLE.SESSION_CLOSED] The handle is invalid")
    run.clear_all_leftovers()
    assert noted == ["4"]


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60.0
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_a_move_has_in_hand_is_neither_idle_nor_forgotten() -> None:
    running: Any = SimpleNamespace(name="f", site="a")
    moved: Any = SimpleNamespace(name="f", site="b")
    roster = Roster()
    assert roster.is_idle("f")
    roster.add(running)
    assert roster.stands(running)
    with roster.in_hand("f"):
        assert not roster.stands(running)
        assert roster.remove_unless_moving("f") is None
        roster.remove("f")
        assert not roster.is_idle("f")
        roster.add(moved)
    assert not roster.stands(running)
    assert roster.stands(moved)
    assert roster.remove_unless_moving("f") is moved
    assert roster.is_idle("f")
