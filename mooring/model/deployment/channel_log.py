"""The log of a channel: durable, with everything that one flow has written into a dataset.

It is offset-based. A position counts what the writer has appended since the log began; a reader's committed
position says what it will never ask for again. What every registered reader has committed past may be
trimmed, and nothing else, so a reader however late loses nothing. How positions are stored is the
implementation's affair (files and Spark's logs now; topic offsets on Kafka).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class ChannelState:
    """One writer's log at one moment."""

    start: int
    """Position of the oldest item still stored."""
    end: int
    """Position after the newest item."""
    committed: Mapping[str, int]
    """Per registered reader; a reader that never committed stands at the position where it registered."""
    stored_bytes: int
    aged_items: int = 0
    """Removed so far for being older than the table keeps them."""
    aged_bytes: int = 0

    def trim_to(self) -> int:
        """The position up to which nothing is needed any more; `start` if nobody is registered.

        >>> ChannelState(0, 9, {"a": 7, "late": 3}, 100).trim_to()
        3
        >>> ChannelState(2, 9, {}, 100).trim_to()
        2
        """
        return max(self.start, min(self.committed.values(), default=self.start))

    def lag(self, reader: str) -> int:
        """Items appended that the reader has not committed."""
        return self.end - self.committed[reader]


@dataclass(frozen=True)
class Trimmed:
    items: int
    freed_bytes: int


class ChannelLog(Protocol):
    """One writing flow's log. Appending is the engine's: it happens inside the writer's streaming query."""

    name: str

    def register(self, reader: str) -> None:
        """From now on nothing is trimmed that `reader` has not committed."""

    def forget(self, reader: str) -> None:
        """The reader is gone for good."""

    def state(self) -> ChannelState: ...

    def trim(self) -> Trimmed:
        """Remove what all registered readers have committed past. Safe to interrupt and to repeat."""
