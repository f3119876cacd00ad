"""While a list of moves is carried out, the run goes on: sites are lost and fragments relocated, the list can
be aborted, the run can be ended, and what the journal says is where everything is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from mooring.contracts.engine import MoveReport
from mooring.controller.initial_placement import Wish
from mooring.controller.journal import Journal
from mooring.controller.move_list import InBackground, resume
from mooring.controller.session import SessionOptions
from mooring.errors import EngineError
from mooring.model.deployment.move_stages import STAGES, Reached, Stage, ignored
from mooring.model.deployment.moves import Move
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.problem import Problem
from mooring.simulator.data_plane.arrivals import Constant
from mooring.simulator.data_plane.engine import SimulatedEngine
from mooring.simulator.runs.simulated_run import SimulatedRun, simulated_run

PATIENCE_S = 60.0
PROBLEM = Problem.from_dict(
    {
        "sites": {name: {"capacity": 4} for name in "abc"},
        "streams": {"x": {"rate": 10}},
        "operators": {name: {"inputs": ["x"], "cost_us": 100} for name in "fgh"},
    }
)
OLD = FragmentSites({"f": "a", "g": "a", "h": "c"})


class Gated(SimulatedEngine):
    """Moves wait at one stage until they are let go, or fail there; nothing else touches the engine while one
    goes on.
    """

    gate: tuple[str, Stage] | None = None
    failing: tuple[str, Stage] | None = None

    def __init__(self) -> None:
        super().__init__(PROBLEM, [Constant(10.0)], np.random.default_rng(0), horizon_s=1000.0)
        self.arrived, self.open = threading.Event(), threading.Event()
        self.moving: set[str] = set()

    def move(self, fragment: str, to_site: str, reached: Reached = ignored) -> MoveReport:
        def at(stage: Stage) -> None:
            if (fragment, stage) == self.failing:
                self.failing = None
                raise EngineError("the target is full")
            reached(stage)
            if (fragment, stage) == self.gate:
                self.arrived.set()
                assert self.open.wait(PATIENCE_S)

        self.moving.add(fragment)
        try:
            return super().move(fragment, to_site, at)
        finally:
            self.moving.discard(fragment)

    def in_move(self, fragment: str) -> bool:
        return fragment in self.moving

    def is_idle(self, fragment: str) -> bool:
        return fragment not in self.moving and super().is_idle(fragment)


@dataclass
class Rig:
    engine: Gated
    run: SimulatedRun

    def pass_s(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.2)):
            self.run.session.turn()
            self.run.session.clock.sleep(0.2)

    def ask(self, *moves: Move, gate: tuple[str, Stage] | None = None) -> str:
        """Have a list begun, and wait until it is at the gate."""
        self.engine.gate = gate
        name = self.run.tray.ask(self.engine.homes(), moves, asked_by="ann")
        self.run.session.turn()
        if gate is not None:
            assert self.engine.arrived.wait(PATIENCE_S)
        return name

    def finish(self) -> None:
        """Let the list go, wait until it is over, and have it noticed."""
        listed = self.run.session.desk._under_way
        assert listed is not None
        assert listed.over is not None
        self.engine.open.set()
        listed.over.result(PATIENCE_S)
        self.pass_s(6.0)

    def state(self, name: str) -> str:
        return str((self.run.tray.answer(name) or {})["state"])

    def why(self, name: str) -> str:
        return str((self.run.tray.answer(name) or {})["why"])

    @property
    def journal(self) -> Journal:
        return self.run.session.journal


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    engine = Gated()
    run = simulated_run(engine, tmp_path, Wish("rod"), options=SessionOptions(look_s=2.0))
    run.session.desk.carrier = InBackground()
    run.session.start(Placement.from_fragments(PROBLEM, OLD), "by hand")
    made = Rig(engine, run)
    made.pass_s(3.0)
    return made


def test_a_lost_site_is_recovered_before_the_list_ends(rig: Rig) -> None:
    name = rig.ask(Move("f", "a", "b"), Move("g", "a", "b"), gate=("f", "prepared"))
    rig.engine.lose_site("c")
    rig.pass_s(3.0)
    assert rig.run.session.desk.busy
    assert rig.engine.homes()["h"] in ("a", "b")
    assert rig.journal.records()[-1]["kind"] == "relocated"
    found = resume(rig.journal)  # a crash now
    assert found is not None
    assert found.placement == {**OLD, "h": rig.engine.homes()["h"]}
    rig.finish()
    assert rig.state(name) == "done"
    assert rig.engine.homes() == {"f": "b", "g": "b", "h": rig.engine.homes()["h"]}
    assert rig.journal.placement() == rig.engine.homes()
    assert rig.run.session.troubles().keys() == {"site c"}


def test_nothing_starts_a_fragment_that_a_move_has_in_hand(rig: Rig) -> None:
    """Its own source is lost while it is on its way."""
    name = rig.ask(Move("h", "c", "b"), gate=("h", "prepared"))
    rig.engine.lose_site("c")
    rig.pass_s(3.0)
    assert rig.engine.homes()["h"] == "c"
    rig.finish()
    assert rig.state(name) == "done"
    assert rig.engine.homes()["h"] == "b"
    assert rig.journal.placement() == rig.engine.homes()
    assert rig.run.session.troubles().keys() == {"site c"}


def test_a_fragment_that_recovery_put_elsewhere_ends_the_list(rig: Rig) -> None:
    name = rig.ask(Move("f", "a", "b"), Move("h", "c", "b"), gate=("f", "prepared"))
    rig.run.session.supervisor.recovery.choose = lambda sites, lost: FragmentSites({**sites, "h": "a"})
    rig.engine.lose_site("c")
    rig.pass_s(3.0)
    assert rig.engine.homes()["h"] == "a"
    rig.finish()
    assert rig.state(name) == "failed"
    assert "'h' went from 'c' to 'a' meanwhile" in rig.why(name)
    assert rig.engine.homes() == FragmentSites({**OLD, "h": "a"}) == rig.journal.placement()


def test_nothing_goes_back_to_a_lost_site(rig: Rig) -> None:
    """The first move is done, its source is lost, and the second fails."""
    rig.engine.failing = ("f", "fenced")
    name = rig.ask(Move("h", "c", "b"), Move("f", "a", "b"), gate=("f", "prepared"))
    rig.engine.lose_site("c")
    rig.pass_s(3.0)
    rig.finish()
    assert rig.state(name) == "failed"
    assert "h stays at b" in rig.why(name)
    assert rig.engine.homes() == FragmentSites({**OLD, "h": "b"}) == rig.journal.placement()


def test_what_was_moved_to_a_site_that_is_lost_before_the_list_ends_goes_on_elsewhere(rig: Rig) -> None:
    name = rig.ask(Move("f", "a", "b"), Move("g", "a", "c"), gate=("g", "prepared"))
    rig.engine.lose_site("b")
    rig.pass_s(3.0)
    assert rig.engine.homes()["f"] in ("a", "c")
    rig.finish()
    assert rig.state(name) == "done"
    assert rig.journal.placement() == rig.engine.homes() == {**OLD, "g": "c", "f": rig.engine.homes()["f"]}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("fragment", ["f", "g"])
def test_an_abort_takes_the_list_back_and_is_written_down_with_who_asked(
    rig: Rig, fragment: str, stage: Stage
) -> None:
    name = rig.ask(Move("f", "a", "b"), Move("g", "a", "b"), gate=(fragment, stage))
    abort = rig.run.tray.ask_abort("bob")
    rig.run.session.turn()
    assert rig.state(abort) == "running"
    found = resume(rig.journal)  # a crash now
    assert found is not None
    assert found.placement == OLD
    rig.finish()
    assert rig.state(name) == rig.state(abort) == "aborted"
    assert "so the placement is as before (requested by bob)" in rig.why(name)
    assert rig.engine.homes() == OLD == rig.journal.placement()
    asked = {r["kind"]: r["asked_by"] for r in rig.journal.records() if "asked_by" in r}
    assert asked == {"list": "ann", "abort": "bob"}


def test_an_abort_with_nothing_under_way_is_refused(rig: Rig) -> None:
    abort = rig.run.tray.ask_abort("bob")
    rig.run.session.turn()
    assert rig.state(abort) == "refused"
    assert "no list of moves" in rig.why(abort)


def test_a_second_list_and_a_lost_target_are_refused(rig: Rig) -> None:
    rig.ask(Move("f", "a", "b"), gate=("f", "prepared"))
    second = rig.ask(Move("g", "a", "b"), gate=None)
    assert "a list of 1 moves is being carried out, requested by ann" in rig.why(second)
    rig.finish()
    rig.engine.lose_site("c")
    rig.pass_s(3.0)
    third = rig.ask(Move("g", "a", "c"))
    assert rig.why(third).startswith("the site c cannot be used")


def test_the_end_of_a_run_sees_the_move_under_way_to_its_end_and_leaves_the_rest(rig: Rig) -> None:
    name = rig.ask(Move("f", "a", "b"), Move("g", "a", "b"), gate=("f", "stopped"))
    shown = []
    rig.run.session.clock = Opening(rig, lambda: shown.append(rig.run.session.state.moves))
    rig.run.session.run(lambda passed: True)
    assert shown[0] is not None
    under_way = shown[0].as_json()
    assert {key: under_way[key] for key in ("fragment", "to", "reached", "step", "of", "asked_by")} == {
        "fragment": "f",
        "to": "b",
        "reached": "stopped",
        "step": 1,
        "of": 2,
        "asked_by": "ann",
    }
    assert rig.state(name) == "failed"
    assert "the run was stopped after 1 of 2 moves" in rig.why(name)
    assert rig.engine.homes() == {**OLD, "f": "b"}
    found = resume(rig.journal)
    assert found is not None
    assert found.placement == {**OLD, "f": "b", "g": "b"}
    assert "finishing" in found.why


@dataclass
class Opening:
    """A clock with whose first sleep the list is let go."""

    rig: Rig
    first: Callable[[], None]

    def now_s(self) -> float:
        return 0.0

    def monotonic_s(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        if not self.rig.engine.open.is_set():
            self.first()
            self.rig.engine.open.set()
        listed = self.rig.run.session.desk._under_way
        if listed is not None and listed.over is not None:
            listed.over.result(PATIENCE_S)


@pytest.mark.parametrize("stage", STAGES)
def test_the_end_of_a_run_does_not_wait_for_ever(rig: Rig, stage: Stage) -> None:
    """And whatever becomes of the move writes nothing more: the journal may be another run's by then."""
    rig.ask(Move("f", "a", "b"), gate=("f", stage))
    rig.run.session.run(lambda passed: True)
    assert any("the move of f to b did not end in time" in what for _, what in rig.run.book.incidents)
    listed = rig.run.session.desk._under_way
    assert listed is not None
    assert listed.over is not None
    before = rig.journal.records()
    rig.engine.open.set()
    listed.over.result(PATIENCE_S)
    assert rig.journal.records() == before
    found = resume(rig.journal)
    assert found is not None
    assert found.placement == OLD


@pytest.mark.parametrize("refused", [("turned back", "rolled back"), ("rolled back",), ("turned back",)])
def test_a_journal_that_cannot_be_written_keeps_nothing_from_going_back(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, refused: tuple[str, ...]
) -> None:
    append = Journal.append

    def full(journal: Journal, kind: str, **fields: object) -> None:
        if kind in refused:
            raise EngineError("the journal cannot be written: No space left on device")
        append(journal, kind, **fields)

    rig.engine.failing = ("g", "fenced")
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "append", full)
        name = rig.ask(Move("f", "a", "b"), Move("g", "a", "b"), gate=("f", "prepared"))
        rig.finish()
        assert rig.state(name) == "failed"
        assert "so the placement is as before: the target is full" in rig.why(name)
        assert rig.engine.homes() == OLD
        if "rolled back" in refused:
            again = rig.ask(Move("f", "a", "b"))
            assert "lacks the end of the last list" in rig.why(again)
    rig.pass_s(1.0)
    last = rig.journal.last_list()
    assert last is not None
    assert last.state == "rolled back"
    assert rig.journal.placement() == OLD


def test_that_a_list_is_done_is_written_as_soon_as_the_journal_can_be(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Journal.append

    def full(journal: Journal, kind: str, **fields: object) -> None:
        if kind == "done":
            raise EngineError("the journal cannot be written: No space left on device")
        append(journal, kind, **fields)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "append", full)
        name = rig.ask(Move("f", "a", "b"), gate=("f", "prepared"))
        rig.finish()
        assert rig.state(name) == "done"
    rig.pass_s(1.0)
    last = rig.journal.last_list()
    assert last is not None
    assert last.state == "done"
