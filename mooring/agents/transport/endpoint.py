"""One member's place in the network: it listens, keeps a link to every other member, sends and delivers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import AsyncIterator

from mooring.agents.transport.certificates import CertificateFolder, tls_context
from mooring.agents.transport.frames import MOST_FRAME_BYTES
from mooring.agents.transport.listener import Deliver, Listener, ListenerLimits
from mooring.agents.transport.members import AgentAddress, Members
from mooring.agents.transport.peer_link import BackOff, PeerLink
from mooring.agents.transport.wire import encode_envelope
from mooring.contracts.hosted_protocol import Kind
from mooring.contracts.site_machine import Data
from mooring.errors import EngineError

LOOPBACK = AgentAddress("127.0.0.1", 0)
"""Where members listen unless told otherwise: any free port, for this machine only."""


class MemberEndpoint:
    def __init__(
        self,
        name: str,
        members: Members,
        certificates: CertificateFolder,
        incarnation: int,
        deliver: Deliver,
        *,
        back_off: BackOff | None = None,
        limits: ListenerLimits | None = None,
    ) -> None:
        self.name, self.members = name, members
        self.counts: Counter[str] = Counter()
        """What was sent, received, dropped and refused, by reason."""
        self._numbers = itertools.count()
        self._listener = Listener(
            name,
            members,
            tls_context(certificates, name, serving=True),
            incarnation,
            self.counts,
            deliver,
            limits or ListenerLimits(),
        )
        dialling = tls_context(certificates, name, serving=False)
        self._links = {
            peer: PeerLink(peer, members, dialling, incarnation, self.counts, back_off or BackOff())
            for peer in members.names
            if peer != name
        }

    @property
    def reached(self) -> tuple[str, ...]:
        """Members to whom there is a connection."""
        return tuple(peer for peer, link in self._links.items() if link.connected)

    @property
    def heard(self) -> tuple[str, ...]:
        """Members from whom there is a connection."""
        return self._listener.heard

    def send(self, to: str, kind: Kind, protocol: str, content: Data) -> None:
        """Never waits and never fails: what cannot go out is counted and lost."""
        try:
            frame = encode_envelope(next(self._numbers), kind, protocol, content)
        except (OverflowError, UnicodeEncodeError):
            self.counts["dropped: cannot be sent"] += 1  # no number or text that a peer would take
            return
        if len(frame) > MOST_FRAME_BYTES:
            self.counts["dropped: too large to send"] += 1
        else:
            self._links[to].outbox.put(protocol, frame)

    @contextlib.asynccontextmanager
    async def open(self, listen: AgentAddress = LOOPBACK) -> AsyncIterator[AgentAddress]:
        """Listens and dials for the time of the block; gives where it listens."""
        try:
            listening = self._listener.bind(listen)
        except OSError as error:
            raise EngineError(f"cannot listen on {listen}: {error.strerror or error}") from error
        address = AgentAddress(*listening.getsockname()[:2])
        tasks = [asyncio.ensure_future(self._listener.run(listening))]
        tasks += [asyncio.ensure_future(link.run()) for link in self._links.values()]
        try:
            self.members.announce(self.name, address)
            yield address
        finally:
            with contextlib.suppress(OSError):  # whoever dials an address that is gone tries again
                self.members.withdraw(self.name)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            listening.close()
