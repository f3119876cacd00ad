"""The runner's desk: takes requests for moves out of the mailbox and carries them out, telling how far it is.

A request names the placement its asker saw and the moves it wants. It is refused unless that is what runs
now, and unless every move is allowed by what the runner itself knows of the problem.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mooring.controller.apply import apply_list, inverse_of_last
from mooring.controller.journal import Journal
from mooring.deployment.engine import MoveReport
from mooring.deployment.moves import Move, check_moves
from mooring.errors import EngineError, MooringError
from mooring.problem.problem import Problem
from mooring.spark.running.engine import SparkEngine
from mooring.spark.running.mailbox import Mailbox, MoveRequest


@dataclass
class MoveDesk:
    engine: SparkEngine
    problem: Problem
    journal: Journal
    mailbox: Mailbox
    moved: Callable[[dict[str, str]], None] = field(default=lambda placement: None)
    """Told where every fragment runs after each list, done or taken back."""

    def __call__(self) -> bool:
        """Serve one request, if there is one; whether anything may have moved."""
        request = self.mailbox.take()
        if request is None:
            return False
        self.mailbox.sweep()
        return self._serve(request)

    def _serve(self, request: MoveRequest) -> bool:
        moves = [Move(*step) for step in request.moves]
        running = self._running()
        refusal = self._refusal(request, moves, running)
        if refusal is not None:
            self.mailbox.reply(
                request.id, {"state": "refused", "why": refusal, "placement": running, "steps": []}
            )
            return False
        steps: list[dict[str, Any]] = []
        answer: dict[str, Any] = {"state": "running", "steps": steps}

        def progress(step: int, move: Move, reached: str, report: MoveReport | None) -> None:
            if step == len(steps):
                steps.append({"fragment": move.fragment, "from": move.from_site, "to": move.to_site})
            steps[step] |= {"reached": reached}
            if report is not None:
                steps[step] |= {"pause_s": report.pause_s, "state_bytes": report.state_bytes}
            self.mailbox.reply(request.id, answer)

        try:
            apply_list(self.engine, self.journal, request.old, moves, progress)
            answer["state"] = "done"
        except EngineError as failure:
            answer |= {"state": "failed", "why": str(failure)}
        finally:
            self.moved(self._running())
        self.mailbox.reply(request.id, answer | {"placement": self._running()})
        return True

    def _running(self) -> dict[str, str]:
        return {name: made.site for name, made in self.engine.running.items()}

    def _refusal(self, request: MoveRequest, moves: list[Move], running: dict[str, str]) -> str | None:
        if not moves:
            return "there is nothing to move"
        if request.old != running:
            return "the placement has changed since the list was made"
        try:
            back = moves == inverse_of_last(self.journal)
            check_moves(self.problem, running, moves, within_limits=not back)
        except MooringError as failure:
            return str(failure)
        return None
