"""The runner's connection to the agents of a run's sites; it never blocks the run session.

To machines the runner is a peer like any other, with the number that follows the last site's. It runs in a
thread of its own; `poll` and the two ways to send come back at once. Letters that are not fetched are
dropped, the oldest first, and counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mooring.agents.durable_state import DurableState
from mooring.agents.project_members import ProjectMembers
from mooring.agents.survey_agents import KEPT_OUTPUTS, Keep
from mooring.agents.transport.endpoint import LOOPBACK, MemberEndpoint
from mooring.agents.transport.frames import FrameError
from mooring.agents.transport.members import RUNNER, AgentAddress
from mooring.agents.transport.peer_link import BackOff
from mooring.agents.transport.wire import Envelope, judged
from mooring.contracts.hosted_protocol import HostedProtocol, Kind
from mooring.contracts.site_machine import Data
from mooring.errors import EngineError, described

MOST_LETTERS = 10_000
_START_S = 30.0
_ENDED = "the runner's connection to the agents has ended; the next run opens it again: {why}"


@dataclass(frozen=True)
class Letter:
    """From the machine of one site: a message to the runner as a peer, or an output that is not kept."""

    site: str
    protocol: str
    kind: Kind
    content: Data


class RunnerPost:
    """Open from construction until `close`; use it as a context."""

    def __init__(
        self,
        project: ProjectMembers,
        protocols: Sequence[HostedProtocol],
        listen: AgentAddress | None = None,
        back_off: BackOff | None = None,
        keep: Mapping[str, Keep] = KEPT_OUTPUTS,
    ) -> None:
        self._project, self._keep = project, keep
        self._protocols = {protocol.name: protocol for protocol in protocols}
        self._letters: deque[Letter] = deque()
        self._state = DurableState(project.members.own_folder(RUNNER), ())
        self._listen = listen or project.members.stated.get(RUNNER, LOOPBACK)
        self._back_off = back_off
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="mooring-post", daemon=True)
        self._thread.start()
        if not self._ready.wait(_START_S) or self._failure is not None:
            self._state.close()
            raise self._failure or EngineError("the runner's connection to the agents did not open")

    def __enter__(self) -> RunnerPost:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def counts(self) -> Counter[str]:
        return Counter(self._endpoint.counts)

    @property
    def reached(self) -> tuple[str, ...]:
        """Sites whose agents can be told something now."""
        return self._endpoint.reached

    def poll(self) -> list[Letter]:
        """What has come since the last time, oldest first; `EngineError` if nothing can come any more."""
        self._refuse_ended()
        letters = []
        while self._letters:
            letters.append(self._letters.popleft())
        return letters

    def send(self, site: str, protocol: str, message: Data) -> None:
        """As one machine to another (`Received`)."""
        self._later(site, "message", protocol, message)

    def ask(self, site: str, protocol: str, request: Data) -> None:
        """As the site's own user (`Asked`): its measurements, for instance."""
        self._later(site, "request", protocol, request)

    def close(self) -> None:
        with contextlib.suppress(RuntimeError):  # it has ended by itself
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._state.close()

    def _later(self, site: str, kind: Kind, protocol: str, content: Data) -> None:
        self._refuse_ended()
        try:
            self._loop.call_soon_threadsafe(self._endpoint.send, site, kind, protocol, content)
        except RuntimeError as ended:
            raise EngineError(_ENDED.format(why=ended)) from ended

    def _refuse_ended(self) -> None:
        if self._failure is not None:
            raise EngineError(_ENDED.format(why=described(self._failure))) from self._failure

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except OSError as error:
            said = f"the runner's connection to the agents cannot write: {error.strerror or error}"
            self._failure = EngineError(said, remedy="free space, or repair the disk")
        except BaseException as failure:
            self._failure = failure
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._endpoint = MemberEndpoint(
            RUNNER,
            self._project.members,
            self._project.certificates,
            self._state.begin(),
            self._deliver,
            back_off=self._back_off,
        )
        async with self._endpoint.open(self._listen):
            self._ready.set()
            await self._stop.wait()

    def _deliver(self, site: str, envelope: Envelope) -> None:
        protocol = self._protocols.get(envelope.protocol)
        if protocol is None or envelope.kind == "request":
            raise FrameError("unknown", f"{envelope.kind} of {envelope.protocol!r} from {site}")
        members = self._project.members
        runner = len(members.sites)
        content = judged(protocol, envelope, members.number(site), runner, runner)
        if envelope.kind == "output" and protocol.name in self._keep:
            self._keep[protocol.name](self._project.members, RUNNER, content)
            return  # what is kept need not be fetched, and nobody might
        if len(self._letters) >= MOST_LETTERS:
            self._letters.popleft()
            self._endpoint.counts["dropped: not fetched in time"] += 1
        self._letters.append(Letter(site, envelope.protocol, envelope.kind, content))
