"""However a list of moves is cut, what is started next is the old placement or the new one, never neither,
and never do two of a fragment commit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mooring.contracts.engine import Measurement, MoveReport, carry_out
from mooring.controller.journal import Journal
from mooring.controller.move_list import MoveListRun, inverse_of_last, resume, settle
from mooring.errors import EngineError
from mooring.model.deployment.channels import Channel
from mooring.model.deployment.move_stages import STAGES, Reached, ignored
from mooring.model.deployment.move_times import PastMove
from mooring.model.deployment.moves import Move, apply_moves
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.problem import Problem
from mooring.simulator.data_plane.arrivals import Constant
from mooring.simulator.data_plane.engine import SimulatedEngine
from tests.controller.carried_out import apply_list

OLD = FragmentSites({"f": "a", "g": "a", "h": "b"})
MOVES = (Move("f", "a", "b"), Move("h", "b", "a"), Move("g", "a", "b"))
NEW = apply_moves(OLD, MOVES)


class Crash(BaseException):
    """The process is gone: nothing may tidy up."""


@dataclass
class Storage:
    """What outlasts a crash: every query ever started, and the epoch each fragment's checkpoint is in."""

    epoch: dict[str, int] = field(default_factory=dict)
    started: list[tuple[str, str, int]] = field(default_factory=list)

    def start(self, fragment: str, site: str) -> None:
        self.epoch[fragment] = self.epoch.get(fragment, 0) + 1
        self.started.append((fragment, site, self.epoch[fragment]))

    def able_to_commit(self, fragment: str) -> list[str]:
        """Sites at which a query of the fragment could commit, were it still alive."""
        return [site for name, site, epoch in self.started if name == fragment and epoch == self.epoch[name]]


@dataclass
class Double:
    """An engine that fences as Spark's does, and crashes or fails where it is told to."""

    storage: Storage
    at: Callable[[str, str], None] = lambda fragment, stage: None
    running: dict[str, str] = field(default_factory=dict)

    def start(self, fragment: str, site: str) -> None:
        assert fragment not in self.running
        self.storage.start(fragment, site)
        self.running[fragment] = site
        assert len(self.storage.able_to_commit(fragment)) == 1

    def start_all(self, sites: FragmentSites) -> None:
        for fragment, site in sites.items():
            self.start(fragment, site)

    def stop(self, fragment: str, patience_s: float = 0.0) -> None:
        del self.running[fragment]

    def homes(self) -> FragmentSites:
        return FragmentSites(dict(self.running))

    def connect(self, channel: Channel) -> None: ...

    def disconnect(self, channel: Channel) -> None: ...

    def move(self, fragment: str, to_site: str, reached: Reached = ignored) -> MoveReport:
        from_site = self.running[fragment]
        try:
            for stage in STAGES:
                self.at(fragment, stage)
                if stage == "stopped":
                    self.stop(fragment)
                elif stage == "started":
                    self.start(fragment, to_site)
                reached(stage)
        except EngineError:
            if self.running.pop(fragment, None) != from_site:
                self.start(fragment, from_site)
            else:
                self.running[fragment] = from_site
            raise
        return MoveReport(fragment, from_site, to_site, 0.1)

    def measure(self) -> Measurement:
        return Measurement(0.0, 0.0)


def running_double(storage: Storage, placement: FragmentSites, **options: Any) -> Double:
    engine = Double(storage, **options)
    for fragment, site in placement.items():
        engine.start(fragment, site)
    return engine


def journal_in(folder: Path) -> Journal:
    folder.mkdir(exist_ok=True)  # as its owner's folder is there before it
    return Journal(folder, lambda: 0.0)


def resumed(folder: Path, storage: Storage) -> Double:
    """What a new run does: decide, write the decision down, start everything."""
    found = resume(journal_in(folder))
    assert found is not None
    settle(journal_in(folder))
    engine = running_double(storage, found.placement)
    journal_in(folder).note_placement(found.placement, found.why)
    for fragment in found.placement:
        assert storage.able_to_commit(fragment) == [found.placement[fragment]]
    return engine


def test_a_list_ends_in_the_new_placement_and_its_inverse_in_the_old_one(tmp_path: Path) -> None:
    journal, seen = journal_in(tmp_path), []
    journal.note_placement(OLD, "planned")
    engine = running_double(Storage(), OLD)
    apply_list(engine, journal, OLD, MOVES, lambda step, move, stage, report: seen.append((step, stage)))
    assert engine.running == NEW == journal.placement()
    assert journal.past_moves() == [PastMove(0.1, to_site=move.to_site) for move in MOVES]
    assert seen == [(step, stage) for step in range(3) for stage in ("begin", *STAGES, "done")]
    back = inverse_of_last(journal)
    apply_list(engine, journal, NEW, back)
    assert engine.running == OLD == journal.placement()


def cuts(folder: Path) -> tuple[bytes, list[int]]:
    """A whole journal, and the length of it after each of its records."""
    journal = journal_in(folder)
    journal.note_placement(OLD, "planned")
    apply_list(running_double(Storage(), OLD), journal, OLD, MOVES)
    content = journal.file.read_bytes()
    return content, [at + 1 for at, byte in enumerate(content) if byte == ord("\n")]


def test_the_journal_cut_after_every_record_recovers_to_the_old_or_the_new_placement(tmp_path: Path) -> None:
    content, ends = cuts(tmp_path / "whole")
    assert len(ends) == 2 + 3 * 6 + 1
    outcomes = []
    for end in ends:
        folder = tmp_path / str(end)
        journal_in(folder).file.write_bytes(content[:end])
        engine = resumed(folder, Storage())
        outcomes.append("old" if engine.running == OLD else "new" if engine.running == NEW else "neither")
        again = resumed(folder, Storage())  # and a crash right after that changes nothing any more
        assert again.running == engine.running
    assert "neither" not in outcomes
    assert outcomes == sorted(outcomes, key=["old", "new"].index)
    assert {"old", "new"} == set(outcomes)


def test_the_journal_torn_at_every_byte_reads_as_if_the_torn_record_was_never_written(tmp_path: Path) -> None:
    content, ends = cuts(tmp_path / "whole")
    journal = journal_in(tmp_path / "torn")
    for begin, end in zip([0, *ends], ends, strict=False):
        journal.file.write_bytes(content[:begin])
        before = journal.records()
        for at in range(begin, end, 1 if end == ends[-1] else 17):
            journal.file.write_bytes(content[:at])
            assert journal.records() == before
    journal.append("placement", placement=OLD, why="after the tear")
    assert journal.records() == [*before, journal.records()[-1]]
    assert journal.placement() == OLD


def test_a_damaged_line_before_the_last_is_refused_with_its_number(tmp_path: Path) -> None:
    content, ends = cuts(tmp_path)
    journal = journal_in(tmp_path)
    for wrong in (b"#", b"\n", b"\xff"):
        journal.file.write_bytes(content[: ends[1] + 30] + wrong + content[ends[1] + 31 :])
        with pytest.raises(EngineError, match=r"line 3 .* is damaged"):
            journal.records()


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("fragment", ["f", "g", "h"])
@pytest.mark.parametrize("told", [False, True])
def test_a_crash_at_every_step_recovers_and_never_two_commit(
    tmp_path: Path, fragment: str, stage: str, told: bool
) -> None:
    """Before a stage is reached, and after it but before anybody is told."""

    def crash(name: str, reached: str) -> None:
        if (name, reached) == (fragment, stage):
            raise Crash

    storage, journal = Storage(), journal_in(tmp_path)
    journal.note_placement(OLD, "planned")
    engine = running_double(storage, OLD, **({} if told else {"at": crash}))

    def progress(step: int, move: Move, reached: str, report: MoveReport | None) -> None:
        if told:
            crash(move.fragment, reached)

    with pytest.raises(Crash):
        apply_list(engine, journal, OLD, MOVES, progress)
    assert resumed(tmp_path, storage).running in (OLD, NEW)
    noted = journal.last_list()
    assert noted is not None
    assert noted.ended is not None


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_move_that_fails_takes_the_list_back(tmp_path: Path, step: int, stage: str) -> None:
    def fail(fragment: str, reached: str) -> None:
        if (fragment, reached) == (MOVES[step].fragment, stage) and not failed:
            failed.append(1)
            raise EngineError("the target is full")

    failed: list[int] = []
    journal, engine = journal_in(tmp_path), running_double(Storage(), OLD, at=fail)
    journal.note_placement(OLD, "planned")
    with pytest.raises(EngineError, match=f"move {step + 1} of 3 failed.*the target is full"):
        apply_list(engine, journal, OLD, MOVES)
    assert engine.running == OLD == journal.placement()
    assert inverse_of_last(journal) == []


def test_a_crash_while_taking_back_ends_in_the_old_placement(tmp_path: Path) -> None:
    def trouble(fragment: str, reached: str) -> None:
        if (fragment, reached) == ("g", "started"):
            raise EngineError("the target is full")
        if (fragment, reached) == ("h", "fenced") and engine.running["f"] == "b" and tried:
            raise Crash
        tried.extend([1] if (fragment, reached) == ("g", "prepared") else [])

    tried: list[int] = []
    storage, journal = Storage(), journal_in(tmp_path)
    journal.note_placement(OLD, "planned")
    engine = running_double(storage, OLD, at=trouble)
    with pytest.raises(Crash):
        apply_list(engine, journal, OLD, MOVES)
    found = resume(journal)
    assert found is not None
    assert found.placement == OLD
    assert "had failed" in found.why


@pytest.mark.parametrize("stage", ["prepared", "fenced", "started"])
@pytest.mark.parametrize("step", [0, 2])
def test_an_aborted_list_cut_after_every_record_goes_back_once_the_abort_is_written(
    tmp_path: Path, step: int, stage: str
) -> None:
    def abort(fragment: str, reached: str) -> None:
        if (fragment, reached) == (MOVES[step].fragment, stage):
            run.abort("bob")

    journal = journal_in(tmp_path / "whole")
    journal.note_placement(OLD, "planned")
    engine = running_double(Storage(), OLD, at=abort)
    run = MoveListRun(engine, journal, OLD, MOVES, asked_by="ann")
    assert run.carry_out() == "aborted"
    assert engine.running == OLD == journal.placement()
    assert not run.owed
    kinds = [record["kind"] for record in journal.records()]
    lines = journal.file.read_bytes().splitlines(keepends=True)
    for end in range(1, len(lines) + 1):
        cut = journal_in(tmp_path / str(end))
        cut.file.write_bytes(b"".join(lines[:end]))
        found = resume(cut)
        assert found is not None
        assert found.placement in ((OLD,) if "abort" in kinds[:end] else (OLD, NEW))


class FullDisk(Journal):
    """A journal that takes so many records, and no more until it is mended."""

    room = 0

    def append(self, kind: str, **fields: object) -> None:
        if self.room == 0:
            raise EngineError("the journal cannot be written: No space left on device")
        self.room -= 1
        super().append(kind, **fields)


@pytest.mark.parametrize("mended", [False, True])
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("room", range(2, 2 + 3 * 6 + 2))
def test_a_disk_that_fills_at_any_record_leaves_the_old_placement_or_the_new_one(
    tmp_path: Path, room: int, fails: bool, mended: bool
) -> None:
    """Running, and in the journal, whether it is mended or Mooring crashes; the last move may fail too."""

    def fail(fragment: str, reached: str) -> None:
        if fails and (fragment, reached) == ("g", "fenced"):
            raise EngineError("the target is full")

    storage, journal = Storage(), FullDisk(tmp_path, lambda: 0.0)
    journal.room = room
    journal.note_placement(OLD, "planned")
    engine = running_double(storage, OLD, at=fail)
    run = MoveListRun(engine, journal, OLD, MOVES)
    ending = run.carry_out()
    assert engine.running == (NEW if ending == "done" else OLD)
    written_up_to_the_last_start = room >= 2 + 3 * 6 - 1
    assert ending == ("done" if written_up_to_the_last_start and not fails else "failed")
    if mended:
        journal.room = 1
        if run.owed:
            run.close(run.owed)
        assert not run.owed
        assert journal.placement() == engine.homes()
    assert resumed(tmp_path, storage).running in (OLD, NEW)


def test_a_list_that_does_not_start_where_things_are_is_refused_before_it_is_written(tmp_path: Path) -> None:
    journal = journal_in(tmp_path)
    with pytest.raises(Exception, match="expected it at 'b'"):
        journal.begin_list(OLD, [Move("f", "b", "a")])
    assert journal.records() == []
    assert resume(journal) is None


def test_the_simulator_is_driven_by_the_same_calls(tmp_path: Path) -> None:
    problem = Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
            "streams": {"x": {"rate": 100}},
            "operators": {n: {"inputs": ["x"], "cost_us": 50, "state_bytes": 1e6} for n in ("f", "g")},
        }
    )
    rng = np.random.default_rng(0)
    engine = SimulatedEngine(problem, [Constant(100.0)], rng, horizon_s=10.0)
    start = Placement.from_dict(problem, {"f": "a", "g": "a"})
    carry_out(engine, start)
    journal = journal_in(tmp_path)
    reports = apply_list(engine, journal, start.by_fragment(), [Move("g", "a", "b")])
    assert engine.homes() == FragmentSites({"f": "a", "g": "b"}) == journal.placement()
    assert reports[0].pause_s > 1.0
