"""Carrying out a list of moves on an engine, step by step, each announced in the journal.

Every start of a fragment fences off what ran before, so a crash leaves nothing half done in storage: what is
left to decide is where each fragment belongs. The rule is one for failures and crashes alike. As long as no
move of the list is known to be done, the old placement holds. Once one is, the list is finished, unless a
move failed for a reason of its own: then the moves done are taken back, and the old placement holds. The
states of a list are a table in `journal.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mooring.controller.journal import FORWARD, Journal
from mooring.deployment.engine import Engine, MoveReport
from mooring.deployment.move_stages import Stage
from mooring.deployment.moves import Move
from mooring.errors import EngineError, MooringError
from mooring.placement.placement import FragmentSites

Progress = Callable[[int, Move, str, MoveReport | None], None]
"""Step, move, what was reached ("begin", a stage, "done", "taken back"), and the report once done."""


def quiet(step: int, move: Move, reached: str, report: MoveReport | None) -> None:
    """Tell nobody."""


def apply_list(
    engine: Engine,
    journal: Journal,
    old: FragmentSites,
    moves: Sequence[Move],
    progress: Progress = quiet,
) -> list[MoveReport]:
    """Carry out exactly these moves. On failure the moves done are taken back and the failure is raised."""
    name = journal.begin_list(old, moves)
    reports: list[MoveReport] = []
    for step, move in enumerate(moves):
        try:
            reports.append(_carry_out(engine, journal, name, step, move, progress))
        except MooringError as failure:
            _take_back(engine, journal, name, moves[:step], progress)
            raise EngineError(
                f"move {step + 1} of {len(moves)} failed, so the placement is as before: {failure.message}",
                remedy=failure.remedy,
            ) from failure
    journal.append("done", list=name)
    return reports


def _carry_out(
    engine: Engine, journal: Journal, name: str, step: int, move: Move, progress: Progress
) -> MoveReport:
    def reached(stage: Stage) -> None:
        journal.append("step", list=name, step=step, stage=stage)
        progress(step, move, stage, None)

    reached("begin")
    report = engine.move(move.fragment, move.to_site, reached)
    figures = {"pause_s": report.pause_s, "state_bytes": report.state_bytes}
    journal.append("step", list=name, step=step, stage="done", **figures)
    progress(step, move, "done", report)
    return report


def _take_back(engine: Engine, journal: Journal, name: str, done: Sequence[Move], progress: Progress) -> None:
    journal.append("turned back", list=name)
    for step, move in reversed(list(enumerate(done))):
        engine.move(move.fragment, move.from_site)
        progress(step, move, "taken back", None)
    journal.append("rolled back", list=name)


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
        why = f"going back: a list of {len(last.moves)} moves had failed"
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
