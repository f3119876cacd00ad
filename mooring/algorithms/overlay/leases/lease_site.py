"""The state machine of a site that changes shared queries together with others: its view of the network, the
locks it keeps, and the lease it seeks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from mooring.algorithms.overlay.leases.adaptation import PlanAdaptation, PlansFor
from mooring.algorithms.overlay.leases.adaptation_messages import (
    Arrives,
    CapacityMeasured,
    LatencyIs,
    LinkMeasured,
    LoadMeasured,
    NeedPlan,
    OperatorsMeasured,
    QueryMeasured,
)
from mooring.algorithms.overlay.leases.lease_client import LeaseEnded, Seeker
from mooring.algorithms.overlay.leases.lease_messages import LeasePlan, Lock, ToKeeper, ToSeeker
from mooring.algorithms.overlay.leases.lease_params import LeaseParams
from mooring.algorithms.overlay.leases.lock_manager import Keeper
from mooring.algorithms.overlay.leases.promised import migration
from mooring.algorithms.overlay.leases.site_view import OverlaySurroundings
from mooring.algorithms.overlay.leases.slack import SlackTracker
from mooring.algorithms.overlay.leases.transitions import LeaseStage
from mooring.algorithms.overlay.search.final_plans import FinalPlan
from mooring.algorithms.overlay.search.shared_operator import SharedOperator
from mooring.contracts.site_machine import (
    Asked,
    Data,
    Effect,
    Event,
    Output,
    Persist,
    Received,
    Send,
    Started,
    TimerDue,
)
from mooring.coordination.move_messages import Answer, Proposed, StartedAt, Whereabouts, mover_of


class ApplyPlan(msgspec.Struct, frozen=True, tag=True):
    """A request: let operators run elsewhere, for the sake of a query."""

    query: int
    moves: tuple[tuple[int, int], ...]
    """Operator and its new site, upstream first."""


class LeaseMemory(msgspec.Struct, frozen=True):
    """What a site must not forget."""

    places: tuple[StartedAt, ...]
    locks: tuple[Lock, ...] = ()
    open: Proposed | None = None
    plan: LeasePlan | None = None
    """Of the open proposal."""
    latency_ms: tuple[tuple[int, float], ...] = ()
    """To other sites, as measured last: what a link took is not forgotten with the machine."""


def no_plans(operator: int, around: OverlaySurroundings) -> Sequence[FinalPlan]:
    return ()


@dataclass(frozen=True)
class LeaseStart:
    """What a site has when it starts for the first time."""

    operators: Sequence[SharedOperator]
    """Of the problem, with the queries that read them."""
    places: Sequence[StartedAt]
    usable_cores: float
    memory_mb: float
    latency_ms: dict[int, float]
    """To other sites."""
    params: LeaseParams = field(default_factory=LeaseParams)
    channel_ms: float = 0.0
    plans_for: PlansFor = no_plans


class LeaseSite:
    def __init__(self, site: int, sites: int, generator: np.random.Generator, start: LeaseStart) -> None:
        self.site, self._generator, self._params = site, generator, start.params
        self._mover = mover_of(sites)
        self.around = OverlaySurroundings(
            site, start.operators, start.places, start.usable_cores, start.memory_mb, start.latency_ms
        )
        self.keeper = Keeper(self.around, self._mover, start.params)
        self.seeker = Seeker(self.around, sites, start.params, start.channel_ms)
        self.slack = SlackTracker(self.around, start.channel_ms, start.params.report_ms)
        self.adaptation = PlanAdaptation(
            self.around, self.seeker, self.slack, start.params, start.plans_for, generator
        )
        self._kept: LeaseMemory | None = None
        self._look_up_ms = self._report_ms = 0.0

    def next_timer(self) -> float | None:
        due = (self.keeper.next_timer(), self.seeker.next_timer(), self.adaptation.next_timer())
        return min(ms for ms in (*due, self._look_up_ms, self._report_ms) if ms is not None)

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        effects = list(self._handled(event, now_ms))
        for effect in effects:
            if isinstance(effect, Output) and isinstance(effect.value, LeaseEnded):
                self.adaptation.ended(effect.value, now_ms)
        memory = self._memory()
        if memory == self._kept:
            return effects
        self._kept = memory
        return (Persist(memory), *effects)

    def _memory(self) -> LeaseMemory:
        open_ = self.seeker.proposer.open
        return LeaseMemory(
            self.around.places,
            tuple(self.keeper.locks.values()),
            open_,
            None if open_ is None else self.seeker.plan,
            self.around.links,
        )

    def _handled(self, event: Event, now_ms: float) -> Sequence[Effect]:
        match event:
            case Started(incarnation=incarnation, durable=durable):
                kept = durable if isinstance(durable, LeaseMemory) else LeaseMemory(())
                self.around.learn(kept.places)
                self.around.reached(dict(kept.latency_ms))
                self.keeper.start(kept.locks)
                self.seeker.start(incarnation, kept.open, kept.plan, now_ms)
                return ()
            case TimerDue():
                return self._timer(now_ms)
            case Received(sender=sender, message=message):
                return self._receive(sender, message, now_ms)
            case Asked(request=request):
                return self._asked(request, now_ms)

    def _asked(self, request: Data, now_ms: float) -> Sequence[Effect]:
        match request:
            case LinkMeasured(site=site, latency_ms=latency_ms):
                return self.adaptation.measured(site, latency_ms, now_ms)
            case LoadMeasured(operator=operator, cores=cores):
                return self.adaptation.loaded(operator, cores, now_ms)
            case OperatorsMeasured(operators=operators):
                return self.adaptation.known_as(operators, now_ms)
            case CapacityMeasured(usable_cores=usable_cores, lost=lost):
                return self.adaptation.capacity(usable_cores, now_ms, lost=lost)
            case QueryMeasured(query=query, latency_ms=latency_ms):
                return self.slack.measured(query, latency_ms)
            case ApplyPlan(query=query, moves=moves) if self.seeker.stage is LeaseStage.NONE:
                plan = migration(self.around, query, moves)
                return () if plan is None else self.seeker.seek(plan, now_ms)
        return ()

    def _timer(self, now_ms: float) -> Sequence[Effect]:
        effects = [*self.keeper.timer(now_ms), *self.seeker.timer(now_ms), *self.adaptation.timer(now_ms)]
        if now_ms >= self._report_ms:
            self._report_ms = now_ms + self._params.report_ms
            effects += self.slack.report()
        if now_ms >= self._look_up_ms:
            self._look_up_ms = now_ms + self._params.silence_ms
            effects.append(Send(self._mover, self.around.look_up()))
        return effects

    def _receive(self, sender: int, message: Data, now_ms: float) -> Sequence[Effect]:
        if isinstance(message, Whereabouts | Answer):
            return self._from_mover(message, now_ms) if sender == self._mover else ()
        if isinstance(message, ToKeeper):
            return self.keeper.receive(sender, message, now_ms)
        if isinstance(message, ToSeeker):
            return self.seeker.receive(sender, message, now_ms)
        if isinstance(message, NeedPlan):
            return self.adaptation.needed(message, now_ms)
        if isinstance(message, Arrives | LatencyIs):
            self.slack.receive(sender, message, now_ms)
            if isinstance(message, LatencyIs):
                return self.adaptation.reported(message.query, now_ms)
        return ()

    def _from_mover(self, message: Whereabouts | Answer, now_ms: float) -> Sequence[Effect]:
        if isinstance(message, Whereabouts):
            told = message.tells_all(self.around.state)
            self.around.heard(message)
            if told:
                self.keeper.whereabouts()
            return ()
        return (*self.keeper.answered(message, now_ms), *self.seeker.answered(message, now_ms))
