"""The finding about one part of a storage: its state in words, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["sound", "pending", "lost"]
"""sound: all is there. pending: nothing is lost, and the next run finishes it or somebody should know of it.
lost: something is missing or damaged that a run would need."""


@dataclass(frozen=True)
class Diagnosis:
    part: str
    """The kind of thing: channel, checkpoint, journal, ..."""
    name: str
    state: State
    what: str
    remedy: str | None = None

    def as_json(self) -> dict[str, str | None]:
        return {
            "part": self.part,
            "name": self.name,
            "state": self.state,
            "what": self.what,
            "remedy": self.remedy,
        }


def some(names: list[str], most: int = 3) -> str:
    """A few of many, in words.

    >>> some(["a", "b"]), some(["a", "b", "c", "d", "e"])
    ('a, b', 'a, b, c and 2 more')
    """
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
