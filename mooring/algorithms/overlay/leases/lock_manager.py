"""The locks that a site keeps for others' leases: its operators, the queries that end here, its room.

A request that is in the way of another lease is denied and goes no further: everything upstream of a shared
operator is shared by the same queries (Property 1), so no request has to go upstream. Others are passed on to
the inputs of the operator and, where its output will come at another time, to its readers, until every query
that the plan affects has received the request at its end. Ends never move, so two plans that affect one query
meet there at the latest.

Locks expire until they are held. Then they end with the mover's answer or with a release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from mooring.algorithms.overlay.leases.lease_messages import (
    Held,
    HoldLocks,
    LeasePlan,
    Lock,
    LockDenied,
    LockGranted,
    LockLost,
    Released,
    ReleaseLock,
    RequestLock,
    ToKeeper,
    in_conflict,
)
from mooring.algorithms.overlay.leases.lease_params import LeaseParams
from mooring.algorithms.overlay.leases.site_view import OverlaySurroundings, Served, sink_number
from mooring.algorithms.overlay.leases.transitions import KEEPING, Event, LeaseStage, stepped
from mooring.algorithms.overlay.search.shared_operator import NOWHERE
from mooring.contracts.site_machine import Effect, Send
from mooring.coordination.move_messages import (
    Accepted,
    Answer,
    Done,
    Failed,
    Inquiry,
    Over,
    ProposalId,
)
from mooring.model.placement.site_limits import SLACK

LOCKS_PER_OPERATOR = 16
Key = tuple[ProposalId, int, bool]


def stage_of(lock: Lock | None) -> LeaseStage:
    if lock is None:
        return LeaseStage.NONE
    return LeaseStage.HELD if lock.held else LeaseStage.LOCKED


class Keeper:
    """`locks` has to be durable before any of its effects is carried out."""

    def __init__(self, around: OverlaySurroundings, mover: int, params: LeaseParams) -> None:
        self._around, self._mover, self._params = around, mover, params
        self.locks: dict[Key, Lock] = {}
        self._over: set[ProposalId] = set()
        """Leases of which the mover only knows that they are over; kept until it says where things are."""

    def start(self, locks: Sequence[Lock]) -> None:
        self.locks = {(lock.id, lock.operator, lock.room): lock for lock in locks}

    @property
    def _most_locks(self) -> int:
        """Of one site: of every operator and its room, at both ends, under a lease or two that are ending."""
        return LOCKS_PER_OPERATOR * (len(self._around.operators) + 1)

    @property
    def reserved(self) -> dict[int, float]:
        """Operators that room is kept for, and the cores."""
        return self._kept_room(self.locks.values())

    def _kept_room(self, locks: Iterable[Lock]) -> dict[int, float]:
        """For what comes here, and for what leaves until its lease is over: if the rest of its list fails, it
        comes back.
        """
        return {
            lock.operator: dict(lock.plan.cores).get(lock.operator, self._around.needs(lock.operator).cores)
            for lock in locks
            if lock.room or _leaves(lock, self._around.site)
        }

    def next_timer(self) -> float | None:
        return min((lock.until_ms for lock in self.locks.values()), default=None)

    def receive(self, sender: int, message: ToKeeper, now_ms: float) -> Sequence[Effect]:
        match message:
            case RequestLock():
                return self._request(message, now_ms)
            case HoldLocks():
                return self._hold(sender, message, now_ms)
            case ReleaseLock(id=id_, places=places):
                self._free(id_, Event.RELEASE)
                return (Send(sender, Released(id_)), *self._around.ask_if_new(places, self._mover))

    # Granting.

    def _request(self, request: RequestLock, now_ms: float) -> Sequence[Effect]:
        key, seeker = (request.id, request.operator, request.room), request.id[0]
        known = self.locks.get(key)
        denied = self._objection(request) if known is None else None
        if denied is not None:
            return (Send(seeker, denied),)
        after = stepped(KEEPING, stage_of(known), Event.REQUEST)
        wider = request.dependents and (known is None or not known.dependents)
        self.locks[key] = Lock(
            request.id,
            request.operator,
            request.room,
            request.plan,
            held=after is LeaseStage.HELD,
            until_ms=known.until_ms if known is not None and known.held else now_ms + self._params.lock_ms,
            dependents=request.dependents or (known is not None and known.dependents),
        )
        asked = self._passed_on(self.locks[key])
        onwards = [
            Send(site, RequestLock(request.id, request.plan, operator, room=False, dependents=dependents))
            for operator, site, dependents in asked
            if known is None or wider
        ]
        return (*onwards, Send(seeker, self._granted(request, asked)))

    def _objection(self, request: RequestLock) -> LockDenied | None:
        plan, operator, around = request.plan, request.operator, self._around
        if not around.knows(plan) or (operator >= 0 and not around.is_known(operator)):
            return LockDenied(request.id, operator, "unknown operators")
        if sum(lock.id[0] == request.id[0] for lock in self.locks.values()) >= self._most_locks:
            return LockDenied(request.id, operator, "the requester holds as many locks as it may")
        if (other := self._in_the_way(request)) is not None:
            return LockDenied(request.id, operator, "another lease conflicts", by=other)
        move = next((each for each in plan.moves if each.fragment == operator), None)
        place = around.where.get(operator)
        if move is not None and (place is None or place.epoch != move.epoch or place.site != move.from_site):
            return LockDenied(
                request.id, operator, "the operator has moved since the plan was made", place=place
            )
        if request.room:
            return self._no_room(request)
        if around.site_of(operator) != around.site:
            return LockDenied(request.id, operator, "the operator does not run here", place=place)
        return None if move is None or move.to_site == NOWHERE else self._not_as_planned(request)

    def _in_the_way(self, request: RequestLock) -> LeasePlan | None:
        """The plan of another lease that it conflicts with."""
        others = (lock.plan for lock in self.locks.values() if lock.id != request.id)
        return next((plan for plan in others if in_conflict(plan, request.plan)), None)

    def _not_as_planned(self, request: RequestLock) -> LockDenied | None:
        """What the host of an operator that is to move knows better."""
        plan, operator, around = request.plan, request.operator, self._around
        unheard = set(around.served.queries.get(operator, ())) - set(plan.affected)
        if unheard:
            return LockDenied(request.id, operator, f"the plan also affects queries {sorted(unheard)}")
        if around.needs(operator).cores > dict(plan.cores).get(operator, 0.0) + SLACK:
            return LockDenied(request.id, operator, "the operator needs more than the plan states")
        return None

    def _no_room(self, request: RequestLock) -> LockDenied | None:
        own = self._around.needs(request.operator)
        if not self._around.informed:
            return LockDenied(request.id, request.operator, "this site has not received its placement yet")
        if own.pinned_site not in (NOWHERE, self._around.site):
            return LockDenied(request.id, request.operator, "the operator is pinned to another site")
        cores = dict(request.plan.cores).get(request.operator, own.cores)
        if not self._around.has_room(request.operator, cores, self.reserved):
            return LockDenied(request.id, request.operator, "no room at this site")
        return None

    def _passed_on(self, lock: Lock) -> tuple[tuple[int, int, bool], ...]:
        if lock.room or lock.operator < 0 or lock.plan.kind != "migrate":
            return ()
        around, served = self._around, self._around.served
        own = served.own.get(lock.operator)
        if own is None:
            return ()
        next_ones = [(publisher, False) for publisher in own.publishers]
        if lock.dependents:
            next_ones += [(reader, True) for reader in served.readers[lock.operator]]
            next_ones += [(sink_number(end.query), True) for end in own.ends]
        found = [(operator, around.site_of(operator), deps) for operator, deps in next_ones]
        return tuple(each for each in found if each[1] != NOWHERE)

    def _granted(self, request: RequestLock, asked: tuple[tuple[int, int, bool], ...]) -> LockGranted:
        place = self._around.where.get(request.operator)
        return LockGranted(
            request.id,
            request.operator,
            request.room,
            asked,
            0 if place is None else place.epoch,
            self._latencies(request),
            self._used_cores(request.id),
            self._around.usable_cores,
        )

    def _used_cores(self, but_for: ProposalId) -> float:
        """By what runs here, and what room is kept for by other leases."""
        others = self._kept_room(lock for lock in self.locks.values() if lock.id != but_for)
        return self._around.usable_cores - self._around.room_left(others)[0]

    def _latencies(self, request: RequestLock) -> tuple[tuple[int, int, float], ...]:
        """From this site to what the operator reads and delivers to, now and under the plan, where here."""
        around, operator = self._around, request.operator
        if operator < 0:
            return ()
        served, sites = around.after(request.plan)
        ends = set[int]()
        if sites.get(operator) == around.site:
            ends |= _connected(served, operator, sites.get)
        if around.site_of(operator) == around.site:
            ends |= _connected(around.served, operator, around.site_of)
        known = sorted(site for site in ends - {NOWHERE, around.site} if site in around.latency_ms)
        return tuple((around.site, site, around.latency_ms[site]) for site in known)

    # Holding and ending.

    def _hold(self, sender: int, hold: HoldLocks, now_ms: float) -> Sequence[Effect]:
        mine = [key for key in self.locks if key[0] == hold.id]
        if len(mine) < hold.locks:
            return (Send(sender, LockLost(hold.id)),)
        for key in mine:
            lock = self.locks[key]
            stepped(KEEPING, stage_of(lock), Event.HOLD)
            until_ms = now_ms + self._params.silence_ms
            self.locks[key] = msgspec.structs.replace(lock, held=True, until_ms=until_ms)
        return (Send(sender, Held(hold.id)),)

    def timer(self, now_ms: float) -> Sequence[Effect]:
        """Locks that were never held expire; of those that are, the mover knows what has become."""
        asked: set[ProposalId] = set()
        for key, lock in list(self.locks.items()):
            if lock.until_ms > now_ms:
                continue
            if lock.held:
                asked.add(lock.id)
                until_ms = now_ms + self._params.silence_ms
                self.locks[key] = msgspec.structs.replace(lock, until_ms=until_ms)
            else:
                stepped(KEEPING, stage_of(lock), Event.EXPIRED)
                del self.locks[key]
        return [Send(self._mover, Inquiry(id_)) for id_ in sorted(asked)]

    def answered(self, answer: Answer, now_ms: float) -> Sequence[Effect]:
        if not any(lock.id == answer.id for lock in self.locks.values()):
            return ()
        match answer:
            case Accepted():
                for key, lock in self.locks.items():
                    if lock.id == answer.id and lock.held:
                        until_ms = now_ms + self._params.silence_ms
                        self.locks[key] = msgspec.structs.replace(lock, until_ms=until_ms)
                return ()
            case Over():
                self._over.add(answer.id)
                return (Send(self._mover, self._around.look_up()),)
            case Done(places=places) | Failed(places=places):
                self._around.learn(places)
        self._free(answer.id, Event.ANSWERED)
        return ()

    def whereabouts(self) -> None:
        """The mover has said where everything is: what is over can go."""
        for id_ in self._over:
            self._free(id_, Event.ANSWERED)
        self._over = set()

    def _free(self, id_: ProposalId, event: Event) -> None:
        for key in [key for key in self.locks if key[0] == id_]:
            stepped(KEEPING, stage_of(self.locks[key]), event)
            del self.locks[key]


def _leaves(lock: Lock, site: int) -> bool:
    moves = lock.plan.moves
    return any(move.fragment == lock.operator and move.from_site == site for move in moves)


def _connected(served: Served, operator: int, site_of: Callable[[int], int | None]) -> set[int]:
    """Sites that an operator's input comes from and that its results are delivered to."""
    own = served.own.get(operator)
    if own is None:
        return set()
    found = {end.site for end in own.ends} | {source.site for source in own.sources}
    sites = [site_of(publisher) for publisher in own.publishers]
    return found | {site for site in sites if site is not None}
