"""All of a site's part in an overlay: plans made with others ahead of time, and leases to carry them out.

Two machines at one place. The one of `algorithms/overlay/protocol/` measures the network, keeps the
directory, and makes plans in rounds with others: one for each query that ends here, again and again, and
changing nothing. The one of `lease_site.py` watches limits and room, takes a stored plan when something is
wrong, and seeks a lease for it. Both take the placement from the mover's whereabouts alone.

Until it has received the operators from the run session, a site behaves as if it were down: it requests them,
and drops all other messages. Its saved state is then restored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from mooring.algorithms.overlay.leases.adaptation_messages import LinkMeasured
from mooring.algorithms.overlay.leases.lease_messages import AskOperators, KnownOperators
from mooring.algorithms.overlay.leases.lease_params import LeaseParams
from mooring.algorithms.overlay.leases.lease_site import LeaseSite, LeaseStart
from mooring.algorithms.overlay.leases.site_view import OverlaySurroundings
from mooring.algorithms.overlay.protocol import messages as m
from mooring.algorithms.overlay.protocol.coordinator import PatienceParams
from mooring.algorithms.overlay.protocol.directory import DirectoryMessage, DirectoryParams
from mooring.algorithms.overlay.protocol.overlay_site import OverlayParams, OverlaySite, SiteStart
from mooring.algorithms.overlay.search.final_plans import FinalPlan
from mooring.algorithms.overlay.search.shared_operator import NOWHERE, SharedOperator, upstream_first
from mooring.algorithms.overlay.search.walked_plan import walked
from mooring.contracts.site_machine import (
    Asked,
    Data,
    Effect,
    Event,
    MakeMachine,
    Output,
    Received,
    Send,
    Started,
    TimerDue,
)
from mooring.coordination.move_messages import StatedLatencies, mover_of

NOTABLE_SHARE, NOTABLE_MS = 0.2, 1.0
"""By both of which a link has to differ from what it took, to be another latency."""


@dataclass(frozen=True)
class OverlayAgentParams:
    """The defaults suit agents: sites that are milliseconds apart and a run that looks every five seconds."""

    lease: LeaseParams = field(
        default_factory=lambda: LeaseParams(
            lock_ms=15_000.0,
            patience_ms=10_000.0,
            retry_ms=1_000.0,
            silence_ms=10_000.0,
            rest_ms=2_000.0,
            report_ms=2_000.0,
            review_ms=15_000.0,
            least_saving=10_000.0,
            replicates=False,
        )
    )
    overlay: OverlayParams = field(
        default_factory=lambda: OverlayParams(
            directory=DirectoryParams(period_ms=2_000.0, split_by=3),
            patience=PatienceParams(stage_ms=6_000.0, most_rounds=1),
        )
    )
    prepare_ms: float = 10_000.0
    """How often plans are made anew."""
    ask_ms: float = 1_000.0
    """How often to ask for operators as long as none are known."""


class OverlayAgent:
    """The state machine of one site."""

    def __init__(
        self, site: int, sites: int, generator: np.random.Generator, params: OverlayAgentParams
    ) -> None:
        self.site, self._sites, self._generator, self._params = site, sites, generator, params
        self._mover = mover_of(sites)
        self._started = Started(0, None)
        self._parts: dict[int, KnownOperators] = {}
        self._stated = StatedLatencies(())
        self._both: _Both | None = None
        self._ask_ms = 0.0

    @property
    def lease(self) -> LeaseSite | None:
        return None if self._both is None else self._both.lease

    @property
    def overlay(self) -> OverlaySite | None:
        return None if self._both is None else self._both.overlay

    def next_timer(self) -> float | None:
        return self._ask_ms if self._both is None else self._both.next_timer()

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        match event:
            case Started():
                self._started = event
                return self._ask(now_ms)
            case Received(sender=sender, message=KnownOperators() as known):
                return self._learn(known, now_ms) if sender == self._mover and self._both is None else ()
            case (
                Received(sender=self._mover, message=StatedLatencies() as stated)
                | Asked(request=StatedLatencies() as stated)
            ):
                self._stated = stated
                if self._both is not None:
                    self._both.overlay.monitor.state(stated.latency_ms)
                return ()
            case TimerDue() if self._both is None:
                return self._ask(now_ms) if now_ms >= self._ask_ms else ()
        return () if self._both is None else self._both.handle(event, now_ms)

    def _ask(self, now_ms: float) -> Sequence[Effect]:
        self._ask_ms = now_ms + self._params.ask_ms
        return (Send(self._mover, AskOperators()),)

    def _learn(self, known: KnownOperators, now_ms: float) -> Sequence[Effect]:
        self._parts = {p: each for p, each in self._parts.items() if each.parts == known.parts}
        self._parts[known.part] = known
        if len(self._parts) < known.parts:
            return ()
        operators = [own for part in sorted(self._parts) for own in self._parts[part].operators]
        self._both = _Both(self.site, self._sites, self._generator, self._params, operators, known)
        self._both.overlay.monitor.state(self._stated.latency_ms)
        return self._both.handle(self._started, now_ms)


class _Both:
    """Two machines, with what they have to tell each other."""

    def __init__(
        self,
        site: int,
        sites: int,
        generator: np.random.Generator,
        params: OverlayAgentParams,
        operators: Sequence[SharedOperator],
        known: KnownOperators,
    ) -> None:
        self.site, self._params, self._channel_ms = site, params, known.channel_ms
        start = SiteStart(known.usable_cores, known.memory_mb)
        search = replace(params.overlay.search, channel_ms=known.channel_ms)
        self.overlay = OverlaySite(site, sites, generator, replace(params.overlay, search=search), start)
        self.lease = LeaseSite(
            site,
            sites,
            generator,
            LeaseStart(
                operators,
                (),
                known.usable_cores,
                known.memory_mb,
                {},
                params.lease,
                known.channel_ms,
                self._plans_for,
            ),
        )
        self._prepare_ms = 0.0
        self._prepared_for, self._stored = -1, 0

    def _plans_for(self, operator: int, around: OverlaySurroundings) -> Sequence[FinalPlan]:
        return self.overlay.agents.store.of(operator)

    def next_timer(self) -> float:
        due = (self.overlay.next_timer(), self.lease.next_timer(), self._prepare_ms)
        return min(ms for ms in due if ms is not None)

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        effects: list[Effect] = []
        match event:
            case Started():
                self._prepare_ms = now_ms + self._params.overlay.directory.period_ms
                effects += self.overlay.handle(event, now_ms)
                effects += self.lease.handle(event, now_ms)
            case TimerDue():
                effects += self._timer(now_ms)
            case Received(message=message) if isinstance(message, DirectoryMessage | m.ExchangeMessage):
                effects += self.overlay.handle(event, now_ms)
                effects += self._heard(event.sender, message, now_ms)
            case Received():
                effects += self.lease.handle(event, now_ms)
            case Asked():
                effects += self.lease.handle(event, now_ms)
                self.overlay.hosting.usable_cores = self.lease.around.usable_cores
        # That plans were made, or not, is nobody else's business.
        return [
            each
            for each in effects
            if not (isinstance(each, Output) and isinstance(each.value, m.Admitted | m.Rejected))
        ]

    def _timer(self, now_ms: float) -> Sequence[Effect]:
        effects: list[Effect] = []
        for machine in (self.overlay, self.lease):
            due_ms = machine.next_timer()
            if due_ms is not None and due_ms <= now_ms:
                effects += machine.handle(TimerDue(), now_ms)
        if now_ms >= self._prepare_ms:
            self._prepare_ms = now_ms + self._params.prepare_ms
            effects += self._prepare(now_ms)
        return effects

    def _heard(self, sender: int, message: Data, now_ms: float) -> Sequence[Effect]:
        """What the plan exchange has found out that leases stand on."""
        if self._stored != self.overlay.agents.store.version:
            self._stored = self.overlay.agents.store.version
            self.lease.adaptation.plans_are_new()
        if not isinstance(message, m.EchoBack) or sender == self.site:
            return ()
        ms, known_ms = self.overlay.monitor.estimate(self.site, sender), self.lease.around.latency_ms
        if not ms.measured:
            return ()
        before_ms = known_ms.get(sender)
        if before_ms is not None:
            differs_ms = abs(ms.latency_ms - before_ms)
            if differs_ms <= NOTABLE_MS or differs_ms <= NOTABLE_SHARE * before_ms:
                return ()
        return self.lease.handle(Asked(LinkMeasured(sender, ms.latency_ms)), now_ms)

    # Plans ahead of time.

    def _prepare(self, now_ms: float) -> Sequence[Effect]:
        """Have plans made for every query that ends here, from how things are now."""
        around = self.lease.around
        if not around.informed:
            return ()
        if self._prepared_for != around.version:
            self._prepared_for = around.version
            for operator in around.operators:
                self.overlay.agents.store.forget(operator.operator)
        self.overlay.is_so(self._hosted(), {number: at.site for number, at in around.where.items()})
        if self.overlay.coordinator.busy:
            return ()
        effects: list[Effect] = []
        for request in self._requests():
            effects += self.overlay.handle(Asked(request), now_ms)
        return effects

    def _hosted(self) -> list[m.HostedOperator]:
        """What runs here, as plans have to respect it."""
        around, served = self.lease.around, self.lease.around.served
        concerned = served.connected(around.running_here())
        running = [
            served.own[number]
            for number in served.ordered
            if number in concerned and around.site_of(number) >= 0
        ]
        sites = [around.site_of(own.operator) for own in running]
        at = dict(zip((own.operator for own in running), sites, strict=True))
        now = walked(running, tuple(sites), sites, self.overlay.monitor, self._channel_ms)
        return [
            m.HostedOperator(
                own,
                tuple(served.queries[own.operator].items()),
                tuple((p, at[p]) for p in own.publishers if p in at),
                tuple(
                    m.Subscriber(r, at[r], now.rest_ms(r)) for r in served.readers[own.operator] if r in at
                ),
                now.arrival_ms[own.operator],
            )
            for own in running
            if at[own.operator] == self.site
        ]

    def _requests(self) -> list[m.RegisterQuery]:
        around, served = self.lease.around, self.lease.around.served
        ending = list(served.ending_at(self.site))
        found = []
        for query in sorted({end.query for end, _ in ending}):
            reads = tuple(own.operator for end, own in ending if end.query == query)
            needed = [served.own[number] for number in served.upstream(query)]
            if any(around.site_of(own.operator) == NOWHERE for own in needed):
                continue
            found.append(
                m.RegisterQuery(
                    query,
                    min(end.limit_ms for end, _ in ending if end.query == query),
                    sum(end.rate for end, _ in ending if end.query == query),
                    reads,
                    tuple(msgspec.structs.replace(own, ends=()) for own in upstream_first(needed)),
                    only_prepare=True,
                )
            )
        return found


def overlay_agents(params: OverlayAgentParams | None = None) -> MakeMachine:
    """Machines of the sites; the mover is for their host to add."""
    chosen = params or OverlayAgentParams()
    return lambda site, sites, generator: OverlayAgent(site, sites, generator, chosen)
