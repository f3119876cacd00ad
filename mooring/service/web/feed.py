"""Server-sent events: whoever follows gets the newest document, as soon as it is ready for it.

Nothing is queued: a client that reads slowly misses what came between, never what holds now, and a hundred of
them cost no more memory than one document.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

MOST_FOLLOWERS = 200
BEAT_S = 15.0
"""Seconds of silence after which a comment is sent, so that a dead connection is noticed."""


class Feed:
    def __init__(self) -> None:
        self._newest: bytes | None = None
        self._number = 0
        self._changed = asyncio.Condition()
        self.followers = 0
        self._closed = False

    @property
    def is_full(self) -> bool:
        return self.followers >= MOST_FOLLOWERS

    async def publish(self, document: bytes) -> None:
        async with self._changed:
            self._newest = document
            self._number += 1
            self._changed.notify_all()

    async def close(self) -> None:
        """End the stream of everybody who follows."""
        async with self._changed:
            self._closed = True
            self._changed.notify_all()

    async def follow(self) -> AsyncIterator[bytes]:
        """The newest now, and then each time there is a newer one."""
        self.followers += 1
        try:
            sent = 0
            while True:
                try:
                    async with asyncio.timeout(BEAT_S), self._changed:
                        await self._changed.wait_for(lambda: self._closed or self._number > sent)  # noqa: B023
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if self._closed:
                    return
                sent, document = self._number, self._newest
                yield b"event: picture\nid: %d\ndata: %s\n\n" % (sent, document)
        finally:
            self.followers -= 1
