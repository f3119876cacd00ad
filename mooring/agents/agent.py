"""An agent: hosts the machines of one site and connects them to the network until it receives a signal to
end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import msgspec

from mooring.agents.bounded_log import BoundedLog
from mooring.agents.durable_state import DurableState
from mooring.agents.machine_host import AgentClock, HostParts, MachineHost
from mooring.agents.survey_agents import KEPT_OUTPUTS, Keep
from mooring.agents.trace_file import TraceFile
from mooring.agents.transport.certificates import CertificateFolder
from mooring.agents.transport.endpoint import LOOPBACK, MemberEndpoint
from mooring.agents.transport.frames import FrameError
from mooring.agents.transport.members import RUNNER, AgentAddress, Members
from mooring.agents.transport.peer_link import BackOff
from mooring.agents.transport.wire import Envelope, decode, judged
from mooring.atomic_files import write_whole
from mooring.contracts.hosted_protocol import HostedProtocol
from mooring.contracts.site_machine import Data
from mooring.disk import DISK, Disk
from mooring.errors import EngineError

STATUS_PERIOD_S = 10.0


@dataclass(frozen=True)
class AgentSettings:
    site: str
    members: Members
    certificates: CertificateFolder
    listen: AgentAddress = LOOPBACK
    seed: int = 0
    back_off: BackOff = field(default_factory=BackOff)
    on_disk: bool = True
    """Whether what machines persist has to survive a power failure."""
    disk: Disk = DISK
    """Where they persist it."""

    @property
    def folder(self) -> Path:
        return self.members.own_folder(self.site)


class AgentStatus(msgspec.Struct, frozen=True):
    """`agent.json`: how an agent is, as of some seconds ago."""

    site: str
    pid: int
    listens: str
    incarnation: int
    reached: tuple[str, ...]
    heard: tuple[str, ...]
    counts: dict[str, int]


class Agent:
    def __init__(
        self,
        settings: AgentSettings,
        protocols: Sequence[HostedProtocol],
        log: TextIO,
        keep: Mapping[str, Keep] = KEPT_OUTPUTS,
    ) -> None:
        self._settings, self._keep = settings, keep
        self._state = DurableState(settings.folder, protocols, on_disk=settings.on_disk, disk=settings.disk)
        try:
            self.incarnation = self._state.begin()
            self.endpoint = MemberEndpoint(
                settings.site,
                settings.members,
                settings.certificates,
                self.incarnation,
                self._deliver,
                back_off=settings.back_off,
            )
            self._trace = TraceFile(settings.folder / "trace.jsonl")
        except OSError as error:
            self._state.close()
            raise EngineError(
                f"the agent cannot write its state in {settings.folder}: {error.strerror or error}",
                remedy="free space there, or repair the disk",
            ) from error
        except BaseException:
            self._state.close()
            raise
        members = settings.members
        parts = HostParts(
            site=members.number(settings.site),
            sites=len(members.sites),
            seed=settings.seed,
            clock=AgentClock(),
            state=self._state,
            trace=self._trace,
            counts=self.endpoint.counts,
            log=BoundedLog(log),
            send=self._send,
            put_out=self._put_out,
        )
        self._hosts = {protocol.name: MachineHost(protocol, parts) for protocol in protocols}

    async def run(self, stop: asyncio.Event) -> None:
        async with self.running():
            await stop.wait()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[AgentAddress]:
        """For the time of the block; gives where it listens."""
        try:
            async with self.endpoint.open(self._settings.listen) as address:
                for host in self._hosts.values():
                    host.start(self.incarnation)
                telling = asyncio.ensure_future(self._tell(address))
                try:
                    yield address
                finally:
                    telling.cancel()
                    for host in self._hosts.values():
                        host.stop()
                    self._write_status(address)
        finally:
            self._trace.close()
            self._state.close()

    def ask(self, protocol: str, request: Data) -> None:
        """A request of this site's own user."""
        self._hosts[protocol].asked(request)

    def _deliver(self, name: str, envelope: Envelope) -> None:
        host = self._hosts.get(envelope.protocol)
        if host is None:
            raise FrameError("unknown", f"no protocol {envelope.protocol!r} here")
        if envelope.kind == "output" or (envelope.kind == "request" and name != RUNNER):
            raise FrameError("unknown", f"{envelope.kind} from {name}")
        if envelope.kind == "request":
            host.asked(decode(host.protocol, envelope))
            return
        members = self._settings.members
        sender, receiver = members.names.index(name), members.number(self._settings.site)
        host.received(sender, judged(host.protocol, envelope, sender, receiver, len(members.sites)))

    def _send(self, protocol: str, to: int, message: Data) -> None:
        own = self._settings.members.number(self._settings.site)
        if to == own:  # not at once: a machine handles one event after the other
            asyncio.get_running_loop().call_soon(self._hosts[protocol].received, own, message)
            return
        if not 0 <= to < len(self._settings.members.names):
            self.endpoint.counts["dropped: for no member"] += 1
            return
        self.endpoint.send(self._settings.members.names[to], "message", protocol, message)

    def _put_out(self, protocol: HostedProtocol, value: Data) -> None:
        if protocol.name in self._keep:
            self._keep[protocol.name](self._settings.members, self._settings.site, value)
        if protocol.outputs is not None:
            self.endpoint.send(RUNNER, "output", protocol.name, value)

    async def _tell(self, address: AgentAddress) -> None:
        while True:
            self._write_status(address)
            await asyncio.sleep(STATUS_PERIOD_S)

    def _write_status(self, address: AgentAddress) -> None:
        status = AgentStatus(
            self._settings.site,
            os.getpid(),
            str(address),
            self.incarnation,
            self.endpoint.reached,
            self.endpoint.heard,
            dict(sorted(self.endpoint.counts.items())),
        )
        with contextlib.suppress(OSError):  # a full disk costs the file, never the agent
            write_whole(self._settings.folder / "agent.json", msgspec.json.encode(status))
