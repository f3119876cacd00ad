"""The half of a site's machine that ants walk through: its cell, its queue, and what is deployed there."""

from __future__ import annotations

import math
from heapq import heappop, heappush

import msgspec

from mooring.algorithms.ants.machines import routing, scouting
from mooring.algorithms.ants.machines.cell import Cell
from mooring.algorithms.ants.machines.colony_params import ColonyParams, SiteFacts
from mooring.algorithms.ants.machines.deployed import Deployed
from mooring.algorithms.ants.machines.leader import Leader
from mooring.algorithms.ants.machines.messages import (
    Discouraging,
    RoutingAnt,
    RoutingReturn,
    ScoutAnt,
    ScoutReturn,
)
from mooring.contracts.site_machine import Data, Effect, Send

MOST_QUEUED = 10_000
"""Routing ants that wait at a site. A leader has a few under way at once."""
MOST_ATTEMPTS = 8
"""Attempts of one chain whose failed scouts wait at a site: leaders have one at a time."""


class WalkingSite:
    """Ants of all chains pass here; those of its leader begin and end here."""

    def __init__(
        self, site: int, facts: SiteFacts, params: ColonyParams, leader: Leader, deployed: Deployed
    ) -> None:
        self.site, self._facts, self._params = site, facts, params
        self.cell = Cell(facts.neighbours, params.ants, params.forgotten_ms, facts.through_s)
        self.deployed, self.leader = deployed, leader
        self._queue: list[tuple[float, int, RoutingAnt, float]] = []
        """Routing ants in the queue: until when, and how long they waited."""
        self._queued = 0
        self._failed: dict[tuple[int, int], list[tuple[tuple[int, ...], int]]] = {}
        """Chain and attempt -> path and greediness of the scouts that failed and wait here."""

    def _walked(self, message: Data, now_ms: float) -> list[Effect]:
        """An ant has come here."""
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
