"""A start that nobody waits for any more leaves no session behind; no server is needed to show it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import SiteLostError
from mooring.spark.running import lifecycle
from mooring.spark.running.lifecycle import Lifecycle
from mooring.spark.running.roster import Roster
from mooring.spark.sites.site_calls import SiteCalls


@dataclass
class Prepared:
    """A fragment at a site that answers only once it thaws."""

    thaw: threading.Event
    closed: threading.Event = field(default_factory=threading.Event)
    frozen_at: str = ""
    site: str = "a"

    def prepare(self, *args: object, **options: object) -> Prepared:
        self._freeze("prepare")
        return self

    def fence(self) -> None: ...

    def launch(self) -> Any:
        self._freeze("launch")
        return SimpleNamespace(name="f", site="a", session=self)

    def discard(self) -> None:
        self.closed.set()

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
    roster = Roster()
    run = Lifecycle(
        layout, sites, SiteCalls(5.0), roster, nothing, nothing, accept_edits=False, schedule=nothing
    )
    with pytest.raises(SiteLostError, match="did not answer within"):
        run.start("f", "a")
    assert not prepared.closed.is_set()
    prepared.thaw.set()
    assert prepared.closed.wait(60)
    assert roster.homes() == {}


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
