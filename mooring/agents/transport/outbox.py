"""Frames that wait for a peer. When there are too many, the oldest goes: machines repeat what matters, and
what is newer says more."""

from __future__ import annotations

import asyncio
from collections import Counter, deque

MOST_WAITING = 256
"""Frames per peer: a minute of a peer's absence at the rate of tests, half an hour at the default periods."""


class Outbox:
    def __init__(self, counts: Counter[str], most: int = MOST_WAITING) -> None:
        self._counts, self._most = counts, most
        self._frames: deque[tuple[str, bytes]] = deque()
        """Each with the protocol it is of."""
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._frames)

    def put(self, protocol: str, frame: bytes) -> None:
        if len(self._frames) >= self._most:
            self._frames.popleft()
            self._counts["dropped: outbox full"] += 1
        self._frames.append((protocol, frame))
        self._filled.set()

    async def take(self) -> tuple[str, bytes]:
        while not self._frames:
            self._filled.clear()
            await self._filled.wait()
        return self._frames.popleft()
