"""Agents host the machines that the harness tests: the same invariants hold on what they recorded."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import numpy as np
import pytest

from lab.faults.gossip_invariants import gossip_checkers
from lab.faults.trace_replay import TraceReplay, read_trace
from mooring.agents.agent import Agent, AgentSettings, AgentStatus
from mooring.agents.durable_state import DurableState
from mooring.agents.machine_host import MachineHost
from mooring.agents.measured_latencies import KeptSurvey
from mooring.agents.survey_agents import hosted_survey
from mooring.agents.transport.certificates import CertificateFolder
from mooring.agents.transport.members import Members
from mooring.contracts.hosted_protocol import HostedProtocol
from mooring.contracts.site_machine import Asked, Effect, Event, Output, Received, Send
from mooring.coordination.gossip import Gossip, GossipParams, KnownVersions
from mooring.coordination.survey import NetworkFigures, SurveyParams
from mooring.errors import EngineError, InputError
from mooring.model.network.vivaldi import VivaldiParams
from tests.agents.scene import EAGER, SITES, hosted_gossip, until

GOSSIP = hosted_gossip()
QUICK_SURVEY = hosted_survey(
    SurveyParams(20.0, rounds_per_publication=4, vivaldi=VivaldiParams(2), gossip=GossipParams(20.0))
)


def agent(site: str, members: Members, certificates: CertificateFolder, *protocols: HostedProtocol) -> Agent:
    settings = AgentSettings(site, members, certificates, back_off=EAGER, on_disk=False)
    return Agent(settings, protocols or (GOSSIP,), io.StringIO())


def held(running: Agent) -> set[str]:
    machine = running._hosts["gossip"]._machine
    return {str(entry.value) for entry in machine.entries.values()} if isinstance(machine, Gossip) else set()


def violation(members: Members, protocol: HostedProtocol) -> object:
    traces = [read_trace(members.own_folder(site) / "trace.jsonl", protocol) for site in members.sites]
    return TraceReplay(protocol, traces).check(gossip_checkers())


def test_five_agents_agree_through_stops_and_starts(
    members: Members, certificates: CertificateFolder
) -> None:
    async def play() -> None:
        async with AsyncExitStack() as lasting:
            agents = {site: agent(site, members, certificates) for site in SITES[1:]}
            for each in agents.values():
                await lasting.enter_async_context(each.running())
            agents["athens"] = agent("athens", members, certificates)
            async with agents["athens"].running():
                for site, each in agents.items():
                    each.ask("gossip", f"first of {site}")
                await until(lambda: all(len(held(each)) == 5 for each in agents.values()))
            agents["berlin"].ask("gossip", "second of berlin")
            agents["athens"] = agent("athens", members, certificates)
            assert agents["athens"].incarnation == 1
            await lasting.enter_async_context(agents["athens"].running())
            agents["athens"].ask("gossip", "second of athens")
            wanted = {f"{'second' if site < 'c' else 'first'} of {site}" for site in SITES}
            await until(lambda: all(held(each) == wanted for each in agents.values()))

    asyncio.run(play())
    assert violation(members, GOSSIP) is None


def test_a_trace_that_was_tampered_with_does_not_replay(
    members: Members, certificates: CertificateFolder
) -> None:
    async def play() -> None:
        running = agent("athens", members, certificates)
        async with running.running():
            running.ask("gossip", "said")
            running.ask("gossip", "and said")

    asyncio.run(play())
    trace = members.own_folder("athens") / "trace.jsonl"
    trace.write_text(trace.read_text().replace('"version":2', '"version":3'))
    assert "machines answer as they did" in str(violation(members, GOSSIP))


def test_the_survey_is_kept_for_whoever_asks(members: Members, certificates: CertificateFolder) -> None:
    few = Members(members.folder, members.sites[:2])

    def known() -> NetworkFigures:
        file = few.own_folder("athens") / "survey.json"
        if not file.is_file():
            return NetworkFigures(())
        return msgspec.json.decode(file.read_bytes(), type=KeptSurvey).figures

    async def play() -> None:
        athens, berlin = (agent(site, few, certificates, QUICK_SURVEY) for site in few.sites)
        async with athens.running(), berlin.running():
            await until(lambda: len(known().sites) == 2 and len(dict(known().sites)[1].latency_ms) == 1)

    asyncio.run(play())
    ((peer, latency_ms),) = dict(known().sites)[0].latency_ms
    assert peer == 1
    assert 0.0 < latency_ms < 60_000.0
    assert violation_without_end(few) is None


def violation_without_end(members: Members) -> object:
    """Agents that publish as long as they live never come to rest: all but the last word of the checkers."""
    traces = [read_trace(members.own_folder(site) / "trace.jsonl", QUICK_SURVEY) for site in members.sites]
    return TraceReplay(QUICK_SURVEY, traces).check(gossip_checkers()[:2])


class Fragile(Gossip):
    """Raises when asked for the wrong thing."""

    def handle(self, event: Event, now_ms: float) -> tuple[Effect, ...]:
        if event == Asked("break"):
            raise ValueError("as planted")
        return (*super().handle(event, now_ms), Output("heard") if isinstance(event, Asked) else Output(""))


def test_a_machine_that_raises_begins_anew_from_what_it_persisted(
    members: Members, certificates: CertificateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(site: int, sites: int, generator: np.random.Generator) -> Fragile:
        return Fragile(site, sites, generator, GossipParams(20.0))

    monkeypatch.setattr("mooring.agents.machine_host.RESTART_S", 0.0)
    fragile = HostedProtocol("gossip", make, GOSSIP.messages, GOSSIP.durable, requests=str)

    async def play() -> None:
        running = agent("athens", members, certificates, fragile)
        async with running.running():
            running.ask("gossip", "kept")
            running.ask("gossip", "break")
            host: MachineHost = running._hosts["gossip"]
            await until(lambda: host._incarnation == 1)
            assert held(running) == {"kept"}
            assert running.endpoint.counts["machine failed"] == 1

    asyncio.run(play())


def test_a_member_whose_messages_break_a_machine_is_not_listened_to_for_a_while(
    members: Members, certificates: CertificateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mooring.agents.machine_host.RESTART_S", 300.0)

    class Touchy(Gossip):
        def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
            if isinstance(event, Received) and event.sender == 1:
                raise ValueError("as planted")
            return super().handle(event, now_ms)

    touchy = HostedProtocol("gossip", Touchy, GOSSIP.messages, GOSSIP.durable, requests=str)

    async def play() -> None:
        running = agent("athens", members, certificates, touchy)
        async with running.running():
            host: MachineHost = running._hosts["gossip"]
            for _ in range(3):
                host.received(1, KnownVersions((0,) * 5))
                host._begin_anew()
            counts = running.endpoint.counts
            assert counts["machine failed"] == 1
            assert counts["dropped: its messages made a machine fail"] == 2
            host.received(2, KnownVersions((0,) * 5))
            assert host._machine is not None

    asyncio.run(play())


def test_an_agent_says_how_it_is(members: Members, certificates: CertificateFolder) -> None:
    async def play() -> None:
        async with agent("athens", members, certificates).running():
            pass

    asyncio.run(play())
    said = (members.own_folder("athens") / "agent.json").read_bytes()
    assert msgspec.json.decode(said, type=AgentStatus).site == "athens"
    assert members.find("athens") is None


def test_a_site_has_one_agent_at_a_time(members: Members, certificates: CertificateFolder) -> None:
    state = DurableState(members.own_folder("athens"), [GOSSIP])
    with pytest.raises(EngineError, match="already runs"):
        agent("athens", members, certificates)
    state.close()


def test_a_damaged_memory_is_never_passed_over(tmp_path: Path) -> None:
    state = DurableState(tmp_path, [GOSSIP])
    assert (state.begin(), state.begin()) == (0, 1)
    state.close()
    for damage in (b"{", b'{"incarnation":1,"machines":{"gossip":{"owner":"x"}}}'):
        (tmp_path / "durable.json").write_bytes(damage)
        with pytest.raises(InputError, match="promises"):
            DurableState(tmp_path, [GOSSIP])


class _Echoing:
    """Sends itself one message, and puts out what it receives."""

    def __init__(self, site: int) -> None:
        self._site = site

    def next_timer(self) -> float | None:
        return None

    def handle(self, event: Event, now_ms: float) -> tuple[Effect, ...]:
        match event:
            case Asked():
                return (Send(self._site, "to myself"), Output("sent"))
            case Received(sender=sender, message=message):
                return (Output(f"{message} from {sender}"),)
        return ()


def test_what_a_machine_sends_to_itself_comes_after_the_step_that_sent_it(
    members: Members, certificates: CertificateFolder
) -> None:
    heard: list[object] = []

    def keep(members: Members, keeper: str, output: object) -> None:
        heard.append(output)

    echoing = HostedProtocol(
        "echoing",
        lambda site, sites, generator: _Echoing(site),
        str,
        str,
    )

    async def play() -> None:
        settings = AgentSettings(SITES[2], members, certificates, back_off=EAGER, on_disk=False)
        own = Agent(settings, [echoing], io.StringIO(), keep={"echoing": keep})
        async with own.running():
            own.ask("echoing", "go")
            await until(lambda: len(heard) == 2)

    asyncio.run(play())
    assert heard == ["sent", "to myself from 2"]
