"""Asking the process that runs a project for moves, from another process.

What runs is read off its status file and journal; a request goes through its mailbox, and the answer is
followed until the last move is made, refused or taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mooring.contracts.clock import Clock
from mooring.controller.journal import Journal
from mooring.controller.known_model import known_model_in
from mooring.controller.move_list import inverse_of_last, resume
from mooring.errors import EngineError, InputError
from mooring.model.deployment.move_times import MoveTimes
from mooring.model.deployment.moves import Figures, Move, MoveList, described_moves, ordered_moves
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.problem import Problem
from mooring.spark.runs.mailbox import FileMailbox
from mooring.spark.runs.run_files import RunFiles

_ASK_S = 0.1
_ACCEPT_S = 30.0
"""A runner that is alive takes a request within a look; one that hangs for this long does not."""

Step = Mapping[str, Any]
"""A move as an answer tells it: fragment, from, to, reached and, once done, pause_s."""


@dataclass(frozen=True)
class MoveAsker:
    problem: Problem
    files: RunFiles
    journal: Journal
    clock: Clock
    asked_by: str = ""
    """Who asks, in words, for the journal."""

    # What could be asked for

    def current(self) -> FragmentSites:
        """Of the running process, or where the next run would resume."""
        status = self.files.read_status() if self.files.running_pid() is not None else None
        if status is not None:
            return self._complete(_sites(status))
        found = resume(self.journal)
        if found is None:
            raise InputError(
                "the project has never run, so it has no placement to move from",
                remedy="start it with `mooring run`",
            )
        return found.placement

    def _complete(self, running: FragmentSites) -> FragmentSites:
        """What runs, if that is everything: moves lead from one whole placement to another."""
        if down := [name for name in self.problem.fragment_names if name not in running]:
            verb = "does" if len(down) == 1 else "do"
            raise EngineError(
                f"of the project {', '.join(down)} {verb} not run at the moment",
                remedy="`mooring status` shows the reason; repeat the command when all fragments run",
            )
        return running

    def to(self, goal: Placement, start: FragmentSites) -> MoveList:
        """The moves that lead to a placement."""
        return ordered_moves(self.at_measured_rates(), start, goal.by_fragment(), self._figures())

    def proposed(self, start: FragmentSites) -> MoveList:
        """What the running process proposed at its last look."""
        proposal = (self.files.read_status() or {}).get("proposal") or {"moves": []}
        moves = [Move(move["fragment"], move["from"], move["to"]) for move in proposal["moves"]]
        return described_moves(self.at_measured_rates(), start, moves, self._figures())

    def rollback(self, start: FragmentSites) -> MoveList:
        """The way back from the last list that was applied."""
        back = inverse_of_last(self.journal)
        if not back:
            raise InputError("no applied list of moves is left to undo", field="--rollback")
        return described_moves(self.at_measured_rates(), start, back, self._figures(), within_limits=False)

    def why_nothing(self) -> str:
        """Why nothing is proposed."""
        proposal = (self.files.read_status() or {}).get("proposal")
        if proposal is None:
            return "nothing is proposed until all fragments run"
        return f"nothing is proposed: {proposal['reason']}"

    # Asking

    def ask(self, wanted: MoveList, told: Callable[[int, Step], None]) -> dict[str, Any]:
        """Have the running process carry out exactly this list; `told` is called with each stage reached.

        Returns the answer: refused, failed or done, and where everything is then.
        """
        mailbox = FileMailbox(self.files.folder)
        steps = [(move.fragment, move.from_site, move.to_site) for move in wanted.moves]
        return self._answer(mailbox, mailbox.ask(wanted.old, steps, self.asked_by), told)

    def abort(self, told: Callable[[int, Step], None]) -> dict[str, Any]:
        """Have the running process take back the list it is carrying out; as `ask`, but the answer is
        aborted, or what became of the list instead.
        """
        mailbox = FileMailbox(self.files.folder)
        return self._answer(mailbox, mailbox.ask_abort(self.asked_by), told)

    def dismiss(self, moves: Sequence[Move]) -> dict[str, Any]:
        """Have the running process not propose exactly these moves for a while; as `ask`."""
        mailbox = FileMailbox(self.files.folder)
        steps = [(move.fragment, move.from_site, move.to_site) for move in moves]
        return self._answer(mailbox, mailbox.ask_dismiss(steps, self.asked_by), lambda at, step: None)

    def leave(self, site: str, told: Callable[[int, Step], None], *, force: bool) -> dict[str, Any]:
        """Have the running process empty a site and keep it empty; as `ask`."""
        mailbox = FileMailbox(self.files.folder)
        return self._answer(mailbox, mailbox.ask_leave(site, self.asked_by, force=force), told)

    def come_back(self, site: str, told: Callable[[int, Step], None]) -> dict[str, Any]:
        """Have the running process use a site again that was left; as `ask`."""
        mailbox = FileMailbox(self.files.folder)
        return self._answer(mailbox, mailbox.ask_return(site, self.asked_by), told)

    def _answer(self, mailbox: FileMailbox, name: str, told: Callable[[int, Step], None]) -> dict[str, Any]:
        try:
            answer = self._followed(mailbox, name, told)
        finally:
            mailbox.withdraw(name)
        if answer["state"] in ("done", "aborted"):
            self._await_status(answer["placement"])
        return answer

    def _followed(self, mailbox: FileMailbox, name: str, told: Callable[[int, Step], None]) -> dict[str, Any]:
        """Tell each step as it is reached, until the last."""
        shown: set[tuple[int, str]] = set()
        deadline_s = self.clock.monotonic_s() + _ACCEPT_S
        while True:
            answer = mailbox.answer(name)
            for at, step in enumerate(answer["steps"] if answer else ()):
                if (at, step["reached"]) not in shown:
                    shown.add((at, step["reached"]))
                    told(at, step)
            if answer is not None and answer["state"] != "running":
                return answer
            if self.files.running_pid() is None:
                raise EngineError(
                    "the run ended before it answered",
                    remedy="repeat `mooring run`: it finishes the list or takes it back",
                )
            if answer is None and self.clock.monotonic_s() > deadline_s:
                raise EngineError(f"the run did not answer within {_ACCEPT_S:g} s; nothing was moved")
            self.clock.sleep(_ASK_S)

    def _await_status(self, placement: Mapping[str, str]) -> None:
        """Until the status says what the answer does, so that the next question is not answered with what
        was.
        """
        deadline_s = self.clock.monotonic_s() + _ACCEPT_S
        while self.files.running_pid() is not None and self.clock.monotonic_s() < deadline_s:
            if _sites(self.files.read_status() or {"fragments": {}}) == placement:
                return
            self.clock.sleep(_ASK_S)

    # What predictions are made from

    def _figures(self) -> Figures:
        status = self.files.read_status() or {}
        fragments = status.get("fragments", {})
        batch_s, state_bytes = (
            {name: float(each[figure]) for name, each in fragments.items() if each.get(figure)}
            for figure in ("batch_s", "state_bytes")
        )
        times = MoveTimes(batch_s=batch_s, state_bytes=state_bytes).fitted(self.journal.past_moves())
        known = known_model_in(status)
        sites = status.get("sites") or {}
        quotas = {s.name: (sites.get(s.name) or {}).get("capacity_cores") for s in self.problem.sites}
        return Figures(
            times,
            known.batches(self.problem),
            known.memory(self.problem),
            {s.name: float(quotas[s.name] or s.capacity) for s in self.problem.sites},
        )

    def at_measured_rates(self) -> Problem:
        """The problem at the rates, costs and capacities that the run goes by."""
        return known_model_in(self.files.read_status()).problem(self.problem)


def _sites(status: Mapping[str, Any]) -> FragmentSites:
    return FragmentSites({name: fragment["site"] for name, fragment in status["fragments"].items()})
