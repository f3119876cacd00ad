"""The connection over which frames go to one peer: dialled, and dialled again whenever it is gone."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter, deque
from dataclasses import dataclass

from mooring.agents.transport.certificates import peer_name
from mooring.agents.transport.frames import FrameError, framed, read_frame
from mooring.agents.transport.members import AgentAddress, Members
from mooring.agents.transport.wire import WIRE_VERSION, Greeting, decode_greeting, encode_greeting

MOST_WAITING = 256
"""Frames per peer: a minute of a peer's absence at the rate of tests, half an hour at the default periods."""


class Outbox:
    """Frames that wait for a peer. When there are too many, the oldest is dropped: machines repeat what
    matters, and a newer frame says more.
    """

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


GREETING_S = 10.0
"""For a handshake and both greetings; whoever takes longer is refused."""


@dataclass(frozen=True)
class BackOff:
    first_s: float = 0.2
    largest_s: float = 10.0
    """Between two tries, twice as long after each that failed."""


def watch_connection(connection: socket.socket | None) -> None:
    """Have the system notice a peer that is gone without a word, idle or not, within about twenty seconds."""
    if connection is None:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 3, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 20_000}
    for name, value in options.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def check_greeting(frame: bytes, members: Members) -> Greeting:
    greeting: Greeting = decode_greeting(frame)
    if greeting.version != WIRE_VERSION:
        raise FrameError("another version", f"{greeting.version}, this is {WIRE_VERSION}")
    if greeting.members != members.digest:
        raise FrameError("other sites", "its mooring.yml does not list the same sites in the same order")
    return greeting


class PeerLink:
    def __init__(
        self,
        peer: str,
        members: Members,
        context: ssl.SSLContext,
        incarnation: int,
        counts: Counter[str],
        back_off: BackOff,
    ) -> None:
        self.peer = peer
        self.connected = False
        self.outbox = Outbox(counts)
        self._members, self._context, self._counts, self._back_off = members, context, counts, back_off
        self._greeting = Greeting(WIRE_VERSION, members.digest, incarnation)

    async def run(self) -> None:
        """Until cancelled."""
        wait_s = self._back_off.first_s
        while True:
            address = self._members.find(self.peer)
            if address is not None and await self._use(address):
                wait_s = self._back_off.first_s
            await asyncio.sleep(wait_s)
            wait_s = min(2.0 * wait_s, self._back_off.largest_s)

    async def _use(self, address: AgentAddress) -> bool:
        """Dials and sends until the connection is gone; whether there was one."""
        opened: list[asyncio.StreamWriter] = []
        try:
            async with asyncio.timeout(GREETING_S):
                reader = await self._greet(address, opened)
            await self._send_until_gone(reader, opened[0])
            return True
        except FrameError as error:
            self._counts[f"not connected: {error.reason}"] += 1
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            self._counts["not connected: no answer"] += 1
        finally:
            for writer in opened:
                writer.transport.abort()
        return False

    async def _greet(self, address: AgentAddress, opened: list[asyncio.StreamWriter]) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection(address.host, address.port, ssl=self._context)
        opened.append(writer)
        named = peer_name(writer.get_extra_info("peercert"))
        if named != self.peer:
            raise FrameError("another member", f"{address} is {named!r}, expected {self.peer!r}")
        watch_connection(writer.get_extra_info("socket"))
        writer.write(framed(encode_greeting(self._greeting)))
        # In TLS 1.3 a server's refusal of our certificate comes only now.
        check_greeting(await read_frame(reader), self._members)
        return reader

    async def _send_until_gone(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connected = True
        sending = asyncio.ensure_future(self._send_all(writer))
        gone = asyncio.ensure_future(reader.read(1))  # nothing comes on it: whatever this gives, it is over
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.connected = False
            for task in (sending, gone):
                task.cancel()
            # Gathered, so that what cancels this link now is not taken for the end of these two.
            ended = await asyncio.gather(sending, gone, return_exceptions=True)
        for failure in ended:
            if isinstance(failure, Exception) and not isinstance(failure, OSError):
                raise failure

    async def _send_all(self, writer: asyncio.StreamWriter) -> None:
        while True:
            protocol, frame = await self.outbox.take()
            writer.write(framed(frame))
            await writer.drain()
            self._counts["frames sent"] += 1
            self._counts[f"bytes sent: {protocol}"] += len(frame)
