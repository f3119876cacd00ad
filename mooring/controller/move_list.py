"""Carrying out a list of moves on an engine, step by step, each announced in the journal.

Every start of a fragment fences off what ran before, so a crash leaves nothing half done in storage: what is
left to decide is where each fragment belongs. The rule is one for failures, aborts and crashes alike. As long
as no move of the list is known to be done, the old placement holds. Once one is, the list is finished, unless
a move failed for a reason of its own or a user aborted the list: then the moves done are taken back, and the
old placement holds. Fragments that went on elsewhere meanwhile, because their site was lost, stay there. The
states of a list are a table in `journal.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal, Protocol

from mooring.contracts.engine import Engine, MoveReport
from mooring.controller.journal import FORWARD, Journal
from mooring.errors import EngineError, MooringError, described
from mooring.model.deployment.move_stages import Stage
from mooring.model.deployment.moves import Move
from mooring.model.placement.placement import FragmentSites

Progress = Callable[[int, Move, str, MoveReport | None], None]
"""Step, move, what was reached ("begin", a stage, "done", "taken back"), and the report once done."""
Course = Literal["onward", "back", "halt"]
"""What is wanted of a list: carry it out; take it back (an abort); or, since the run ends, begin nothing more
and leave the rest to the next run, by the journal.
"""
Ending = Literal["done", "failed", "aborted", "left"]


def quiet(step: int, move: Move, reached: str, report: MoveReport | None) -> None:
    """Tell nobody."""


class MoveListRun:
    """One list, announced in the journal and carried out by whoever calls `carry_out`. Another thread may
    change its course.
    """

    def __init__(
        self,
        engine: Engine,
        journal: Journal,
        old: FragmentSites,
        moves: Sequence[Move],
        progress: Progress = quiet,
        asked_by: str = "",
    ) -> None:
        self.engine, self.journal, self.moves = engine, journal, tuple(moves)
        self._tell = progress
        self.name = journal.begin_list(old, moves, asked_by)
        self.reports: list[MoveReport] = []
        self.failure: MooringError | None = None
        """Why the list was taken back, or what of it could not be."""
        self.unshown = ""
        """Why it could not be shown how far the list is."""
        self.owed: Literal["", "done", "rolled back"] = ""
        """The record that ends the list, while it could not be written."""
        self._course: Course = "onward"
        self._cut_short = False
        self._abandoned = False
        self._finished = False
        self._lock = threading.Lock()

    # From another thread

    def abort(self, asked_by: str) -> bool:
        """Turn back at the next stage; False if every move is done already."""
        with self._lock:
            if self._finished:
                return False
            if self._course == "onward":
                self._course = "back"
                # Should it not be possible to write now, the list is taken back all the same.
                self._noted("abort", asked_by=asked_by)
            return True

    def halt(self) -> None:
        """The run ends: begin no further move."""
        with self._lock:
            self._course = "halt"

    def abandon(self) -> None:
        """The run is over before the move under way is: go no further, and write nothing more."""
        with self._lock:
            self._course, self._abandoned = "halt", True

    # Carrying it out

    def carry_out(self) -> Ending:
        """Every move, or none where one fails: what is done by then is taken back."""
        for step, move in enumerate(self.moves):
            try:
                self.reports.append(self._carry_out(step, move))
            except MooringError as failure:
                return self._turned_back(step, failure)
            except Exception as failure:  # a full disk, say, or a mistake of ours: the move was not done
                return self._turned_back(step, EngineError(described(failure)))
        with self._lock:
            self._finished = self._course != "back"
        if not self._finished:
            self._cut_short = True
            return self._turned_back(len(self.moves), EngineError("aborted"))
        if self._abandoned:
            return self._left()
        self.close("done")
        return "done"

    def _carry_out(self, step: int, move: Move) -> MoveReport:
        def reached(stage: Stage) -> None:
            self._keep_course(stage)
            self.journal.append("step", list=self.name, step=step, stage=stage)
            self._progress(step, move, stage, None)

        reached("begin")
        at = self.engine.homes().get(move.fragment)
        if at not in (None, move.from_site):
            raise EngineError(f"{move.fragment!r} went from {move.from_site!r} to {at!r} meanwhile")
        report = self.engine.move(move.fragment, move.to_site, reached)
        if self._abandoned:
            raise EngineError("the run is over")
        figures = {
            "fragment": move.fragment,
            "to": move.to_site,
            "pause_s": report.pause_s,
            "state_bytes": report.state_bytes,
            "moved_as": report.moved_as,
            "batch_s": report.batch_s,
        }
        # It is done, written or not: should the journal have no room, the next step finds out.
        self._noted("step", step=step, stage="done", **figures)
        self._progress(step, move, "done", report)
        return report

    def _keep_course(self, stage: Stage) -> None:
        """An abort ends a move at any stage. The end of the run does so only while nothing has stopped: from
        then on, starting the fragment at its target is the shortest way.
        """
        early = stage in ("begin", "prepared")
        if self._course == "back" or (self._course == "halt" and (early or self._abandoned)):
            self._cut_short = True
            raise EngineError("aborted" if self._course == "back" else "the run ends")

    # Turning back

    def _turned_back(self, step: int, failure: MooringError) -> Ending:
        """The move of that step was not done. A journal that cannot be written now keeps nothing from going
        back: until it can, it says of the list what it said before, which is safe to go on from.
        """
        if self._abandoned or (self._cut_short and self._course == "halt"):
            return self._left()
        self._noted("turned back", why=failure.message)
        barred = self._take_back(step)
        if barred is None:
            return self._left()
        if stayed := {name: at for name, (at, _) in barred.items() if at is not None}:
            self._noted("relocated", sites=stayed, why="the list was taken back")
        said = "aborted" if self._cut_short else f"move {step + 1} of {len(self.moves)} failed"
        outcome = "so the placement is as before"
        if barred:
            outcome = "and the placement differs from before: " + "; ".join(why for _, why in barred.values())
        reason = "" if self._cut_short else f": {failure.message}"
        self.failure = EngineError(f"{said}, {outcome}{reason}", remedy=failure.remedy)
        self.close("rolled back")
        return "aborted" if self._cut_short else "failed"

    def _take_back(self, step: int) -> dict[str, tuple[str | None, str]] | None:
        """The moves before that step. Returns the fragments that are not back: where they run, if anywhere,
        and why. None if the run ends before all have been tried.
        """
        barred: dict[str, tuple[str | None, str]] = {}
        for at, move in reversed(list(enumerate(self.moves[:step]))):
            if self._course == "halt":
                return None
            name, home = move.fragment, self.engine.homes().get(move.fragment)
            if home == move.from_site:
                continue
            if home != move.to_site:  # its site was lost: recovery has put it elsewhere, or will
                barred[name] = (home, f"{name} was at {move.to_site}, which was lost")
                continue
            try:
                self.engine.move(name, move.from_site)
            except Exception as failure:
                barred[name] = (home, f"{name} stays at {home}: {described(failure)}")
            else:
                self._progress(at, move, "taken back", None)
        return barred

    def _left(self) -> Ending:
        self.failure = EngineError(
            f"the run was stopped after {len(self.reports)} of {len(self.moves)} moves",
            remedy="the next `mooring run` finishes the list or takes it back, and reports which",
        )
        return "left"

    def _progress(self, step: int, move: Move, reached: str, report: MoveReport | None) -> None:
        """Showing how far a list is breaks off no move."""
        try:
            self._tell(step, move, reached, report)
        except Exception as failure:
            self.unshown = described(failure)

    # The journal

    def close(self, how: Literal["done", "rolled back"]) -> None:
        """Write down that the list has ended; what cannot be written now is owed."""
        self.owed = "" if self._noted(how) else how

    def _noted(self, kind: str, **fields: object) -> bool:
        try:
            self.journal.append(kind, list=self.name, **fields)
        except EngineError:
            return False
        return True


@dataclass(frozen=True)
class Resumption:
    """What a new run has to start, and why."""

    placement: FragmentSites
    why: str


def resume(journal: Journal) -> Resumption | None:
    """Where every fragment belongs after the last run, however it ended; None if nothing is known.

    Writes nothing: call `settle` once the decision is taken, or the next run decides the same again.
    """
    last = journal.last_list()
    if last is None or last.ended:
        placement = journal.placement()
        return None if placement is None else Resumption(placement, "as the last run had it")
    if FORWARD[last.state]:
        why = f"finishing a list of {len(last.moves)} moves that was cut short after {last.done}"
        return Resumption(last.new, why)
    why = f"going back: a list of {len(last.moves)} moves was cut short before its first was done"
    if last.state == "turned back":
        why = f"going back: a list of {len(last.moves)} moves had failed or was aborted"
    return Resumption(last.back, why)


def settle(journal: Journal) -> None:
    """Close an unfinished list the way `resume` decided, before anything is started by it."""
    last = journal.last_list()
    if last is not None and not last.ended:
        journal.append("done" if FORWARD[last.state] else "rolled back", list=last.id)


def inverse_of_last(journal: Journal) -> list[Move]:
    """The moves that undo the last list that was done; empty if there is none."""
    last = journal.last_list()
    if last is None or last.state != "done":
        return []
    return [move.inverse() for move in reversed(last.moves)]


class Carrier(Protocol):
    """How a list of moves is carried out: beside the run's turns, or at once.

    A move takes seconds, or minutes where a site is slow. On real sites a thread carries the list out, and
    the run goes on looking after everything else. In virtual time a move takes no time, and a thread would
    make the same seed give different bytes.
    """

    def begin(self, work: Callable[[], None]) -> Future[None]:
        """Have it done; the future tells when it is over, and what it raised."""
        ...


class AtOnce:
    """It is over when `begin` returns."""

    def begin(self, work: Callable[[], None]) -> Future[None]:
        over: Future[None] = Future()
        try:
            work()
        except Exception as failure:
            over.set_exception(failure)
        else:
            over.set_result(None)
        return over


class InBackground:
    """A thread for each piece of work, which ends with the process."""

    def begin(self, work: Callable[[], None]) -> Future[None]:
        over: Future[None] = Future()

        def carry_out() -> None:
            try:
                work()
            except BaseException as failure:
                over.set_exception(failure)
            else:
                over.set_result(None)

        threading.Thread(target=carry_out, name="carry out moves", daemon=True).start()
        return over
