"""A way between two members that is slower than it is, and can be cut: for trying agents out on one machine.

It takes connections and passes on what comes, each piece so many milliseconds later, in both directions.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from mooring.agents.transport.members import AgentAddress

_PIECE_BYTES = 65536
_MOST_UNDERWAY = 64
"""Pieces of one direction; then the sender is held back."""


class SlowLink:
    def __init__(self, target: Callable[[], AgentAddress | None], delay_ms: float) -> None:
        """`target` says where the other end is now; None: nowhere, and connections are closed."""
        self.delay_ms = delay_ms
        self._target = target
        self._cut = False
        self._passing: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def open(self, host: str = "127.0.0.1") -> AsyncIterator[AgentAddress]:
        """For the time of the block; gives where it takes connections."""
        server = await asyncio.start_server(self._take, host, 0)
        try:
            yield AgentAddress(host, server.sockets[0].getsockname()[1])
        finally:
            server.close()
            self.cut()
            await asyncio.gather(*self._passing, return_exceptions=True)

    def cut(self) -> None:
        """What is under way is lost, and nobody gets through until `heal`."""
        self._cut = True
        for task in self._passing:
            task.cancel()

    def heal(self) -> None:
        self._cut = False

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        ends = [writer]
        try:
            target = self._target()
            if target is not None and not self._cut:
                far_reader, far_writer = await asyncio.open_connection(target.host, target.port)
                ends.append(far_writer)
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._pass_on(reader, far_writer))
                    both.create_task(self._pass_on(far_reader, writer))
        except (OSError, asyncio.CancelledError, ExceptionGroup):
            pass  # one end is gone, or the link is cut: so is the other end then
        finally:
            self._passing.discard(task)
            for end in ends:
                end.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        underway: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_MOST_UNDERWAY)

        async def deliver() -> None:
            while True:
                due_s, piece = await underway.get()
                await asyncio.sleep(due_s - loop.time())
                writer.write(piece)
                await writer.drain()

        delivering = asyncio.ensure_future(deliver())
        try:
            while piece := await reader.read(_PIECE_BYTES):
                await underway.put((loop.time() + self.delay_ms / 1000.0, piece))
            raise ConnectionResetError  # ended: the other direction ends too
        finally:
            delivering.cancel()
            await asyncio.gather(delivering, return_exceptions=True)
