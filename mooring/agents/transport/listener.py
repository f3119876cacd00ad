"""Accepts frames of peers: from members of the project only, each within its share.

What a stranger can do is open a connection. It is dropped unless it shows a certificate of the project within
seconds, and only so many may be at that point at a time. A frame that cannot be decoded is dropped; a member
that breaks the framing is disconnected. All of it is counted by reason.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from mooring.agents.transport.certificates import peer_name
from mooring.agents.transport.frames import FrameError, framed, read_frame
from mooring.agents.transport.members import AgentAddress, Members
from mooring.agents.transport.peer_link import GREETING_S, check_greeting, watch_connection
from mooring.agents.transport.wire import WIRE_VERSION, Envelope, Greeting, decode_envelope, encode_greeting

Deliver = Callable[[str, Envelope], None]
"""Takes a member's name and what it sent; raises `FrameError` if it cannot be used."""

_BACKLOG = 64


@dataclass(frozen=True)
class ListenerLimits:
    handshakes: int = 32
    """Connections at a time that have not shown who they are; more are closed at once."""
    frames_per_s: int = 1000
    """Of one member; then reading pauses, and TCP holds the sender back."""


class Listener:
    def __init__(
        self,
        name: str,
        members: Members,
        context: ssl.SSLContext,
        incarnation: int,
        counts: Counter[str],
        deliver: Deliver,
        limits: ListenerLimits,
    ) -> None:
        self._name, self._members, self._context = name, members, context
        self._greeting = encode_greeting(Greeting(WIRE_VERSION, members.digest, incarnation))
        self._counts, self._deliver, self._limits = counts, deliver, limits
        self._handshakes = 0
        self._serving: set[asyncio.Task[None]] = set()
        self._newest: dict[str, asyncio.Transport] = {}
        """A member's connection; one that dials anew has lost the old one."""
        self._seen: dict[str, tuple[int, int]] = {}
        """Member -> its incarnation, and the highest number of an envelope from it."""

    @property
    def heard(self) -> tuple[str, ...]:
        """Members that are connected to this one."""
        return tuple(sorted(self._newest))

    @staticmethod
    def bind(address: AgentAddress) -> socket.socket:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        listening = socket.create_server(
            (address.host, address.port), family=family, backlog=_BACKLOG, reuse_port=False
        )
        listening.setblocking(False)
        return listening

    async def run(self, listening: socket.socket) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    connection, _ = await loop.sock_accept(listening)
                except OSError:  # out of descriptors, or gone before it was taken
                    await asyncio.sleep(0.1)
                    continue
                if self._handshakes >= self._limits.handshakes:
                    self._counts["refused: too many at once"] += 1
                    connection.close()
                    continue
                task = asyncio.ensure_future(self._serve(connection))
                self._serving.add(task)
                task.add_done_callback(self._serving.discard)
        finally:
            for task in tuple(self._serving):
                task.cancel()
            await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, connection: socket.socket) -> None:
        opened: list[asyncio.Transport] = []
        reader = asyncio.StreamReader()
        name = None
        try:
            name = await self._admitted(connection, reader, opened)
            if name is not None:
                self._replace(name, opened[0])
                await self._receive(name, reader)
        except FrameError as error:
            self._counts[f"cut off: {error.reason}"] += 1
        except (OSError, asyncio.IncompleteReadError):
            pass  # the peer is gone and will dial again
        finally:
            for transport in opened:
                transport.abort()
                if name is not None and self._newest.get(name) is transport:
                    del self._newest[name]

    async def _admitted(
        self, connection: socket.socket, reader: asyncio.StreamReader, opened: list[asyncio.Transport]
    ) -> str | None:
        """Who it is, once that is certain; None, and counted, if it is refused."""
        self._handshakes += 1
        try:
            async with asyncio.timeout(GREETING_S):
                return await self._admit(connection, reader, opened)
        except ssl.SSLError as error:
            self._counts[f"refused: {_refusal(error)}"] += 1
        except FrameError as error:
            self._counts[f"refused: {error.reason}"] += 1
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            self._counts["refused: broken off"] += 1
        finally:
            self._handshakes -= 1
            if not opened:
                connection.close()
        return None

    async def _admit(
        self, connection: socket.socket, reader: asyncio.StreamReader, opened: list[asyncio.Transport]
    ) -> str:
        loop = asyncio.get_running_loop()
        watch_connection(connection)
        transport, _ = await loop.connect_accepted_socket(
            lambda: asyncio.StreamReaderProtocol(reader), connection, ssl=self._context
        )
        opened.append(transport)
        name = peer_name(transport.get_extra_info("peercert"))
        if name is None or name == self._name or name not in self._members.names:
            raise FrameError("unknown member", repr(name))
        greeting = check_greeting(await read_frame(reader), self._members)
        incarnation, _ = self._seen.get(name, (greeting.incarnation, -1))
        if greeting.incarnation < incarnation:
            raise FrameError("an older incarnation", name)
        if name not in self._seen or greeting.incarnation > incarnation:
            self._seen[name] = (greeting.incarnation, -1)
        transport.write(framed(self._greeting))
        return name

    def _replace(self, name: str, transport: asyncio.Transport) -> None:
        if name in self._newest:
            self._newest[name].abort()
        self._newest[name] = transport

    async def _receive(self, name: str, reader: asyncio.StreamReader) -> None:
        loop = asyncio.get_running_loop()
        second, taken = loop.time(), 0
        while True:
            frame = await read_frame(reader)
            try:
                envelope: Envelope = decode_envelope(frame)
                if self._is_new(name, envelope.number):
                    self._deliver(name, envelope)
                    self._counts["frames received"] += 1
            except FrameError as error:
                self._counts[f"dropped: {error.reason}"] += 1
            taken += 1
            if loop.time() - second >= 1.0:
                second, taken = loop.time(), 0
            held_back = taken >= self._limits.frames_per_s
            await asyncio.sleep(second + 1.0 - loop.time() if held_back else 0)

    def _is_new(self, name: str, number: int) -> bool:
        incarnation, highest = self._seen[name]
        if number <= highest:
            self._counts["dropped: seen before"] += 1
            return False
        self._seen[name] = (incarnation, number)
        return True


def _refusal(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        expired = "expired" in (error.verify_message or "")
        return "expired certificate" if expired else "certificate of another authority"
    reason = error.reason or ""
    return "no certificate" if "DID_NOT_RETURN_A_CERTIFICATE" in reason else "no TLS as agents use it"
