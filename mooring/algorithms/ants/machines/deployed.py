"""Reserved and deployed tasks of a site, and the cost of further ones: the queueing model over its own
flows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mooring.algorithms.ants import rules
from mooring.algorithms.ants.machines.colony_params import SiteFacts
from mooring.algorithms.ants.machines.messages import ChainSpec, Segment
from mooring.model.load.two_moment_wait import wait_in_services

SLACK = 1e-9
WEIGHT, FIXED, MEMORY = 5, 6, 7
NO_ROOM = (math.inf, 0.0, 1.0)


class Deployed:
    """Totals over the flows here."""

    def __init__(self, site: int, facts: SiteFacts) -> None:
        self._site, self._facts = site, facts
        self.totals = [0.0] * rules.TOTALS

    @property
    def load(self) -> float:
        """Utilisation of what fixed load leaves."""
        return self._station(self.totals)[0]

    @property
    def wait_s(self) -> float:
        facts, totals = self._facts, self.totals
        if facts.trigger_s > 0.0:
            return rules.batch_s(facts.capacity_cores, totals[1], totals[FIXED], facts.trigger_s)
        return self._station(totals)[1]

    def _station(self, totals: Sequence[float]) -> tuple[float, float, float]:
        """Utilisation, mean wait in seconds, and how irregularly messages leave."""
        rate, load, square, squared_rates, irregular, _, fixed, _ = totals
        rho, service_s, arrivals, service, leaving = rules.moments_of(
            self._facts.capacity_cores, rate, load, square, squared_rates, irregular, fixed
        )
        return rho, service_s * wait_in_services(rho, arrivals, service), leaving

    def cost(
        self,
        chain: ChainSpec,
        first: int,
        last: int,
        variability: float,
        before: int,
        *,
        waits: bool,
        limit: float,
        shared: int = 0,
    ) -> tuple[float, float, float]:
        """What tasks first to last would cost here, in seconds of the mean query; the part of it that others
        have; how irregularly results leave. Infinite beyond the limit, and without room for those that are
        not shared."""
        facts, totals = self._facts, self.totals
        flow = rules.segment_flow(chain.tasks, chain.sides, first, last, shared, variability, facts.trigger_s)
        is_new = first + shared <= last
        if is_new and totals[FIXED] + flow[FIXED] > facts.capacity_cores * (1.0 + SLACK):
            return NO_ROOM
        if is_new and totals[MEMORY] + flow[MEMORY] > facts.memory_mb * (1.0 + SLACK):
            return NO_ROOM
        if facts.trigger_s > 0.0:
            there, more = totals[1] + totals[FIXED], flow[1] + flow[FIXED]
            most = limit if is_new else math.inf
            last_s = facts.trigger_s * (there + more) / facts.capacity_cores
            slow = rules.is_too_slow(facts.delay_limit_s, last_s, 0.0, totals[0], 0.0, 1.0)
            if most < math.inf and slow:
                return NO_ROOM
            cost, effect = rules.batch_cost(
                facts.capacity_cores,
                there,
                totals[WEIGHT],
                more,
                flow[WEIGHT],
                flow[9],
                most,
                facts.trigger_s,
            )
            return cost, effect, 1.0
        was = self._station(totals)
        now = self._station([mine + more for mine, more in zip(totals, flow, strict=False)])
        if (is_new and not now[0] < limit) or (not is_new and not now[1] < math.inf):
            return NO_ROOM
        speed = facts.capacity_cores - totals[FIXED] - flow[FIXED]
        if not speed > 0.0:
            return NO_ROOM
        slow = rules.is_too_slow(facts.delay_limit_s, now[1], flow[8] / speed, totals[0], totals[1], speed)
        if is_new and limit < math.inf and slow:
            return NO_ROOM
        weight = chain.tasks[first][rules.WEIGHT]
        way_s = facts.from_s[before] if before >= 0 else 0.0
        own_s = way_s + (now[1] if waits else 0.0)
        own_s += flow[8] / speed
        effect = totals[WEIGHT] * (now[1] - was[1]) + (flow[WEIGHT] - weight) * now[1]
        out = chain.tasks[last][rules.RATE] * chain.tasks[last][rules.GAIN]
        left = rules.leaving_variability(out, totals[0] + flow[0], now[2])
        return weight * own_s + effect, effect, left

    def end_cost(self, chain: ChainSpec, last: int) -> float:
        """Of the way from the site of the last task to the destination, which is here."""
        if last == self._site or (chain.to_fragment and self._facts.trigger_s > 0.0):
            return 0.0
        return chain.end_weight * (self._facts.from_s[last] + (self.wait_s if chain.to_fragment else 0.0))

    def onward_cost(self, chain: ChainSpec, behind: Segment | None) -> float:
        """Of the way from here to what comes behind a segment: another one, or the destination."""
        if self._facts.trigger_s > 0.0:
            return 0.0
        if behind is None:
            return chain.end_weight * self._facts.to_s[chain.destination]
        return chain.tasks[behind.first][rules.WEIGHT] * self._facts.to_s[behind.site]

    def tasks_that_run(self, chain: ChainSpec, first: int, last: int) -> int:
        """How many of a chain's tasks, from the first on, run here already for other chains. What runs is
        not shared anew, so none are.
        """
        return 0
