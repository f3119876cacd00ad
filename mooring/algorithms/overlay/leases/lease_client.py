"""The lease that a site seeks: locks gathered, the plan checked again, held, proposed, and released.

One at a time per site. Until it is proposed, a lease that comes to nothing leaves no trace but locks that
expire. From then on only the mover's answer ends it, through all crashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from mooring.algorithms.overlay.leases.lease_messages import (
    Held,
    HoldLocks,
    LeasePlan,
    LockDenied,
    LockGranted,
    LockLost,
    Released,
    ReleaseLock,
    RequestLock,
    ToSeeker,
)
from mooring.algorithms.overlay.leases.lease_params import LeaseParams
from mooring.algorithms.overlay.leases.promised import promised
from mooring.algorithms.overlay.leases.revalidation import Revalidated, link, revalidated
from mooring.algorithms.overlay.leases.site_view import OverlaySurroundings, sink_number
from mooring.algorithms.overlay.leases.transitions import SEEKING, Event, LeaseStage, stepped
from mooring.algorithms.overlay.search.replicas import original_of
from mooring.algorithms.overlay.search.shared_operator import NOWHERE
from mooring.contracts.site_machine import Effect, Output, Send
from mooring.coordination.move_messages import (
    Accepted,
    Answer,
    Done,
    Failed,
    Lease,
    MovePlan,
    Over,
    ProposalId,
    Proposed,
    Refused,
    StartedAt,
    mover_of,
)
from mooring.coordination.proposer import Proposer

Outcome = Literal["done", "refused", "failed", "over", "denied", "stale", "expired"]


class LeaseEnded(msgspec.Struct, frozen=True, tag=True):
    """An output: what has become of a lease that this site sought."""

    id: ProposalId
    plan: LeasePlan
    outcome: Outcome
    reason: str
    by: LeasePlan | None = None
    """The plan that was in the way."""


@dataclass
class _Sought:
    id: ProposalId
    plan: LeasePlan
    deadline_ms: float
    stage: LeaseStage = LeaseStage.ASKING
    expected: dict[tuple[int, bool], tuple[int, bool]] = field(default_factory=dict)
    """Operator and whether it is about room -> site, and whether its dependents are asked."""
    granted: dict[tuple[int, bool], LockGranted] = field(default_factory=dict)
    held: set[int] = field(default_factory=set)
    released: set[int] = field(default_factory=set)
    releases_left: int = 0
    violation: bool = False
    """Something is broken that it mends."""
    proposed_to: frozenset[int] = frozenset()
    """Who keeps locks, where only the proposal has been kept through a crash."""

    @property
    def keepers(self) -> set[int]:
        return {site for site, _ in self.expected.values()} | self.proposed_to

    @property
    def missing(self) -> list[tuple[int, bool]]:
        return [key for key in self.expected if key not in self.granted]


class Seeker:
    """`proposer.open` and `plan` have to be durable before any of its effects is carried out."""

    def __init__(
        self, around: OverlaySurroundings, sites: int, params: LeaseParams, channel_ms: float
    ) -> None:
        self._around, self._params, self._channel_ms = around, params, channel_ms
        self.proposer, self._mover = Proposer(around.site, sites), mover_of(sites)
        self._sought: _Sought | None = None
        self._again_ms = 0.0
        self.since_ms = 0.0
        """When the present lease was begun."""

    @property
    def stage(self) -> LeaseStage:
        return LeaseStage.NONE if self._sought is None else self._sought.stage

    @property
    def id(self) -> ProposalId | None:
        return None if self._sought is None else self._sought.id

    @property
    def plan(self) -> LeasePlan | None:
        """What it seeks a lease for, to be kept while it is proposed."""
        return None if self._sought is None else self._sought.plan

    def start(self, incarnation: int, open_: Proposed | None, plan: LeasePlan | None, now_ms: float) -> None:
        """A new incarnation: only what was proposed is known to it."""
        self.proposer.start(incarnation, open_)
        self._again_ms = self.since_ms = now_ms
        if open_ is not None and plan is not None:
            sites = frozenset(open_.lease.holders)
            stage = stepped(SEEKING, LeaseStage.PROPOSED, Event.CRASHED)
            self._sought = _Sought(open_.id, plan, float("inf"), stage, proposed_to=sites)

    def next_timer(self) -> float | None:
        return None if self._sought is None else min(self._again_ms, self._sought.deadline_ms)

    def seek(self, plan: LeasePlan, now_ms: float, *, violation: bool = False) -> Sequence[Effect]:
        """Begin; the stage must be NONE. `violation`: something is broken that the plan mends."""
        stage = stepped(SEEKING, self.stage, Event.WANTED)
        deadline_ms = now_ms + self._params.patience_ms
        sought = _Sought(self.proposer.next_id(), plan, deadline_ms, stage, violation=violation)
        self._sought, self._again_ms = sought, now_ms + self._params.retry_ms
        self.since_ms = now_ms
        for move in plan.moves:
            if move.to_site != NOWHERE:
                sought.expected[move.fragment, True] = (move.to_site, False)
            if move.from_site != NOWHERE:
                sought.expected[move.fragment, False] = (move.from_site, plan.kind == "migrate")
        if plan.kind != "migrate":
            copied = {original_of(move.fragment)[0] for move in plan.moves}
            for operator in sorted({*copied, *plan.relies_on, sink_number(plan.query)}):
                sought.expected[operator, False] = (self._around.site_of(operator), False)
        return self._ask(sought)

    def _ask(self, sought: _Sought) -> Sequence[Effect]:
        return [
            Send(site, RequestLock(sought.id, sought.plan, operator, room, dependents))
            for (operator, room), (site, dependents) in sought.expected.items()
            if (operator, room) not in sought.granted
        ]

    def timer(self, now_ms: float) -> Sequence[Effect]:
        sought = self._sought
        if sought is None:
            return ()
        if now_ms >= sought.deadline_ms and sought.stage in (LeaseStage.ASKING, LeaseStage.HOLDING):
            silent = len(sought.missing) or len(sought.keepers - sought.held)
            return self._end(sought, Event.EXPIRED, "expired", f"{silent} answers were missing", now_ms)
        if now_ms < self._again_ms:
            return ()
        self._again_ms = now_ms + self._params.retry_ms
        match sought.stage:
            case LeaseStage.ASKING:
                return self._ask(sought)
            case LeaseStage.HOLDING:
                return self._holds(sought)
            case LeaseStage.RELEASING:
                sought.releases_left -= 1
                if sought.releases_left <= 0:
                    return self._forget(sought)
                return self._releases(sought)
        return self.proposer.repeat()

    def receive(self, sender: int, message: ToSeeker, now_ms: float) -> Sequence[Effect]:
        sought = self._sought
        if sought is None or message.id != sought.id or sender not in sought.keepers:
            return ()
        match message:
            case LockGranted() if sought.stage is LeaseStage.ASKING:
                return self._lock_granted(sought, message, now_ms)
            case LockDenied(reason=reason, by=by, place=place) if sought.stage is LeaseStage.ASKING:
                asked = self._around.ask_if_new([] if place is None else [place], self._mover)
                why = f"operator {message.operator}: {reason}"
                in_the_way = by if by is not None and self._around.knows(by) else None
                return (*self._end(sought, Event.DENIED, "denied", why, now_ms, in_the_way), *asked)
            case Held() if sought.stage is LeaseStage.HOLDING:
                sought.held.add(sender)
                return self._propose(sought, now_ms) if sought.held >= sought.keepers else ()
            case LockLost() if sought.stage is LeaseStage.HOLDING:
                return self._end(sought, Event.LOST, "expired", f"site {sender} has lost a lock", now_ms)
            case Released() if sought.stage is LeaseStage.RELEASING:
                sought.released.add(sender)
                return self._forget(sought) if sought.released >= sought.keepers else ()
        return ()

    def _lock_granted(self, sought: _Sought, granted: LockGranted, now_ms: float) -> Sequence[Effect]:
        key = (granted.operator, granted.room)
        if key not in sought.expected or not self._can_be(granted):
            return ()
        sought.granted[key] = granted
        for operator, site, dependents in granted.asked:
            _, already = sought.expected.get((operator, False), (site, False))
            if (operator, False) in sought.granted and dependents and not already:
                del sought.granted[operator, False]  # asked for its dependents only now
            sought.expected[operator, False] = (site, dependents or already)
        if sought.missing:
            return ()
        found = self._check(sought)
        if found.objection is not None:
            return self._end(sought, Event.DENIED, "stale", found.objection, now_ms)
        sought.stage = stepped(SEEKING, sought.stage, Event.GRANTED_ALL)
        self._again_ms = now_ms + self._params.retry_ms
        return self._holds(sought)

    def _can_be(self, granted: LockGranted) -> bool:
        """It is passed on for operators and ends that there are, or for none."""
        around = self._around
        return all(
            around.is_known(operator) if operator >= 0 else around.site_of(operator) == site
            for operator, site, _ in granted.asked
        )

    def _check(self, sought: _Sought) -> Revalidated:
        return revalidated(sought.plan, self._around, self._measured(sought), self._channel_ms)

    @staticmethod
    def _measured(sought: _Sought) -> dict[tuple[int, int], float]:
        measured: dict[tuple[int, int], float] = {}
        for granted in sought.granted.values():
            for a, b, ms in granted.latency_ms:
                measured[link(a, b)] = max(ms, measured.get(link(a, b), 0.0))
        return measured

    def _holds(self, sought: _Sought) -> Sequence[Effect]:
        sites = [site for site, _ in sought.expected.values()]
        return [
            Send(site, HoldLocks(sought.id, sites.count(site)))
            for site in sorted(sought.keepers - sought.held)
        ]

    def _propose(self, sought: _Sought, now_ms: float) -> Sequence[Effect]:
        """Every lock lasts: put it out. What the plan was made from goes with it, so that the mover refuses
        it if any of that has changed."""
        sought.stage = stepped(SEEKING, sought.stage, Event.HELD_ALL)
        sought.deadline_ms, self._again_ms = float("inf"), now_ms + self._params.retry_ms
        moved = {move.fragment for move in sought.plan.moves}
        made_from = [
            StartedAt(operator, sought.expected[operator, False][0], granted.epoch)
            for (operator, room), granted in sought.granted.items()
            if operator >= 0 and not room and operator not in moved
        ]
        said = [(sought.expected[key][0], granted) for key, granted in sought.granted.items()]
        latency_ms = self._check(sought).latency_ms
        promise = promised(sought.plan, self._around, said, self._measured(sought), latency_ms)
        plan = MovePlan(sought.plan.moves, tuple(made_from) + self._copies(sought.plan))
        lease = Lease(tuple(sorted(sought.keepers)))
        return self.proposer.propose(sought.id, plan, lease, promise, sought.violation)

    def _copies(self, plan: LeasePlan) -> tuple[StartedAt, ...]:
        """Replicas of what it moves: whether they run says which queries it affects."""
        moved = {move.fragment for move in plan.moves}
        originals = {original_of(number)[0] for number in moved}
        return tuple(
            place
            for number, place in sorted(self._around.where.items())
            if number not in moved
            and original_of(number)[1] is not None
            and original_of(number)[0] in originals
        )

    def answered(self, answer: Answer, now_ms: float) -> Sequence[Effect]:
        sought = self._sought
        ending = self.proposer.answered(answer)
        if sought is None or answer.id != sought.id:
            return ()
        if isinstance(answer, Accepted) and sought.stage is LeaseStage.PROPOSED:
            sought.stage = stepped(SEEKING, sought.stage, Event.ACCEPTED)
        match ending:
            case Refused(reason=reason):
                return self._end(sought, Event.REFUSED, "refused", reason, now_ms)
            case Done(places=places):
                self._around.learn(places)
                return self._end(sought, Event.DONE, "done", "", now_ms)
            case Failed(reason=reason, places=places):
                self._around.learn(places)
                return self._end(sought, Event.FAILED, "failed", reason, now_ms)
            case Over():
                return self._end(sought, Event.OVER, "over", "", now_ms)
        return ()

    def _end(
        self,
        sought: _Sought,
        event: Event,
        outcome: Outcome,
        reason: str,
        now_ms: float,
        by: LeasePlan | None = None,
    ) -> Sequence[Effect]:
        sought.stage = stepped(SEEKING, sought.stage, event)
        sought.deadline_ms, self._again_ms = float("inf"), now_ms + self._params.retry_ms
        sought.releases_left = self._params.releases
        ended = Output(LeaseEnded(sought.id, sought.plan, outcome, reason, by))
        return (ended, *self._releases(sought))

    def _releases(self, sought: _Sought) -> Sequence[Effect]:
        moved = [move.fragment for move in sought.plan.moves]
        places = tuple(self._around.where[number] for number in moved if number in self._around.where)
        return [
            Send(site, ReleaseLock(sought.id, places)) for site in sorted(sought.keepers - sought.released)
        ]

    def _forget(self, sought: _Sought) -> Sequence[Effect]:
        sought.stage = stepped(SEEKING, sought.stage, Event.RELEASED)
        self._sought = None
        return ()
