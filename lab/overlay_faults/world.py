"""Shipped agents of overlays under faults: what they are tried on, and the schedules.

Every site runs `OverlayAgent` as an agent's host runs it: what it is sent has been encoded, decoded and
judged at the door (`algorithms/overlay/leases/claims.py`), and what it kept comes back from bytes. It knows
no operators, no latencies and no plans until it has asked and measured; plans come from coordinators' rounds
with others. The last peer is the mover and stands for the run session: it tells what the session measures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from lab.faults.exploration import Subject
from lab.faults.faults import FaultParams
from lab.faults.harness import Harness
from lab.faults.leases.parallel_mover import ParallelMover
from lab.faults.leases.world import (
    CORES,
    LIMIT_MS,
    MOST_PLANS,
    OPERATORS,
    QUERIES,
    QUICK,
    USABLE_CORES,
    first_places,
    ring_ms,
    shared_queries,
    with_one_gone,
)
from lab.faults.runner_model import Ground, LoseEngine, MoveByHand, RunnerNode, SiteNode
from lab.faults.scenario import DrawRequests, Request, Scenario, draw_scenario
from mooring.agents.transport.wire import Envelope, decode, judged
from mooring.algorithms.overlay.hosted import hosted_overlays
from mooring.algorithms.overlay.leases.adaptation_messages import (
    CapacityMeasured,
    OperatorsMeasured,
    QueryMeasured,
)
from mooring.algorithms.overlay.leases.lease_messages import AskOperators, KnownOperators
from mooring.algorithms.overlay.leases.lease_site import LeaseMemory, LeaseSite
from mooring.algorithms.overlay.leases.overlay_agent import OverlayAgent, OverlayAgentParams
from mooring.algorithms.overlay.protocol.coordinator import PatienceParams
from mooring.algorithms.overlay.protocol.directory import DirectoryParams
from mooring.algorithms.overlay.protocol.generation import SearchParams
from mooring.algorithms.overlay.protocol.overlay_site import OverlayParams
from mooring.algorithms.overlay.search.similar_plans import KeptPlans
from mooring.contracts.hosted_protocol import HostedProtocol, Kind
from mooring.contracts.site_machine import (
    Asked,
    Data,
    Effect,
    Event,
    Output,
    Received,
    Send,
    SiteMachine,
    Started,
)
from mooring.coordination.move_messages import Proposed, StatedLatencies, ToMover

AGENTS = OverlayAgentParams(
    lease=replace(QUICK, replicates=False),
    overlay=OverlayParams(
        search=SearchParams(k=2, candidates=4, kept=KeptPlans(most=MOST_PLANS)),
        directory=DirectoryParams(period_ms=800.0, split_by=3),
        patience=PatienceParams(stage_ms=2400.0, most_rounds=1),
    ),
    prepare_ms=1500.0,
    ask_ms=250.0,
)
"""Faster than what ships, with fewer candidates. A stage takes as many of the directory's periods: links are
up to 85 ms long, and where few sites have room a search widens until it has asked all of them."""
HORIZON_MS = 5000.0
"""By then faults are over. Plans are there for the first time after about one second."""
HEALED_MS = 14_000.0
"""Time to settle after that: for leases to end, and for plans to be made of how things are then."""
PARTS = 2
"""In which the operators are told."""


# What the session measures, as requests of the mover's user.


class LinkTakes(msgspec.Struct, frozen=True, tag=True):
    a: int
    b: int
    latency_ms: float


class SiteGives(msgspec.Struct, frozen=True, tag=True):
    site: int
    usable_cores: float


class QueryTakes(msgspec.Struct, frozen=True, tag=True):
    query: int
    latency_ms: float


class OperatorSends(msgspec.Struct, frozen=True, tag=True):
    operator: int
    output_rate: float


Measured = LinkTakes | SiteGives | QueryTakes | OperatorSends


class Facts:
    """How things are, whoever is down: what the session would measure anew when it begins."""

    def __init__(self, sites: int) -> None:
        self.usable_cores = [USABLE_CORES] * sites
        self.latency_ms = [[ring_ms(a, b, sites) for b in range(sites)] for a in range(sites)]
        self.operators = shared_queries(sites)

    def basics(self, site: int) -> Sequence[Data]:
        first = len(self.operators) // PARTS
        parts = (tuple(self.operators[:first]), tuple(self.operators[first:]))
        known = [
            KnownOperators(number, PARTS, part, self.usable_cores[site], 1000.0, 0.0)
            for number, part in enumerate(parts)
        ]
        return (self.stated(site), *known)

    def stated(self, site: int) -> StatedLatencies:
        return StatedLatencies(tuple(self.latency_ms[site]))

    def take(self, measured: Measured) -> Sequence[tuple[int, Data]]:
        """Whom it is told."""
        sites = len(self.usable_cores)
        match measured:
            case LinkTakes(a=a, b=b, latency_ms=ms):
                self.latency_ms[a][b] = self.latency_ms[b][a] = ms
                return [(a, self.stated(a)), (b, self.stated(b))]
            case SiteGives(site=site, usable_cores=cores):
                self.usable_cores[site] = cores
                return [(site, CapacityMeasured(cores))]
            case QueryTakes(query=query, latency_ms=ms):
                return [((query + 1) % sites, QueryMeasured(query, ms))]
            case OperatorSends(operator=number, output_rate=rate):
                own = msgspec.structs.replace(self.operators[number], output_rate=rate)
                self.operators[number] = own
                return [(site, OperatorsMeasured((own,))) for site in range(sites)]


class Door:
    """What comes over the wire, as a host lets it in. That it refuses what an honest member says is a bug."""

    def __init__(self, protocol: HostedProtocol, sites: int) -> None:
        self._protocol, self._sites = protocol, sites
        self._encode = msgspec.msgpack.Encoder().encode

    def _envelope(self, kind: Kind, content: Data) -> Envelope:
        return Envelope(0, kind, self._protocol.name, msgspec.Raw(self._encode(content)))

    def said(self, sender: int, receiver: int, message: Data, kind: Kind = "message") -> Data:
        return judged(self._protocol, self._envelope(kind, message), sender, receiver, self._sites)

    def request(self, request: Data) -> Data:
        return decode(self._protocol, self._envelope("request", request))


class AgentNode:
    """One site: the agent's machine behind its door."""

    def __init__(self, agent: SiteMachine, door: Door, site: int, sites: int) -> None:
        self.agent: Any = agent
        self.site, self._door, self._mover = site, door, sites
        self.incarnation = 0

    @property
    def lease(self) -> LeaseSite | None:
        """None until it has been told of the operators."""
        found: LeaseSite | None = self.agent.lease
        return found

    def next_timer(self) -> float | None:
        due_ms: float | None = self.agent.next_timer()
        return due_ms

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        match event:
            case Started(incarnation=incarnation, durable=durable):
                self.incarnation = incarnation
                if durable is not None:
                    kept = msgspec.json.decode(msgspec.json.encode(durable), type=LeaseMemory)
                    event = Started(incarnation, kept)
            case Received(sender=self._mover, message=message) if isinstance(message, _REQUESTS):
                event = Asked(self._door.request(message))
            case Received(sender=sender, message=message):
                event = Received(sender, self._door.said(sender, self.site, message))
        effects: Sequence[Effect] = self.agent.handle(event, now_ms)
        for effect in effects:
            if isinstance(effect, Output):
                self._door.said(self.site, self._mover, effect.value, "output")
        return effects


_REQUESTS = (CapacityMeasured, OperatorsMeasured, QueryMeasured)


class _Briefs:
    """Tells agents what they ask, and what is measured. Stands before a mover."""

    facts: Facts
    door: Door

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        match event:
            case Received(sender=sender, message=AskOperators()):
                return [Send(sender, each) for each in self.facts.basics(sender)]
            case Asked(request=request) if isinstance(request, Measured):
                return [Send(site, told) for site, told in self.facts.take(request)]
            case Received(sender=sender, message=message) if isinstance(message, ToMover):
                event = Received(sender, self.door.said(sender, len(self.facts.usable_cores), message))
        effects: Sequence[Effect] = super().handle(event, now_ms)  # type: ignore[misc]
        return effects


class BriefingMover(_Briefs, ParallelMover):
    pass


class BriefingRunner(_Briefs, RunnerNode):
    pass


def agent(
    site: int, sites: int, generator: np.random.Generator, kind: type[OverlayAgent] = OverlayAgent
) -> OverlayAgent:
    return kind(site, sites, generator, AGENTS)


class AgentSubject(Subject):
    """Agents with a mover that does as much at once as it is asked for. `make_machine` makes the agents."""

    def run(self, scenario: Scenario) -> Harness:
        sites = scenario.sites - 1
        facts, door = Facts(sites), Door(hosted_overlays(AGENTS), sites)

        def make(site: int, peers: int, generator: np.random.Generator) -> SiteMachine:
            if site < sites:
                return AgentNode(self.make_machine(site, sites, generator), door, site, sites)
            mover = BriefingMover(sites, generator, first_places(sites)[:OPERATORS])
            mover.facts, mover.door = facts, door
            return mover

        return Subject(make, self.make_checkers, self.most_steps).run(scenario)


class AgentRunSubject(AgentSubject):
    """The same with the mover that ships, in a run with engines, a fence and recovery."""

    def run(self, scenario: Scenario) -> Harness:
        sites = scenario.sites - 1
        facts, door = Facts(sites), Door(hosted_overlays(AGENTS), sites)
        ground = Ground([operator % sites for operator in range(OPERATORS)], sites)

        def make(site: int, peers: int, generator: np.random.Generator) -> SiteMachine:
            if site < sites:
                node = AgentNode(self.make_machine(site, sites, generator), door, site, sites)
                return SiteNode(node, ground, site)
            runner = BriefingRunner(sites, ground, _refuses_every_third)
            runner.facts, runner.door = facts, door
            return runner

        return Subject(make, self.make_checkers, self.most_steps).run(scenario)


def _refuses_every_third(proposed: Proposed) -> str | None:
    return "it is the third" if proposed.id[2] % 3 == 0 else None


# Schedules.


def draw_measured(generator: np.random.Generator, peers: int, horizon_ms: float) -> tuple[Request, ...]:
    """What the session measures: links that become slower or as they were, sites with less or more to give,
    queries that are late or not, operators that send more or less."""
    sites, found = peers - 1, list[Request]()
    for at_ms in np.sort(generator.integers(0, int(horizon_ms), 12)).tolist():
        kind = generator.random()
        measured: Measured
        if kind < 0.45:
            a, b = generator.permutation(sites)[:2].tolist()
            added_ms = float(generator.choice([0.0, 30.0, 60.0]))
            measured = LinkTakes(a, b, ring_ms(a, b, sites) + added_ms)
        elif kind < 0.7:
            cores = CORES * float(generator.choice([1.0, 2.0, 3.0])) + 0.1
            measured = SiteGives(int(generator.integers(sites)), cores)
        elif kind < 0.85:
            late_ms = float(generator.choice([0.5, 1.5])) * LIMIT_MS
            measured = QueryTakes(int(generator.integers(QUERIES)), late_ms)
        else:
            rate = float(generator.choice([5.0, 50.0, 500.0]))
            measured = OperatorSends(int(generator.integers(OPERATORS)), rate)
        found.append(Request(float(at_ms), peers - 1, measured))
    return tuple(found)


def draw_run(generator: np.random.Generator, peers: int, horizon_ms: float) -> tuple[Request, ...]:
    """Besides, engines that are lost without their agents, and moves by hand."""
    found = [*draw_measured(generator, peers, horizon_ms)]
    for at_ms in generator.integers(0, int(horizon_ms), 3).tolist():
        site = int(generator.integers(peers - 1))
        if generator.random() < 0.5:
            found.append(Request(float(at_ms), site, LoseEngine()))
        else:
            by_hand = MoveByHand(int(generator.integers(OPERATORS)), site)
            found.append(Request(float(at_ms), peers - 1, by_hand))
    return tuple(sorted(found, key=lambda request: request.at_ms))


def agent_scenarios(draw: DrawRequests = draw_measured) -> Callable[[int], Scenario]:
    """In every fourth a site goes and never comes back."""
    faults = FaultParams(horizon_ms=HORIZON_MS)

    def drawn(seed: int) -> Scenario:
        scenario = draw_scenario(seed, draw, lambda sites, latency_ms: HEALED_MS, faults, (5, 8))
        return scenario if seed % 4 else with_one_gone(scenario, HORIZON_MS)

    return drawn
