"""Mistakes on purpose, each of which some schedule must show: in leases, and in whole agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lab.overlay_faults.invariants import agent_checkers
from lab.overlay_faults.world import AgentSubject, agent
from mooring.algorithms.overlay.leases.adaptation import PlanAdaptation
from mooring.algorithms.overlay.leases.adaptation_messages import NeedPlan
from mooring.algorithms.overlay.leases.lease_client import Seeker
from mooring.algorithms.overlay.leases.lease_messages import (
    Held,
    HoldLocks,
    KnownOperators,
    LeasePlan,
    Lock,
    RequestLock,
)
from mooring.algorithms.overlay.leases.lock_manager import Keeper
from mooring.algorithms.overlay.leases.overlay_agent import OverlayAgent
from mooring.algorithms.overlay.leases.revalidation import Revalidated
from mooring.algorithms.overlay.leases.transitions import Event as LeaseEvent
from mooring.algorithms.overlay.protocol.coordinator import Coordinator
from mooring.contracts.site_machine import Effect, Event, Send, Started
from mooring.coordination.move_messages import Accepted, Answer


class NeverExpires(Keeper):
    def next_timer(self) -> float | None:
        return None

    def timer(self, now_ms: float) -> Sequence[Effect]:
        return ()


class GrantsTwice(Keeper):
    """Does not look for other leases."""

    def _in_the_way(self, request: RequestLock) -> LeasePlan | None:
        return None


class ForgetsReservations(Keeper):
    @property
    def reserved(self) -> dict[int, float]:
        return {}


class HeldLocksExpire(Keeper):
    def timer(self, now_ms: float) -> Sequence[Effect]:
        self.locks = {key: lock for key, lock in self.locks.items() if lock.until_ms > now_ms}
        return ()


class NeverAsksTheMover(Keeper):
    """Who seeks a lease will say when it is over."""

    def timer(self, now_ms: float) -> Sequence[Effect]:
        super().timer(now_ms)
        return ()

    def answered(self, answer: Answer, now_ms: float) -> Sequence[Effect]:
        return ()


class ReleasesBeforeTheMoverIsDone(Keeper):
    def answered(self, answer: Answer, now_ms: float) -> Sequence[Effect]:
        if isinstance(answer, Accepted):
            self._free(answer.id, LeaseEvent.ANSWERED)
        return super().answered(answer, now_ms)


class ForgetsLocks(Keeper):
    """When it starts again."""

    def start(self, locks: Sequence[Lock]) -> None:
        self.locks = {}


class HoldsWhatHasExpired(Keeper):
    """Says that it holds, whether the locks are still there or not."""

    def _hold(self, sender: int, hold: HoldLocks, now_ms: float) -> Sequence[Effect]:
        super()._hold(sender, hold, now_ms)
        return (Send(sender, Held(hold.id)),)


class BelievesOldPlans(Seeker):
    def _check(self, sought: Any) -> Revalidated:
        return Revalidated(super()._check(sought).latency_ms, None)


LEASE_BUGS: list[tuple[type[Keeper] | type[Seeker], str]] = [
    (NeverExpires, "locks are released"),
    (GrantsTwice, "no two leases affect one query"),
    (ForgetsReservations, "capacities hold"),
    (HeldLocksExpire, "locks last as long as their plan"),
    (NeverAsksTheMover, "locks are released"),
    (ReleasesBeforeTheMoverIsDone, "locks last as long as their plan"),
    (ForgetsLocks, "locks last as long as their plan"),
    (HoldsWhatHasExpired, "locks last as long as their plan"),
    (BelievesOldPlans, "limits hold under leases"),
]
NEEDS_A_STALL = (HoldsWhatHasExpired,)
"""Who seeks a lease has to be too late to notice that it is, and those it asked too: schedules that are drawn
hardly ever have that."""


# In agents.


class Forgets(OverlayAgent):
    """What was kept is lost between the start and the word of the operators."""

    def _learn(self, known: KnownOperators, now_ms: float) -> Sequence[Effect]:
        self._started = Started(self._started.incarnation, None)
        return super()._learn(known, now_ms)


class TakesAPartForTheWhole(OverlayAgent):
    """Begins with the first operators that it is told of."""

    def _learn(self, known: KnownOperators, now_ms: float) -> Sequence[Effect]:
        whole = KnownOperators(0, 1, known.operators, known.usable_cores, known.memory_mb, known.channel_ms)
        return super()._learn(whole, now_ms)


class PlansOnce(OverlayAgent):
    """Has no plans made anew, wherever things are by now."""

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        both: Any = self._both
        if both is not None and both._prepared_for >= 0:
            both._prepare_ms = 1e12
        return super().handle(event, now_ms)


class WaitsForEver(Coordinator):
    """A round whose members do not answer is never given up."""

    def timer(self, now_ms: float) -> Sequence[Effect]:
        self.deadline_ms = None
        return ()


class AsksRoundAndRound(PlanAdaptation):
    """Asks whoever has the next operator, be it that it has asked already."""

    def _ask_downstream(self, trouble: Any, now_ms: float) -> Sequence[Effect]:
        trouble.asked, served = (), self._around.served
        served.before = lambda operators: set()  # type: ignore[method-assign]
        return super()._ask_downstream(trouble, now_ms)

    def needed(self, need: NeedPlan, now_ms: float) -> Sequence[Effect]:
        return super().needed(NeedPlan(need.query, need.latency_ms, need.congested), now_ms)


class GivesUpInSilence(PlanAdaptation):
    """Without a plan of its own it looks for none elsewhere, and does not say so."""

    def _ask_downstream(self, trouble: Any, now_ms: float) -> Sequence[Effect]:
        return ()


Bug = type[OverlayAgent] | type[Keeper] | type[Seeker] | type[Coordinator] | type[PlanAdaptation]
AGENT_BUGS: list[tuple[Bug, str]] = [
    *((bug, found) for bug, found in LEASE_BUGS if bug not in NEEDS_A_STALL),
    (Forgets, "locks last as long as their plan"),
    (TakesAPartForTheWhole, "handles every event"),
    (PlansOnce, "plans are made"),
    (WaitsForEver, "plans are made"),
    (AsksRoundAndRound, "what is wrong is seen to"),
    (GivesUpInSilence, "what is wrong is seen to"),
]


def planted_in_agents(bug: Bug) -> AgentSubject:
    def make(site: int, sites: int, generator: np.random.Generator) -> OverlayAgent:
        return agent(site, sites, generator, bug if issubclass(bug, OverlayAgent) else _with_part(bug))

    return AgentSubject(make, agent_checkers)


def _with_part(bug: Any) -> type[OverlayAgent]:
    """An agent of which one part is replaced before that hears of anything."""

    class Planted(OverlayAgent):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if name != "_both" or value is None:
                return
            parts = (
                value.lease.keeper,
                value.lease.seeker,
                value.lease.adaptation,
                value.overlay.coordinator,
            )
            for part in parts:
                if isinstance(part, bug.__mro__[1]):
                    part.__class__ = bug

    return Planted
