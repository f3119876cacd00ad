"""Asking a run for something: what can be asked, and the box it is taken out of.

A request for moves names the placement that its asker saw, so that it can be refused if that has changed.
Where the box is (files of a project, a list in memory, later a web service) is the implementation's affair.
Every request names its sender in words, for the journal; no right follows from that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

LONGEST_ASKED_BY = 300


class MoveRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="move"):
    """Carry out exactly these moves, if everything still is where the asker saw it."""

    id: str
    created_s: float
    asker_pid: int
    old: dict[str, str]
    """Fragment -> site."""
    moves: list[tuple[str, str, str]]
    """Fragment, from, to; in this order."""
    asked_by: str = ""
    version: int = 1


class AbortRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="abort"):
    """Take back the list of moves that is being carried out."""

    id: str
    created_s: float
    asker_pid: int
    asked_by: str = ""
    version: int = 1


class LeaveRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="leave"):
    """Move everything away from a site, and keep it empty."""

    id: str
    created_s: float
    asker_pid: int
    site: str
    force: bool = False
    """Even if the other sites cannot keep up, and what may run nowhere else has to stand still."""
    asked_by: str = ""
    version: int = 1


class ReturnRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="return"):
    """Use a site again that was left."""

    id: str
    created_s: float
    asker_pid: int
    site: str
    asked_by: str = ""
    version: int = 1


class DismissRequest(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="dismiss"
):
    """Do not propose exactly these moves again for a while."""

    id: str
    created_s: float
    asker_pid: int
    moves: list[tuple[str, str, str]]
    """Fragment, from, to; in this order."""
    asked_by: str = ""
    version: int = 1


class StopNotice(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="stop"):
    """Who is about to end the run by a signal, which itself does not tell."""

    id: str
    created_s: float
    asker_pid: int
    asked_by: str = ""
    version: int = 1


SiteRequest = LeaveRequest | ReturnRequest
Request = MoveRequest | AbortRequest | SiteRequest | DismissRequest | StopNotice


class Mailbox(Protocol):
    """The runner's side of the box."""

    def take(self) -> Request | None:
        """The next request worth answering, taken out of the box."""
        ...

    def reply(self, name: str, answer: Mapping[str, object]) -> None:
        """Replace the answer to a request by a newer one."""
        ...

    def sweep(self) -> None:
        """Remove answers that nobody came for."""
        ...


def shown_asker(asked_by: str) -> str:
    """An asker's words as they may be written down: one line of bounded length.

    >>> shown_asker("ann@desk, process 7:\\n mooring stop demo")
    'ann@desk, process 7: mooring stop demo'
    """
    plain = "".join(letter if letter.isprintable() else " " for letter in asked_by[: 2 * LONGEST_ASKED_BY])
    return " ".join(plain.split())[:LONGEST_ASKED_BY]
