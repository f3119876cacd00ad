"""What is reserved and deployed at a site, and what more would cost: the queueing model over its own
flows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from mooring.algorithms.ants import rules
from mooring.algorithms.ants.machines.colony_params import SiteFacts
from mooring.algorithms.ants.machines.messages import ChainSpec, Reservation, Segment
from mooring.model.load.two_moment_wait import wait_in_services

SLACK = 1e-9
WEIGHT, FIXED, MEMORY = 5, 6, 7
NO_ROOM = (math.inf, 0.0, 1.0)


class Deployed:
    """Totals over the flows here; reservations that expire, one per chain and attempt."""

    def __init__(self, site: int, facts: SiteFacts, limit: float = math.inf) -> None:
        """limit: of the load that what is handed over may make."""
        self._site, self._facts, self._limit = site, facts, limit
        self.totals = [0.0] * rules.TOTALS
        self.reservations: dict[tuple[int, int], Reservation] = {}

    def restore(self, reservations: Iterable[Reservation]) -> None:
        for each in reservations:
            self._add(each)

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

    def reserve(self, chain: ChainSpec, attempt: int, segment: Segment, expires_ms: float) -> Reservation:
        """Again is the same as once, but for the time."""
        key = chain.number, attempt
        kept = self.reservations.get(key)
        if kept is None:
            self._add(Reservation(chain, attempt, segment, self._flow(chain, segment), expires_ms))
        else:
            later = max(expires_ms, kept.expires_ms)
            self.reservations[key] = msgspec.structs.replace(kept, expires_ms=later)
        return self.reservations[key]

    def tasks_that_run(self, chain: ChainSpec, first: int, last: int) -> int:
        """How many of a chain's tasks, from the first on, run here already for other chains."""
        others = (each for each in self.reservations.values() if each.chain.number != chain.number)
        running = {signature for each in others for signature in _signatures(each)}
        own = chain.signatures[first : last + 1]
        return next((n for n, k in enumerate(own) if k < 0 or k not in running), len(own))

    def release(self, chain: int, attempt: int) -> bool:
        """What others share of it stays, and is theirs."""
        gone = self.reservations.pop((chain, attempt), None)
        if gone is None:
            return False
        self._count(gone, -1.0)
        if not self.reservations:
            self.totals = [0.0] * rules.TOTALS
        self.hand_over()
        return True

    def hand_over(self) -> None:
        """The first that shared something which nobody runs any more runs it, and what is behind it. Where
        that leaves no room its leader will hear so when it next renews the lease, and place it anew."""
        runners: dict[int, set[int]] = {}
        for key, each in list(self.reservations.items()):
            own = _signatures(each)
            left = next(
                (n for n, k in enumerate(own) if not runners.get(k, set()) - {each.chain.number}), len(own)
            )
            if left < each.segment.shared:
                self._count(each, -1.0)
                segment = msgspec.structs.replace(each.segment, shared=left)
                each = msgspec.structs.replace(each, segment=segment, flow=self._flow(each.chain, segment))
                self.reservations[key] = each
                self._count(each, 1.0)
                if self._is_overfull:
                    self._count(self.reservations.pop(key), -1.0)
                    continue
            for signature in own:
                runners.setdefault(signature, set()).add(each.chain.number)

    @property
    def _is_overfull(self) -> bool:
        facts = self._facts
        has_room = self.totals[FIXED] <= facts.capacity_cores * (1.0 + SLACK) and self.totals[
            MEMORY
        ] <= facts.memory_mb * (1.0 + SLACK)
        return not has_room or not self.load < self._limit

    def expire(self, now_ms: float) -> bool:
        """Release what nobody has renewed in time."""
        old = [key for key, each in self.reservations.items() if each.expires_ms <= now_ms]
        for key in old:
            self.release(*key)
        return bool(old)

    def next_expiry_ms(self) -> float | None:
        return min((each.expires_ms for each in self.reservations.values()), default=None)

    def _add(self, reservation: Reservation) -> None:
        self.reservations[reservation.chain.number, reservation.attempt] = reservation
        self._count(reservation, 1.0)

    def _flow(self, chain: ChainSpec, segment: Segment) -> tuple[float, ...]:
        flow = rules.segment_flow(
            chain.tasks,
            chain.sides,
            segment.first,
            segment.last,
            segment.shared,
            segment.variability,
            self._facts.trigger_s,
        )
        return tuple(flow[: rules.TOTALS])

    def _count(self, reservation: Reservation, sign: float) -> None:
        for n, value in enumerate(reservation.flow):
            self.totals[n] += sign * value


def _signatures(reservation: Reservation) -> tuple[int, ...]:
    segment = reservation.segment
    return reservation.chain.signatures[segment.first : segment.last + 1]
