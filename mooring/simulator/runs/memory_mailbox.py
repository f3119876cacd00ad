"""Requests handed over inside one process: a mailbox without files."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from mooring.contracts.mailbox import AbortRequest, LeaveRequest, MoveRequest, Request, ReturnRequest
from mooring.model.deployment.moves import Move
from mooring.model.placement.placement import FragmentSites


class Tray:
    def __init__(self) -> None:
        self._waiting: deque[Request] = deque()
        self._answers: dict[str, dict[str, object]] = {}
        self._count = 0

    def ask(self, old: FragmentSites, moves: Sequence[Move], asked_by: str = "") -> str:
        """Put a request for moves on the tray; returns its name."""
        steps = [(move.fragment, move.from_site, move.to_site) for move in moves]
        return self._put(MoveRequest(self._next_name(), 0.0, 0, dict(old), steps, asked_by))

    def ask_abort(self, asked_by: str = "") -> str:
        """Ask to have the list that is being carried out taken back; returns the request's name."""
        return self._put(AbortRequest(self._next_name(), 0.0, 0, asked_by))

    def ask_leave(self, site: str, asked_by: str = "", *, force: bool = False) -> str:
        """Ask to have a site emptied and kept empty; returns the request's name."""
        return self._put(LeaveRequest(self._next_name(), 0.0, 0, site, force, asked_by))

    def ask_return(self, site: str, asked_by: str = "") -> str:
        """Ask to have a site used again; returns the request's name."""
        return self._put(ReturnRequest(self._next_name(), 0.0, 0, site, asked_by))

    def _next_name(self) -> str:
        self._count += 1
        return str(self._count)

    def _put(self, request: Request) -> str:
        self._waiting.append(request)
        return request.id

    def answer(self, name: str) -> dict[str, object] | None:
        return self._answers.get(name)

    # The runner's side

    def take(self) -> Request | None:
        return self._waiting.popleft() if self._waiting else None

    def reply(self, name: str, answer: Mapping[str, object]) -> None:
        self._answers[name] = dict(answer)

    def sweep(self) -> None:
        """Answers stay: there are as many as were asked for in one run."""
