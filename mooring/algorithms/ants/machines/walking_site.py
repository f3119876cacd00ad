"""The machine of one site: its cell, what is deployed there, and the leader of the chains that begin
there."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from heapq import heappop, heappush

import msgspec
import numpy as np

from mooring.algorithms.ants import rules
from mooring.algorithms.ants.machines import routing, scouting
from mooring.algorithms.ants.machines.cell import Cell
from mooring.algorithms.ants.machines.colony_params import ColonyParams, SiteFacts
from mooring.algorithms.ants.machines.deployed import Deployed
from mooring.algorithms.ants.machines.leader import Leader
from mooring.algorithms.ants.machines.messages import (
    Aborted,
    CurrentLatency,
    Discouraging,
    EndChain,
    Enforced,
    EnforcementAnt,
    FetchLatency,
    HeldChain,
    HoldChain,
    LatencyAnt,
    PlaceChain,
    ReleaseChain,
    ReplaceChain,
    RoutingAnt,
    RoutingReturn,
    ScoutAnt,
    ScoutReturn,
    SiteMemory,
)
from mooring.contracts.site_machine import (
    Asked,
    Data,
    Effect,
    Event,
    MakeMachine,
    Output,
    Persist,
    Received,
    Send,
    Started,
    TimerDue,
)

MOST_QUEUED = 10_000
"""Routing ants that wait at a site. A leader has a few under way at once."""
MOST_ATTEMPTS = 8
"""Attempts of one chain whose failed scouts wait at a site: leaders have one at a time."""


class AntsSite:
    def __init__(self, site: int, facts: SiteFacts, params: ColonyParams) -> None:
        self.site, self._facts, self._params = site, facts, params
        self.cell = Cell(facts.neighbours, params.ants, params.forgotten_ms, facts.through_s)
        self.deployed = Deployed(site, facts, params.ants.most_limit)
        self.leader = Leader(params)
        self.kept = SiteMemory()
        self._queue: list[tuple[float, int, RoutingAnt, float]] = []
        """Routing ants in the queue: until when, and how long they waited."""
        self._queued = 0
        self._failed: dict[tuple[int, int], list[tuple[tuple[int, ...], int]]] = {}
        """Chain and attempt -> path and greediness of the scouts that failed and wait here."""

    def next_timer(self) -> float | None:
        queue = self._queue[0][0] if self._queue else None
        times = queue, self.deployed.next_expiry_ms(), self.leader.next_timer()
        return min((at for at in times if at is not None), default=None)

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        self.deployed.expire(now_ms)
        effects = self._handle(event, now_ms)
        kept = SiteMemory(tuple(self.deployed.reservations.values()), tuple(self.leader.led.values()))
        if kept == self.kept:
            return effects
        # Durable before anybody hears of it.
        self.kept = kept
        return [Persist(kept), *effects]

    def _handle(self, event: Event, now_ms: float) -> list[Effect]:
        match event:
            case Started(durable=durable):
                if isinstance(durable, SiteMemory):
                    self.deployed.restore(durable.reservations)
                    self.deployed.expire(now_ms)
                    return self.leader.restore(durable.led, now_ms)
                return []
            case TimerDue():
                self.cell.forget(now_ms)
                return [*self._from_queue(now_ms), *self.leader.timer(now_ms)]
            case Asked(request=request):
                return self._asked(request, now_ms)
            case Received(sender=sender, message=message):
                return self._received(sender, message, now_ms)

    def _asked(self, request: Data, now_ms: float) -> list[Effect]:
        match request:
            case PlaceChain(chain=chain):
                return self.leader.place(chain, now_ms)
            case ReplaceChain(chain=chain):
                return self.leader.replace(chain, now_ms)
            case EndChain(chain=number):
                return self.leader.end(number)
            case FetchLatency(chain=number):
                return self.leader.latency_ant(number)
        return []

    def _received(self, sender: int, message: Data, now_ms: float) -> list[Effect]:
        match message:
            case RoutingAnt():
                return self._routing_ant(message, now_ms)
            case RoutingReturn():
                return self._routing_return(message, now_ms)
            case ScoutAnt():
                return self._scout(message, now_ms)
            case ScoutReturn():
                return self._scout_return(message, now_ms)
            case Discouraging():
                return self._discouraging(message, now_ms)
            case EnforcementAnt():
                return self._enforce(message, now_ms)
            case LatencyAnt():
                return self._latency(message)
            case HoldChain():
                return self._hold(sender, message, now_ms)
            case ReleaseChain(chain=chain, attempt=attempt):
                self.deployed.release(chain, attempt)
            case Enforced():
                return self.leader.enforced(message, now_ms)
            case Aborted():
                return self.leader.aborted(message, now_ms)
            case HeldChain():
                return self.leader.held(sender, message, now_ms)
        return []

    # Routing ants.

    def _routing_ant(self, ant: RoutingAnt, now_ms: float) -> list[Effect]:
        if self.site == ant.destination:
            back = RoutingReturn(ant, len(ant.path) - 2)
            return [Send(ant.path[back.position], back)]
        wait_s = self.deployed.wait_s
        if not wait_s < math.inf or not self.cell.neighbours or len(self._queue) >= MOST_QUEUED:
            return self._ended(ant.chain, ant.path[0], ant.number)
        self._queued += 1
        heappush(self._queue, (now_ms + 1e3 * wait_s, self._queued, ant, wait_s))
        return []

    def _from_queue(self, now_ms: float) -> list[Effect]:
        effects: list[Effect] = []
        while self._queue and self._queue[0][0] <= now_ms:
            _, _, ant, wait_s = heappop(self._queue)
            gone = routing.forward(ant, self.cell, self._facts, wait_s, now_ms)
            if gone is None:
                effects += self._ended(ant.chain, ant.path[0], ant.number)
            else:
                effects.append(Send(*gone))
        return effects

    def _ended(self, chain: int, leader: int, number: int) -> list[Effect]:
        """An ant goes no further. As in the paper nobody is told, and its leader waits for as long as ants
        take."""
        return []

    def _routing_return(self, back: RoutingReturn, now_ms: float) -> list[Effect]:
        routing.backward(back, self.cell, now_ms)
        if back.position > 0:
            further = RoutingReturn(back.ant, back.position - 1)
            return [Send(back.ant.path[further.position], further)]
        return self.leader.routing_ant_back(back.ant.chain, back.ant.number, now_ms)

    # Scouts.

    def _scout(self, scout: ScoutAnt, now_ms: float) -> list[Effect]:
        chain, count = scout.chain, len(scout.chain.tasks)
        if scout.placed < count:
            scout = scouting.visit(scout, self.site, self.deployed)
        if scout.placed == count:
            if self.site != chain.destination:
                return [Send(chain.destination, scout)]
            back = scouting.turned(scout, self.deployed)
            return [Send(scout.segments[-1].site, back)]
        if scouting.has_arrived(scout, self.site) or not self.cell.neighbours:
            return self._scout_failed(scout)
        visited = [site for site in scout.path if site != chain.destination]
        other, state = self.cell.next_hop(chain.destination, visited, scout.state, now_ms, scout.astray)
        if other in visited:
            return self._ended(chain.number, chain.source, scout.number)
        return [Send(other, msgspec.structs.replace(scout, state=state, path=(*scout.path, other)))]

    def _scout_failed(self, scout: ScoutAnt) -> list[Effect]:
        """It waits here; when enough with different greediness failed on its path, one discourages the
        path."""
        key = scout.chain.number, scout.attempt
        of_chain = sorted(k for k in self._failed if k[0] == key[0])
        for other in [k for k in of_chain if k[1] < key[1]] or of_chain[:1] * (len(of_chain) > MOST_ATTEMPTS):
            del self._failed[other]
        waiting = self._failed.setdefault(key, [])
        waiting.append((scout.path, scout.greed))
        greeds = {greed for path, greed in waiting if path == scout.path}
        ended = self._ended(scout.chain.number, scout.chain.source, scout.number)
        if len(greeds) < self._params.ants.failures:
            return ended
        self._failed[key] = [each for each in waiting if each[0] != scout.path]
        if len(scout.path) < 2:
            return ended
        back = Discouraging(scout.chain.destination, scout.path, len(scout.path) - 2)
        return [*ended, Send(scout.path[back.position], back)]

    def _discouraging(self, back: Discouraging, now_ms: float) -> list[Effect]:
        self.cell.discourage(back.destination, back.path[back.position + 1], now_ms)
        if back.position == 0:
            return []
        further = Discouraging(back.destination, back.path, back.position - 1)
        return [Send(back.path[further.position], further)]

    def _scout_return(self, back: ScoutReturn, now_ms: float) -> list[Effect]:
        if back.position < 0:
            return self.leader.report(back, now_ms)
        limit = self._params.ants.most_limit
        return [Send(*scouting.balanced(back, self.site, self.cell.neighbours, self.deployed, limit))]

    # Enforcement, and what is placed.

    def _enforce(self, ant: EnforcementAnt, now_ms: float) -> list[Effect]:
        """Check again what it costs and what runs here that it can share; reserve, or abort."""
        chain, segment = ant.chain, ant.segments[ant.position]
        if (chain.number, ant.attempt) not in self.deployed.reservations:
            shared = 0
            if all(earlier.is_all_shared for earlier in ant.segments[: ant.position]):
                shared = self.deployed.tasks_that_run(chain, segment.first, segment.last)
            before = ant.segments[ant.position - 1].site if ant.position else chain.source
            waits = not (chain.from_fragment and ant.position == 0 and self.site == chain.source)
            cost, _, _ = self.deployed.cost(
                chain,
                segment.first,
                segment.last,
                segment.variability,
                before,
                waits=waits,
                limit=ant.limit,
                shared=shared,
            )
            segment = msgspec.structs.replace(segment, shared=shared)
            if not cost <= segment.cost * (1.0 + self._params.ants.tolerance) + 1e-12:
                reason = f"placing it at site {self.site} has become too costly since it was scouted"
                return [Send(chain.source, Aborted(chain.number, ant.attempt, reason))]
        kept = self.deployed.reserve(chain, ant.attempt, segment, now_ms + self._params.reservation_ms)
        segments = (*ant.segments[: ant.position], kept.segment, *ant.segments[ant.position + 1 :])
        if ant.position + 1 < len(segments):
            further = msgspec.structs.replace(ant, segments=segments, position=ant.position + 1)
            return [Send(segments[further.position].site, further)]
        return [Send(chain.source, Enforced(chain.number, ant.attempt, segments))]

    def _hold(self, sender: int, message: HoldChain, now_ms: float) -> list[Effect]:
        chain, segment = message.chain, message.segment
        fits = (chain.number, message.attempt) in self.deployed.reservations
        if not fits:
            running = self.deployed.tasks_that_run(chain, segment.first, segment.last)
            segment = msgspec.structs.replace(segment, shared=min(segment.shared, running))
            cost, _, _ = self.deployed.cost(
                chain,
                segment.first,
                segment.last,
                segment.variability,
                -1,
                waits=True,
                limit=self._params.ants.most_limit,
                shared=segment.shared,
            )
            fits = cost < math.inf
        if fits:
            self.deployed.reserve(chain, message.attempt, segment, now_ms + self._params.lease_ms)
        return [Send(sender, HeldChain(chain.number, message.attempt, fits))]

    def _latency(self, ant: LatencyAnt) -> list[Effect]:
        chain = ant.chain
        if ant.position > len(ant.segments):
            return [Output(CurrentLatency(chain.number, ant.latency_s))]
        before = ant.segments[ant.position - 1].site if ant.position else chain.source
        latency_s = ant.latency_s + self._facts.from_s[before]
        if ant.position < len(ant.segments):
            segment = ant.segments[ant.position]
            path = sum(chain.tasks[k][rules.PATH] for k in range(segment.first, segment.last + 1))
            latency_s += self.deployed.wait_s
            latency_s += path / (self._facts.capacity_cores - self.deployed.totals[6])
        further = msgspec.structs.replace(ant, position=ant.position + 1, latency_s=latency_s)
        if further.position > len(ant.segments):
            return [Send(chain.source, further)]
        is_last = further.position == len(ant.segments)
        return [Send(chain.destination if is_last else ant.segments[further.position].site, further)]


def ants_machines(facts: Callable[[int], Sequence[SiteFacts]], params: ColonyParams) -> MakeMachine:
    """`facts`: of every site, from how many there are."""

    def make(site: int, sites: int, _generator: np.random.Generator) -> AntsSite:
        return AntsSite(site, facts(sites)[site], params)

    return make
