"""The desk of a run: takes requests for moves out of the mailbox, carries them out, answers how far it is.

A request names the placement its asker saw and the moves it wants. It is refused unless that is what runs
now, and unless every move is allowed by what the runner itself knows of the problem.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mooring.controller.apply import apply_list, inverse_of_last
from mooring.controller.journal import Journal
from mooring.deployment.engine import Engine, MoveReport
from mooring.deployment.moves import Move, check_moves
from mooring.deployment.requests import Mailbox, MoveRequest
from mooring.errors import EngineError, MooringError
from mooring.placement.placement import FragmentSites
from mooring.problem.problem import Problem


@dataclass
class MoveDesk:
    engine: Engine
    problem: Problem
    journal: Journal
    mailbox: Mailbox
    moved: Callable[[FragmentSites], None] = field(default=lambda sites: None)
    """Called with where every fragment runs after each list, done or taken back."""

    def serve(self) -> bool:
        """Serve one request, if there is one; whether anything may have moved."""
        request = self.mailbox.take()
        if request is None:
            return False
        self.mailbox.sweep()
        return self._serve(request)

    def _serve(self, request: MoveRequest) -> bool:
        moves = [Move(*step) for step in request.moves]
        running = self.engine.homes()
        refusal = self._refusal(request, moves, running)
        if refusal is not None:
            self.mailbox.reply(
                request.id, {"state": "refused", "why": refusal, "placement": dict(running), "steps": []}
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
            with contextlib.suppress(OSError):  # a full disk is no reason to break off a move
                self.mailbox.reply(request.id, answer)

        try:
            apply_list(self.engine, self.journal, FragmentSites(request.old), moves, progress)
            answer["state"] = "done"
        except EngineError as failure:
            answer |= {"state": "failed", "why": str(failure)}
        finally:
            self.moved(self.engine.homes())
        self.mailbox.reply(request.id, answer | {"placement": dict(self.engine.homes())})
        return True

    def _refusal(self, request: MoveRequest, moves: list[Move], running: FragmentSites) -> str | None:
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
