"""Requests handed over inside one process: a mailbox without files."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from mooring.deployment.moves import Move
from mooring.deployment.requests import MoveRequest
from mooring.placement.placement import FragmentSites


class Tray:
    def __init__(self) -> None:
        self._waiting: deque[MoveRequest] = deque()
        self._answers: dict[str, dict[str, object]] = {}
        self._count = 0

    def ask(self, old: FragmentSites, moves: Sequence[Move]) -> str:
        """Put a request on the tray; returns its name."""
        self._count += 1
        name = str(self._count)
        steps = [(move.fragment, move.from_site, move.to_site) for move in moves]
        self._waiting.append(MoveRequest(name, created_s=0.0, asker_pid=0, old=dict(old), moves=steps))
        return name

    def answer(self, name: str) -> dict[str, object] | None:
        return self._answers.get(name)

    # The runner's side

    def take(self) -> MoveRequest | None:
        return self._waiting.popleft() if self._waiting else None

    def reply(self, name: str, answer: Mapping[str, object]) -> None:
        self._answers[name] = dict(answer)

    def sweep(self) -> None:
        """Answers stay: there are as many as were asked for in one run."""
