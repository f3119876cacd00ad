"""Asking a run for moves: what is asked, and the box it is taken out of.

A request names the placement that its asker saw, so that it can be refused if that has changed. Where the
box is (files of a project, a list in memory, later a web service) is the implementation's affair.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec


class MoveRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Carry out exactly these moves, if everything still is where the asker saw it."""

    id: str
    created_s: float
    asker_pid: int
    old: dict[str, str]
    """Fragment -> site."""
    moves: list[tuple[str, str, str]]
    """Fragment, from, to; in this order."""
    version: int = 1


class Mailbox(Protocol):
    """The runner's side of the box."""

    def take(self) -> MoveRequest | None:
        """The next request worth answering, taken out of the box."""
        ...

    def reply(self, name: str, answer: Mapping[str, object]) -> None:
        """Replace the answer to a request by a newer one."""
        ...

    def sweep(self) -> None:
        """Remove answers that nobody came for."""
        ...
