"""Ants that place new chains (sections 3.7 to 3.9): leaders have the best report enforced, sites reserve and
hold what is placed.

Agents place nothing: what runs is moved by proposals (`updating_leader.py`). This half is the twin that the
compiled colony of the policy is held against, and it shares its walking half with the product.

| status    | what happened                                    | becomes                                |
| --------- | ------------------------------------------------ | -------------------------------------- |
| searching | all scouts are back or lost, one has a placement | searching: an enforcement ant goes out |
| searching | the enforcement ant has reserved every segment   | placed: sites are told to hold it      |
| searching | no report, or enforcement aborted or timed out   | searching again; in the end refused    |
| placed    | a site has no room after all, or is silent       | searching, what was held is released   |
| any       | the chain is to be placed anew                   | searching, what was held is released   |
| any       | the chain ends                                   | ended, what was held is released       |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np

from mooring.algorithms.ants import rules
from mooring.algorithms.ants.chains import Chain
from mooring.algorithms.ants.machines.chain_search import Hunt
from mooring.algorithms.ants.machines.colony_params import ColonyParams, SiteFacts
from mooring.algorithms.ants.machines.deployed import FIXED, MEMORY, SLACK, Deployed
from mooring.algorithms.ants.machines.leader import Leader
from mooring.algorithms.ants.machines.messages import SHORT, ChainSpec, Segment
from mooring.algorithms.ants.machines.walking_site import WalkingSite
from mooring.arrays import Ints
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

HOLDS_PER_LEASE = 4


class EnforcementAnt(msgspec.Struct, frozen=True, tag=True, rename=SHORT):
    chain: ChainSpec
    attempt: int
    limit: float
    segments: tuple[Segment, ...]
    position: int


class LatencyAnt(msgspec.Struct, frozen=True, tag=True):
    """Fetches the latency of what is deployed."""

    chain: ChainSpec
    attempt: int
    segments: tuple[Segment, ...]
    position: int
    latency_s: float = 0.0


# Between leaders and sites.


class Enforced(msgspec.Struct, frozen=True, tag=True):
    chain: int
    attempt: int
    segments: tuple[Segment, ...]
    """As they were reserved, with what they share."""


class Aborted(msgspec.Struct, frozen=True, tag=True):
    chain: int
    attempt: int
    reason: str


class HoldChain(msgspec.Struct, frozen=True, tag=True):
    """The chain is placed: keep its segment for a lease, and take it back if it was lost."""

    chain: ChainSpec
    attempt: int
    segment: Segment


class HeldChain(msgspec.Struct, frozen=True, tag=True):
    chain: int
    attempt: int
    fits: bool


class ReleaseChain(msgspec.Struct, frozen=True, tag=True):
    chain: int
    attempt: int


# Asked of a site by its own user.


class PlaceChain(msgspec.Struct, frozen=True, tag=True):
    chain: ChainSpec


class ReplaceChain(msgspec.Struct, frozen=True, tag=True):
    """Its rates, its tasks or its ends are others now: give up where it is, and place it anew."""

    chain: ChainSpec


class EndChain(msgspec.Struct, frozen=True, tag=True):
    chain: int


class FetchLatency(msgspec.Struct, frozen=True, tag=True):
    chain: int


# Told to it.


class Placed(msgspec.Struct, frozen=True, tag=True):
    chain: int
    sites: tuple[int, ...]
    """Per task."""
    shared: tuple[bool, ...] = ()
    """Per task: whether it runs there already for another chain; none: nothing is shared."""


class NotPlaced(msgspec.Struct, frozen=True, tag=True):
    chain: int
    reason: str


class CurrentLatency(msgspec.Struct, frozen=True, tag=True):
    chain: int
    latency_s: float


# Kept.


class Reservation(msgspec.Struct, frozen=True):
    """A segment's flows at a site, until they expire."""

    chain: ChainSpec
    attempt: int
    segment: Segment
    flow: tuple[float, ...]
    expires_ms: float


class Led(msgspec.Struct, frozen=True):
    """A chain as its leader remembers it."""

    chain: ChainSpec
    status: str
    """searching, placed, refused or ended."""
    attempt: int = 0
    segments: tuple[Segment, ...] = ()
    reason: str = ""


class SiteMemory(msgspec.Struct, frozen=True, tag=True):
    """What survives a crash of a site."""

    reservations: tuple[Reservation, ...] = ()
    led: tuple[Led, ...] = ()


class Reserving(Deployed):
    """What is deployed here are reservations that expire, one per chain and attempt."""

    def __init__(self, site: int, facts: SiteFacts, limit: float) -> None:
        """limit: of the load that what is handed over may make."""
        super().__init__(site, facts)
        self._limit = limit
        self.reservations: dict[tuple[int, int], Reservation] = {}

    def restore(self, reservations: Iterable[Reservation]) -> None:
        for each in reservations:
            self._add(each)

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


class PlacingLeader(Leader):
    """Of all chains that begin at one site; it keeps what is placed."""

    def __init__(self, params: ColonyParams) -> None:
        super().__init__(params)
        self.led: dict[int, Led] = {}
        self._next_hold_ms: dict[int, float] = {}
        self._unanswered: dict[tuple[int, int], int] = {}
        """Chain and site -> holds without an answer."""

    def restore(self, led: Iterable[Led], now_ms: float) -> list[Effect]:
        """After a crash: what was searched for is searched for anew, what is placed is held."""
        effects: list[Effect] = []
        for each in led:
            self.led[each.chain.number] = each
            if each.status == "searching":
                effects += self._search(each.chain, now_ms)
            elif each.status == "placed":
                effects += self._hold(each, now_ms)
        return effects

    def place(self, chain: ChainSpec, now_ms: float) -> list[Effect]:
        known = self.led.get(chain.number)
        if known is not None and known.status in ("searching", "placed"):
            return []
        return self._search(chain, now_ms)

    def replace(self, chain: ChainSpec, now_ms: float) -> list[Effect]:
        """Whatever has become of it: as it is given now, it is placed anew."""
        return [*self.end(chain.number), *self._search(chain, now_ms)]

    def end(self, number: int) -> list[Effect]:
        known = self.led.get(number)
        if known is None:
            return []
        hunt = self._hunts.pop(number, None)
        self._next_hold_ms.pop(number, None)
        for segment in known.segments:
            self._unanswered.pop((number, segment.site), None)
        self.led[number] = msgspec.structs.replace(known, status="ended", segments=())
        return [*self._releases(known), *([] if hunt is None else self._abandoned(hunt))]

    def next_timer(self) -> float | None:
        hunts = (hunt.next_timer() for hunt in self._hunts.values())
        return min((at for at in (*hunts, *self._next_hold_ms.values()) if at is not None), default=None)

    def timer(self, now_ms: float) -> list[Effect]:
        effects: list[Effect] = []
        for hunt in list(self._hunts.values()):
            if hunt.phase == "enforcing":
                if hunt.enforced_by_ms is not None and hunt.enforced_by_ms <= now_ms:
                    effects += self._try_again(hunt, "an enforcement ant did not come back", now_ms)
            else:
                hunt.give_up_lost(now_ms)
                effects += self._go_on(hunt, now_ms)
        for number in [n for n, at_ms in self._next_hold_ms.items() if at_ms <= now_ms]:
            effects += self._hold(self.led[number], now_ms)
        return effects

    def enforced(self, message: Enforced, now_ms: float) -> list[Effect]:
        hunt = self._hunts.get(message.chain)
        if hunt is None or hunt.phase != "enforcing" or hunt.attempt != message.attempt:
            return []
        del self._hunts[message.chain]
        led = Led(hunt.chain, "placed", hunt.attempt, message.segments)
        self.led[message.chain] = led
        tasks = [(s, k - s.first) for s in led.segments for k in range(s.first, s.last + 1)]
        shared = tuple(n < s.shared for s, n in tasks)
        placed = Placed(message.chain, tuple(s.site for s, _ in tasks), shared if any(shared) else ())
        return [Output(placed), *self._hold(led, now_ms)]

    def aborted(self, message: Aborted, now_ms: float) -> list[Effect]:
        hunt = self._hunts.get(message.chain)
        if hunt is None or hunt.phase != "enforcing" or hunt.attempt != message.attempt:
            return []
        return self._try_again(hunt, message.reason, now_ms)

    def held(self, sender: int, message: HeldChain, now_ms: float) -> list[Effect]:
        led = self.led.get(message.chain)
        if led is None or led.status != "placed" or led.attempt != message.attempt:
            return []
        self._unanswered[message.chain, sender] = 0
        return [] if message.fits else self._place_anew(led, now_ms)

    def latency_ant(self, number: int) -> list[Effect]:
        led = self.led.get(number)
        if led is None or led.status != "placed":
            return []
        return [Send(led.segments[0].site, LatencyAnt(led.chain, led.attempt, led.segments, 0))]

    # What a leader does.

    def _search(self, chain: ChainSpec, now_ms: float) -> list[Effect]:
        known = self.led.get(chain.number)
        hunt = Hunt(chain, 1 if known is None else known.attempt + 1)
        return self._begin(hunt, now_ms)

    def _begin(self, hunt: Hunt, now_ms: float) -> list[Effect]:
        self._hunts[hunt.chain.number] = hunt
        self.led[hunt.chain.number] = Led(hunt.chain, "searching", hunt.attempt)
        hunt.begin(self._params)
        return self._go_on(hunt, now_ms)

    def _go_on(self, hunt: Hunt, now_ms: float) -> list[Effect]:
        """Send more ants, or go over to what comes next."""
        effects, over = hunt.go_on(self._params, now_ms)
        if not over:
            return effects
        if hunt.best is None:
            return [*effects, *self._try_again(hunt, hunt.trouble, now_ms)]
        hunt.phase, hunt.enforced_by_ms = "enforcing", now_ms + self._params.ant_ms
        ant = EnforcementAnt(hunt.chain, hunt.attempt, self._params.ants.most_limit, hunt.segments, 0)
        return [*effects, Send(hunt.segments[0].site, ant)]

    def _try_again(self, hunt: Hunt, trouble: str, now_ms: float) -> list[Effect]:
        released = self._abandoned(hunt)
        if hunt.tries < self._params.attempts:
            again = Hunt(hunt.chain, hunt.attempt + 1, hunt.tries + 1)
            return [*released, *self._begin(again, now_ms)]
        number, reason = hunt.chain.number, f"after {hunt.tries} attempts: {trouble}"
        del self._hunts[number]
        self.led[number] = Led(hunt.chain, "refused", hunt.attempt, (), reason)
        return [*released, Output(NotPlaced(number, reason))]

    def _abandoned(self, hunt: Hunt) -> list[Effect]:
        """Nothing that this attempt may have reserved is needed."""
        if hunt.phase != "enforcing":
            return []
        return [Send(site, ReleaseChain(hunt.chain.number, hunt.attempt)) for site in hunt.sites()]

    def _releases(self, led: Led) -> list[Effect]:
        return [Send(s.site, ReleaseChain(led.chain.number, led.attempt)) for s in led.segments]

    def _hold(self, led: Led, now_ms: float) -> list[Effect]:
        """Renew the leases of what is placed; a site that was silent for a whole lease is given up."""
        number = led.chain.number
        counts = [self._unanswered.get((number, segment.site), 0) for segment in led.segments]
        if max(counts, default=0) >= HOLDS_PER_LEASE:
            return self._place_anew(led, now_ms)
        for segment, count in zip(led.segments, counts, strict=True):
            self._unanswered[number, segment.site] = count + 1
        self._next_hold_ms[number] = now_ms + self._params.lease_ms / (HOLDS_PER_LEASE + 1)
        return [Send(s.site, HoldChain(led.chain, led.attempt, s)) for s in led.segments]

    def _place_anew(self, led: Led, now_ms: float) -> list[Effect]:
        number = led.chain.number
        self._next_hold_ms.pop(number, None)
        for segment in led.segments:
            self._unanswered.pop((number, segment.site), None)
        return [*self._releases(led), *self._search(led.chain, now_ms)]


class PlacingSite(WalkingSite):
    leader: PlacingLeader
    deployed: Reserving

    def __init__(self, site: int, facts: SiteFacts, params: ColonyParams) -> None:
        super().__init__(
            site, facts, params, PlacingLeader(params), Reserving(site, facts, params.ants.most_limit)
        )
        self.kept = SiteMemory()

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
            case _:
                return self._walked(message, now_ms)
        return []

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

    def make(site: int, sites: int, _generator: np.random.Generator) -> PlacingSite:
        return PlacingSite(site, facts(sites)[site], params)

    return make


def chain_spec(number: int, chain: Chain, site_of_fragment: Ints, signature: Ints | None = None) -> ChainSpec:
    """Between the sites that its ends have by now; one without an end stays where the other is.

    signature: per fragment, what it computes; None: nothing is shared.
    """
    source, destination = chain.start.site_in(site_of_fragment), chain.end.site_in(site_of_fragment)
    either = max(source, destination, 0)
    return ChainSpec(
        number,
        tuple(tuple(row) for row in chain.tasks.tolist()),
        tuple(tuple(row) for row in chain.sides.tolist()),
        either if source < 0 else source,
        chain.start.fragment >= 0,
        chain.start_variability,
        either if destination < 0 else destination,
        chain.end.fragment >= 0,
        chain.end_weight if destination >= 0 else 0.0,
        () if signature is None else tuple(signature[list(chain.fragments)].tolist()),
    )
