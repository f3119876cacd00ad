"""Advice, measurement and publishing fail by themselves: the data plane goes on, and the failure is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from mooring.contracts.decider import Proposal
from mooring.contracts.engine import MoveReport
from mooring.contracts.picture import Picture
from mooring.controller.initial_placement import Wish
from mooring.controller.parts import Parts
from mooring.controller.session import SessionOptions
from mooring.errors import OvertakenError, described
from mooring.model.deployment.move_stages import Reached, ignored
from mooring.model.deployment.moves import Move
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.problem import Problem
from mooring.simulator.data_plane.arrivals import Constant
from mooring.simulator.data_plane.engine import SimulatedEngine
from mooring.simulator.runs.simulated_run import MemoryBook, SimulatedRun, simulated_run

PROBLEM = Problem.from_dict(
    {
        "sites": {name: {"capacity": 4} for name in "abc"},
        "streams": {"x": {"rate": 10}},
        "operators": {name: {"inputs": ["x"], "cost_us": 100} for name in "fgh"},
    }
)
OLD = FragmentSites({"f": "a", "g": "b", "h": "c"})


class Singular:
    name = "singular"

    def __init__(self) -> None:
        self.asked, self.mended = 0, False

    def decide(self, picture: Picture) -> Proposal:
        self.asked += 1
        if not self.mended:
            np.linalg.inv(np.zeros((2, 2)))
        return Proposal(picture.predict(picture.sites), (), "all is well")


def started(folder: Path, decider: Singular | None = None) -> SimulatedRun:
    engine = SimulatedEngine(PROBLEM, [Constant(10.0)], np.random.default_rng(0), horizon_s=5000.0)
    run = simulated_run(engine, folder, Wish("rod"), decider=decider, options=SessionOptions(look_s=2.0))
    run.session.start(Placement.from_fragments(PROBLEM, OLD), "by hand")
    return run


def pass_s(run: SimulatedRun, seconds: float) -> None:
    until_s = run.session.clock.monotonic_s() + seconds
    run.session.run(lambda passed: run.session.clock.monotonic_s() >= until_s)


def assert_the_data_plane_works(run: SimulatedRun) -> None:
    """It makes moves, and recovers from the loss of a site."""
    name = run.tray.ask(run.engine.homes(), [Move("f", "a", "b")])
    pass_s(run, 3.0)
    assert (run.tray.answer(name) or {})["state"] == "done"
    run.engine.lose_site("c")
    pass_s(run, 10.0)
    assert run.engine.homes().keys() == OLD.keys()
    assert "c" not in run.engine.homes().values()
    assert run.session.journal.placement() == run.engine.homes()


def zero() -> NoReturn:
    raise ZeroDivisionError("float division by zero")


def no_field(*_: object, **__: object) -> NoReturn:
    raise KeyError("durationMs")


def test_a_decider_that_raises_ends_no_run_and_is_reported_once(tmp_path: Path) -> None:
    decider = Singular()
    run = started(tmp_path, decider)
    pass_s(run, 60.0)
    (said,) = (what for _, what in run.book.incidents)
    assert said.startswith("deciding failed: LinAlgError: Singular matrix (")
    assert "test_parts.py:" in said or "adaptation.py:" in said
    assert 2 < decider.asked < 8  # after pauses that double, not at each of 30 looks
    assert run.book.looks[-1][0]["advice: deciding"].startswith("LinAlgError")
    assert_the_data_plane_works(run)
    decider.mended = True
    pass_s(run, 400.0)
    assert any("deciding works again" in what for _, what in run.book.incidents)
    assert "advice: deciding" not in run.session.troubles()


def measure(run: SimulatedRun, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(run.engine, "measure", no_field)


def batches(run: SimulatedRun, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(run.engine, "batches", no_field)


def status(run: SimulatedRun, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryBook, "write", no_field)


def incident(run: SimulatedRun, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryBook, "incident", no_field)


def placed(run: SimulatedRun, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryBook, "placed", no_field)


def moved(run: SimulatedRun, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryBook, "moved", no_field)


def noticed(run: SimulatedRun, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryBook, "noticed", no_field)


def watcher(run: SimulatedRun, patch: pytest.MonkeyPatch) -> None:
    run.session.watchers.append(no_field)


def ledger(run: SimulatedRun, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(run.session.adaptation.ledger, "take", no_field)


def followed(run: SimulatedRun, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(run.session.adaptation, "on", no_field)


def evaluated(run: SimulatedRun, patch: pytest.MonkeyPatch) -> None:
    patch.setattr("mooring.controller.adaptation.run_headroom", no_field)


def planned(run: SimulatedRun, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(run.session.replanning, "policy", no_field)


BROKEN: list[Callable[[SimulatedRun, pytest.MonkeyPatch], None]] = [
    measure, batches, status, incident, placed, moved, noticed, watcher, ledger, followed, evaluated, planned,
]  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN)
def test_moves_and_recovery_work_while_another_part_fails(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    broken: Callable[[SimulatedRun, pytest.MonkeyPatch], None],
) -> None:
    run = started(tmp_path)
    broken(run, monkeypatch)
    pass_s(run, 5.0)
    assert_the_data_plane_works(run)
    assert "KeyError" in " ".join([*run.session.troubles().values(), *(w for _, w in run.book.incidents)])


def test_a_measurement_that_fails_is_missing_and_not_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = started(tmp_path)
    pass_s(run, 10.0)
    monkeypatch.setattr(run.engine, "measure", no_field)
    seen = run.session.collect().measured
    assert (seen.seconds, seen.stream_rates, seen.fragments) == (0.0, {}, {})


def test_a_fragment_whose_start_raises_anything_is_in_trouble_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = started(tmp_path)
    start = run.engine.start

    def refusing(fragment: str, site: str) -> None:
        if fragment == "h":
            zero()
        start(fragment, site)

    monkeypatch.setattr(run.engine, "start", refusing)
    run.engine.lose_site("c")
    pass_s(run, 10.0)
    assert "ZeroDivisionError" in run.session.troubles()["h"]
    monkeypatch.undo()
    pass_s(run, 30.0)
    assert run.engine.homes().keys() == OLD.keys()


def test_a_move_that_raises_anything_is_taken_back_and_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = started(tmp_path)
    move = run.engine.move

    def breaking(fragment: str, to_site: str, reached: Reached = ignored) -> MoveReport:
        if fragment == "g":
            zero()
        return move(fragment, to_site, reached)

    monkeypatch.setattr(run.engine, "move", breaking)
    name = run.tray.ask(OLD, [Move("f", "a", "b"), Move("g", "b", "c")])
    pass_s(run, 1.0)
    answer = run.tray.answer(name) or {}
    assert answer["state"] == "failed"
    assert "ZeroDivisionError: float division by zero" in str(answer["why"])
    assert run.engine.homes() == run.session.journal.placement() == OLD
    assert not run.session.desk.busy


def test_a_request_that_breaks_the_desk_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = started(tmp_path)
    monkeypatch.setattr(run.session.drains, "serve", no_field)
    name = run.tray.ask_leave("c")
    pass_s(run, 1.0)
    assert "KeyError" in str((run.tray.answer(name) or {})["why"])


@pytest.mark.parametrize("ends", [KeyboardInterrupt(), SystemExit(1), OvertakenError("somebody else's")])
def test_what_ends_a_run_on_purpose_still_ends_it(tmp_path: Path, ends: BaseException) -> None:
    run = started(tmp_path)

    def over() -> None:
        raise ends

    run.session.chores["being told to end"] = over
    with pytest.raises(type(ends)):
        run.session.turn()


def test_a_part_that_flaps_or_changes_its_words_fills_no_log() -> None:
    told, now_s = list[str](), [0.0]
    parts = Parts(told.append, lambda: now_s[0])
    for number in range(20_000):
        now_s[0] = float(number)
        if number % 2:
            parts.failed("data plane", "trimming the channels", f"reason {number}")
        else:
            parts.works("data plane", "trimming the channels")
    assert told[0] == "trimming the channels failed: reason 1"
    assert len(told) < 40


def test_a_lease_that_cannot_be_looked_up_is_no_lost_lease(tmp_path: Path) -> None:
    run = started(tmp_path)

    def stale() -> NoReturn:
        raise OSError(116, "Stale file handle")

    run.session.lease.sign = stale
    pass_s(run, 5.0)
    assert "Stale file handle" in run.session.troubles()["data plane: keeping the lease"]
    assert_the_data_plane_works(run)


def test_a_failure_is_described_by_type_message_and_place() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        zero()
    assert described(raised.value).startswith("ZeroDivisionError: float division by zero (")
    assert "test_parts.py:" in described(raised.value)
