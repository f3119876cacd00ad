"""The state machine of one site of an overlay: directory, monitor, hosting, its part in others' rounds, and
the queries that it coordinates itself.

One query is registered at a time at each site; the next waits. What a round has not changed it leaves no
trace of: generations are forgotten with the next round of the same coordinator, reservations expire.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

import msgspec
import numpy as np

from mooring.algorithms.overlay.protocol import messages as m
from mooring.algorithms.overlay.protocol.agents import Agents
from mooring.algorithms.overlay.protocol.candidate_search import CandidateSearches
from mooring.algorithms.overlay.protocol.coordinator import Coordinator, PatienceParams
from mooring.algorithms.overlay.protocol.directory import (
    Answer,
    Directory,
    DirectoryMessage,
    DirectoryParams,
    Search,
)
from mooring.algorithms.overlay.protocol.generation import SearchParams
from mooring.algorithms.overlay.protocol.monitor import NetworkMonitor
from mooring.algorithms.overlay.protocol.site_room import SiteRoom
from mooring.algorithms.overlay.search.shared_operator import NOWHERE
from mooring.contracts.site_machine import (
    Asked,
    Data,
    Effect,
    Event,
    MakeMachine,
    Received,
    Send,
    Started,
    TimerDue,
)
from mooring.model.network.coordinate import Coordinate
from mooring.model.network.vivaldi import VivaldiParams

MOST_REGISTERED = 100_000
"""Operators that a site keeps the register of."""
MOST_WAITING = 1_000
"""Reservations that wait for the measurement of one link."""
KINDS = {
    **dict.fromkeys(get_args(DirectoryMessage), "directory"),
    **dict.fromkeys((Search, Answer), "search"),
    **dict.fromkeys((m.Echo, m.EchoBack), "monitor"),
}
"""Of messages; all others are of the exchange."""
SILENT_AFTER = 2
"""Times that a neighbour may be asked in vain before the directory does without it."""


@dataclass(frozen=True)
class OverlayParams:
    search: SearchParams = field(default_factory=SearchParams)
    directory: DirectoryParams = field(default_factory=lambda: DirectoryParams(split_by=3))
    """Split by where sites are: every search is for the surroundings of some point."""
    vivaldi: VivaldiParams = field(default_factory=VivaldiParams)
    neighbours: int = 16
    """Sites that each site measures in turn to keep its coordinate."""
    patience: PatienceParams = field(default_factory=PatienceParams)
    stores_plans: bool = True
    """Whether plans are kept for limits that are missed later."""


@dataclass(frozen=True)
class SiteStart:
    """What a site has when it starts."""

    usable_cores: float
    memory_mb: float
    coordinate: Coordinate | None = None
    hosted: tuple[m.HostedOperator, ...] = ()
    registered: tuple[tuple[int, int], ...] = ()
    """Operators whose registry it is -> where they run."""


class OverlaySite:
    def __init__(
        self, site: int, sites: int, generator: np.random.Generator, params: OverlayParams, start: SiteStart
    ) -> None:
        self.site, self._sites, self._params, self._generator = site, sites, params, generator
        self.monitor = NetworkMonitor(site, generator, params.vivaldi, start.coordinate)
        self.directory = Directory(site, sites, params.directory)
        self.hosting = SiteRoom(site, start.usable_cores, start.memory_mb, start.hosted)
        self.searches = CandidateSearches(self.directory, self.monitor, sites, params.vivaldi.dimensions)
        self.coordinator = Coordinator(
            site, sites, params.search, params.patience, self.monitor, self.hosting, self.searches
        )
        self.agents = Agents(
            site, params.search, self.monitor, self.hosting, self.searches, self.coordinator.plans_made
        )
        self.agents.stores = params.stores_plans
        self.sent = {"exchange": 0, "within": 0, "search": 0, "directory": 0, "monitor": 0}
        """Messages so far, to other sites; `within`: those of the exchange that an agent or host here had for
        another here."""
        self._registry: dict[int, tuple[float, int]] = {o: (0.0, at) for o, at in start.registered}
        self._measuring: dict[int, list[tuple[int, m.Take, tuple[float, float]]]] = {}
        self._neighbours: list[int] = []
        self._unheard: Counter[int] = Counter()
        """Neighbours, and how often they were asked since they were last heard of."""
        self._next_turn_ms: float | None = None

    def is_so(self, hosted: Iterable[m.HostedOperator], runs_at: Mapping[int, int]) -> None:
        """Somebody else moves operators: what runs here, and where all of them are."""
        self.hosting.hosted = {own.operator.operator: own for own in hosted}
        self.coordinator.runs_at = dict(runs_at)

    # The contract of a machine.

    def next_timer(self) -> float | None:
        due = [ms for ms in (self._next_turn_ms, self.coordinator.deadline_ms) if ms is not None]
        return min(due, default=None)

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        effects = self._handled(event, now_ms)
        for effect in effects:
            if isinstance(effect, Send):
                kind = KINDS.get(type(effect.message), "exchange")
                if effect.to != self.site:
                    self.sent[kind] += 1
                elif kind == "exchange":
                    self.sent["within"] += 1
        return effects

    def _handled(self, event: Event, now_ms: float) -> Sequence[Effect]:
        match event:
            case Started():
                others = [each for each in range(self._sites) if each != self.site]
                picked = self._generator.permutation(len(others))[: self._params.neighbours]
                self._neighbours = [others[i] for i in picked.tolist()]
                period_ms = self._params.directory.period_ms
                self._next_turn_ms = now_ms + float(self._generator.random()) * period_ms * 0.1
                return ()
            case TimerDue():
                return self._timer(now_ms)
            case Received(sender=sender, message=message):
                return self._receive(sender, message, now_ms)
            case Asked(request=request):
                return self.coordinator.ask(request, now_ms) if isinstance(request, m.RegisterQuery) else ()

    def _timer(self, now_ms: float) -> Sequence[Effect]:
        effects: list[Effect] = []
        if self._next_turn_ms is not None and now_ms >= self._next_turn_ms:
            self._next_turn_ms = now_ms + self._params.directory.period_ms
            effects += [*self._advertise(now_ms), *self.directory.turn(now_ms), *self.searches.turn()]
            effects += [Send(peer, m.Echo(now_ms)) for peer in self._neighbours[:2]]
            self._unheard.update(self._neighbours[:2])
            self._neighbours = [*self._neighbours[2:], *self._neighbours[:2]]
            self.directory.silent = {peer for peer, times in self._unheard.items() if times > SILENT_AFTER}
        return (*effects, *self.coordinator.timer(now_ms))

    def _advertise(self, now_ms: float) -> Sequence[Effect]:
        coordinate = self.monitor.coordinate
        left = self.hosting.cores_left, self.hosting.memory_left_mb
        return self.directory.advertise((*coordinate.position_ms, *left), coordinate, now_ms)

    def _receive(self, sender: int, message: Data, now_ms: float) -> Sequence[Effect]:
        self._unheard.pop(sender, None)
        self.directory.silent.discard(sender)
        if isinstance(message, DirectoryMessage):
            effects, found = self.directory.receive(sender, message, now_ms)
            return effects if found is None else (*effects, *self.searches.found(found))
        match message:
            case m.Echo(sent_ms=sent_ms):
                return (Send(sender, m.EchoBack(sent_ms, self.monitor.coordinate)),)
            case m.EchoBack(sent_ms=sent_ms, coordinate=coordinate):
                self.monitor.measured(sender, (now_ms - sent_ms) / 2.0, coordinate)
                return (*self._measured(sender), *self.coordinator.measured(sender, now_ms))
            case m.WhereIs() | m.RunsAt() | m.Describe() | m.Take() | m.ReleaseRoom():
                return self._as_host(sender, message, now_ms)
            case m.Commit() | m.Leave() | m.PublisherMoved():
                return self._as_host(sender, message, now_ms)
            case m.Prepare():
                return self.agents.prepare(message, now_ms)
            case m.Refer() | m.AheadIs() | m.PlansOf():
                return self.agents.exchange(sender, message, now_ms)
            case m.FoundAt() | m.Description() | m.Taken() | m.Settled():
                return self.coordinator.receive(sender, message, now_ms)
        return ()

    # As a registry and as a host.

    def _as_host(self, sender: int, message: Data, now_ms: float) -> Sequence[Effect]:
        match message:
            case m.WhereIs(round=round_, operator=operator):
                at = self._registry.get(operator, (0.0, NOWHERE))[1]
                return (Send(sender, m.FoundAt(round_, operator, at)),)
            case m.RunsAt(operator=operator, site=site, version=version):
                known = operator in self._registry or len(self._registry) < MOST_REGISTERED
                if known and version >= self._registry.get(operator, (-1.0, NOWHERE))[0]:
                    self._registry[operator] = version, site
                return (Send(sender, m.Settled(message.round, message.part)),)
            case m.Describe(round=round_, operator=operator):
                here = self.hosting.as_candidate(self.monitor.coordinate)
                hosted = self.hosting.hosted.get(operator)
                return (Send(sender, m.Description(round_, operator, hosted, here)),)
            case m.Take():
                return self._take(sender, message, now_ms)
            case m.ReleaseRoom(round=round_):
                self.hosting.release(round_)
            case m.Commit(round=round_, hosted=hosted):
                self.hosting.commit(round_, hosted)
                return (Send(sender, m.Settled(round_, message.part)), *self._advertise(now_ms))
            case m.Leave(round=round_, operator=operator):
                self.hosting.leave(operator)
                self.agents.store.forget(operator)
                return (Send(sender, m.Settled(round_, message.part)), *self._advertise(now_ms))
            case m.PublisherMoved():
                self._publisher_moved(message)
        return ()

    def _take(self, sender: int, take: m.Take, now_ms: float) -> Sequence[Effect]:
        short = self.hosting.reserve(take.round, take.operator, take.leaving, now_ms)
        unmeasured = [site for site in take.near_sites if not self.monitor.estimate(self.site, site).measured]
        if not unmeasured:
            return (self._taken(sender, take, short),)
        for site in unmeasured:
            waiting = self._measuring.setdefault(site, [])
            if len(waiting) < MOST_WAITING:
                waiting.append((sender, take, short))
        return [Send(site, m.Echo(now_ms)) for site in unmeasured]

    def _taken(self, to: int, take: m.Take, short: tuple[float, float]) -> Send:
        ms = tuple((s, self.monitor.estimate(self.site, s).latency_ms) for s in take.near_sites)
        return Send(to, m.Taken(take.round, take.operator.operator, *short, ms))

    def _measured(self, peer: int) -> Sequence[Effect]:
        """Reservations that waited for this measurement and for no other."""
        effects: list[Effect] = []
        for to, take, short in self._measuring.pop(peer, ()):
            if not any(take in (each for _, each, _ in waiting) for waiting in self._measuring.values()):
                effects.append(self._taken(to, take, short))
        return effects

    def _publisher_moved(self, message: m.PublisherMoved) -> None:
        hosted = self.hosting.hosted.get(message.operator)
        if hosted is not None:
            publishers = dict(hosted.publishers) | {message.publisher: message.site}
            moved = msgspec.structs.replace(hosted, publishers=tuple(publishers.items()))
            self.hosting.hosted[message.operator] = moved


def overlay_machines(params: OverlayParams, starts: Callable[[int], SiteStart]) -> MakeMachine:
    return lambda site, sites, generator: OverlaySite(site, sites, generator, params, starts(site))
