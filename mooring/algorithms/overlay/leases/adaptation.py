"""Adaptation (sections 3.4 and 3.5): from a query that is late to a lease on the plan that mends it.

A site that sees a link take more than a query's slack looks among its stored plans at once. If it has none
that helps, it sends a request to the host of the next operator downstream, whose plans move more, and names
the congested links; so on to the last operator. Where a plan is in the way of another lease:

    redundant     the other plan mends this query too: wait and look again
    alternative   a plan that does not affect what the other affects, or one that is built on top of it
    replication   if there is none here nor downstream: the plan with copies, for this query alone

A plan that was tried and did not hold is not tried again for the same trouble. A site that is too full looks
for a plan that takes enough away. While nothing is wrong, plans that save bandwidth are applied, and copies
end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mooring.algorithms.overlay.leases.adaptation_messages import NeedPlan, Unsatisfied
from mooring.algorithms.overlay.leases.copies import merging, replication
from mooring.algorithms.overlay.leases.lease_client import LeaseEnded, Seeker
from mooring.algorithms.overlay.leases.lease_messages import LeasePlan, in_conflict
from mooring.algorithms.overlay.leases.lease_params import LeaseParams
from mooring.algorithms.overlay.leases.promised import migration
from mooring.algorithms.overlay.leases.site_view import OverlaySurroundings
from mooring.algorithms.overlay.leases.slack import SlackTracker
from mooring.algorithms.overlay.leases.transitions import LeaseStage
from mooring.algorithms.overlay.search.final_plans import FinalPlan, PlanStore
from mooring.algorithms.overlay.search.partial_plans import LATENCY_SLACK_MS
from mooring.algorithms.overlay.search.plan_choice import (
    CongestedLink,
    KnownQueries,
    PlanNeed,
    best_for_bandwidth,
    change_now_ms,
    improving,
    recovering,
    relieving,
)
from mooring.algorithms.overlay.search.shared_operator import NOWHERE, SharedOperator
from mooring.contracts.site_machine import Effect, Output, Send

OVERLOAD = -1
"""Stands for a query where the trouble is a site that is too full."""

PlansFor = Callable[[int, OverlaySurroundings], Iterable[FinalPlan]]
"""The stored plans of an operator that runs here, as the plan exchange has left them."""


@dataclass
class _Trouble:
    """A query that is late, and what has been tried for it."""

    query: int
    congested: tuple[CongestedLink, ...] = ()
    avoid: LeasePlan | None = None
    instead_of: tuple[tuple[int, int], ...] = ()
    asked: tuple[int, ...] = ()
    """Sites that had no plan for it and passed it on."""
    tries: int = 0
    not_before_ms: float = 0.0
    tried: set[tuple[tuple[int, int], ...]] = field(default_factory=set)


class PlanAdaptation:
    def __init__(
        self,
        around: OverlaySurroundings,
        seeker: Seeker,
        slack: SlackTracker,
        params: LeaseParams,
        plans_for: PlansFor,
        generator: np.random.Generator,
    ) -> None:
        self._around, self._seeker, self._slack, self._params = around, seeker, slack, params
        self._plans_for, self._generator = plans_for, generator
        self.troubles: dict[int, _Trouble] = {}
        self._passed: dict[int, tuple[_Trouble, float]] = {}
        """Troubles that seem to have passed, and when: what was tried counts if they are back soon."""
        self._seeking: _Trouble | None = None
        self._lost = False
        self._store, self._stored_for = PlanStore(), -1
        self._given_up_until_ms: dict[int, float] = {}
        self._next_ms = params.review_ms * float(generator.random())  # not all at the same time

    def next_timer(self) -> float:
        waiting = [trouble.not_before_ms for trouble in self.troubles.values()]
        idle = self._seeker.stage is LeaseStage.NONE
        return min([self._next_ms, *waiting]) if idle else self._next_ms

    # What goes wrong.

    def measured(self, site: int, latency_ms: float, now_ms: float) -> Sequence[Effect]:
        """A link of this site's."""
        known_ms = self._around.latency_ms.get(site)
        self._around.reached({site: latency_ms})
        if known_ms is None or latency_ms <= known_ms:
            self._slack.faster()
            return ()
        added_ms = latency_ms - known_ms
        slower = self._slack.slower(site, added_ms, now_ms)
        late = [query for query in slower if self._late_by_ms(query) > LATENCY_SLACK_MS]
        for query in late:
            trouble = self.troubles.setdefault(query, self._recalled(query, now_ms))
            link = CongestedLink(self._around.site, site, added_ms, slower[query])
            trouble.congested = (*trouble.congested, link)
        return self._look(now_ms) if late else ()

    def loaded(self, operator: int, cores: float, now_ms: float) -> Sequence[Effect]:
        self._around.measured(operator, cores)
        return self._room_changed(now_ms)

    def known_as(self, operators: Iterable[SharedOperator], now_ms: float) -> Sequence[Effect]:
        """Operators read, send or need something else than before."""
        for own in operators:
            self._around.take(own)
        return self._room_changed(now_ms)

    def capacity(self, usable_cores: float, now_ms: float, *, lost: bool = False) -> Sequence[Effect]:
        """What this site can give to operators. `lost`: others see to what is here."""
        self._around.usable_cores, self._lost = usable_cores, lost
        return self._room_changed(now_ms)

    def _room_changed(self, now_ms: float) -> Sequence[Effect]:
        if self._lost or self._around.room_left()[0] >= -1e-9:
            self.troubles.pop(OVERLOAD, None)
            return ()
        self.troubles.setdefault(OVERLOAD, _Trouble(OVERLOAD))
        return self._look(now_ms)

    def needed(self, need: NeedPlan, now_ms: float) -> Sequence[Effect]:
        """Asked by the host of an operator upstream."""
        plans = [need.avoid] if need.avoid is not None else []
        is_known = need.query == OVERLOAD or self._around.end_site(need.query) != NOWHERE
        if not is_known or not all(self._around.knows(plan) for plan in plans):
            return ()
        if not all(self._around.is_known(operator) for operator, _ in need.instead_of):
            return ()
        known_ms = self._slack.latency_ms.get(need.query, 0.0)
        self._slack.latency_ms[need.query] = max(known_ms, need.latency_ms)
        if need.query not in self.troubles:
            self.troubles[need.query] = _Trouble(
                need.query, need.congested, need.avoid, need.instead_of, need.asked
            )
        return self._look(now_ms)

    def reported(self, query: int, now_ms: float) -> Sequence[Effect]:
        """A query's end says what it takes. Whoever saw it first may be gone, so the host of its last
        operator looks after it."""
        own = (self._around.served.own.get(operator) for operator in self._around.running_here())
        last = any(end.query == query for each in own if each is not None for end in each.ends)
        if not last or query in self.troubles or self._late_by_ms(query) <= LATENCY_SLACK_MS:
            return ()
        if now_ms < self._given_up_until_ms.get(query, 0.0):
            return ()
        self.troubles[query] = self._recalled(query, now_ms)
        return self._look(now_ms)

    def _recalled(self, query: int, now_ms: float) -> _Trouble:
        trouble, passed_ms = self._passed.pop(query, (_Trouble(query), 0.0))
        return trouble if now_ms < passed_ms + self._params.silence_ms else _Trouble(query)

    def _late_by_ms(self, query: int) -> float:
        ms = self._slack.latency_ms.get(query)
        return 0.0 if ms is None else ms - self._slack.limit_ms(query)

    # What is done about it.

    def timer(self, now_ms: float) -> Sequence[Effect]:
        if now_ms < self._next_ms:
            return self._look(now_ms)
        self._next_ms = now_ms + self._params.review_ms
        effects = [*self._room_changed(now_ms)] or [*self._look(now_ms)]
        if not self.troubles and self._seeker.stage is LeaseStage.NONE:
            effects += self._improve(now_ms)
        return effects

    def _look(self, now_ms: float) -> Sequence[Effect]:
        """The worst trouble whose time has come, if no other lease is sought."""
        for query in [q for q in self.troubles if q != OVERLOAD and self._late_by_ms(q) <= LATENCY_SLACK_MS]:
            self._passed[query] = self.troubles.pop(query), now_ms
        if self._seeker.stage is not LeaseStage.NONE:
            return ()
        due = [each for each in self.troubles.values() if each.not_before_ms <= now_ms]
        if not due:
            return ()
        trouble = max(due, key=lambda each: (self._late_by_ms(each.query), -each.query))
        plan = self._planned(trouble)
        if plan is not None:
            return self._seek(trouble, plan, now_ms)
        del self.troubles[trouble.query]
        return self._ask_downstream(trouble, now_ms)

    def _seek(self, trouble: _Trouble, plan: LeasePlan, now_ms: float) -> Sequence[Effect]:
        self._seeking, trouble.tries = trouble, trouble.tries + 1
        violation = self.troubles.get(trouble.query) is trouble
        return self._seeker.seek(plan, now_ms, violation=violation)

    def _planned(self, trouble: _Trouble) -> LeasePlan | None:
        """A query over a site that is too full is late because of that: what relieves the site mends it."""
        short = -self._around.room_left()[0]
        if trouble.query == OVERLOAD or (short > 0.0 and not trouble.congested):
            plans, around = self._plans().plans(), self._around
            known = replace(self._known(trouble), slack_ms=self._slack_over_links_ms())
            found = relieving(plans, around.site, short, around.cores_of, around.site_of, known)
        else:
            found = recovering(self._plans(), self._need(trouble), self._known(trouble))
        best = best_for_bandwidth((plan for plan in found if self._allows(trouble, plan)), trouble.query)
        if best is None:
            return None
        need, known = self._need(trouble), self._known(trouble)
        # With what leaving congested links takes off: others ask it whether the plan mends their query too.
        changes = tuple((q, change_now_ms(best, q, need, known)) for q, _ in best.latency_change_ms)
        return migration(self._around, trouble.query, best.moves, changes)

    def _slack_over_links_ms(self) -> dict[int, float]:
        queries = self._around.served.queries
        through = {q for operator in self._around.running_here() for q in queries.get(operator, ())}
        return self._slack.over_links_slack_ms(through)

    def _allows(self, trouble: _Trouble, plan: FinalPlan) -> bool:
        """Not tried before; beside the lease that was in the way, or built on top of it."""
        if plan.moves in trouble.tried:
            return False
        if trouble.avoid is None:
            return True
        lease = self._as_lease(trouble.query, plan)
        given = {(move.fragment, move.to_site) for move in trouble.avoid.moves}
        return lease is not None and (not in_conflict(lease, trouble.avoid) or given <= set(plan.moves))

    def _as_lease(self, query: int, plan: FinalPlan) -> LeasePlan | None:
        return migration(self._around, query, plan.moves, plan.latency_change_ms)

    def _need(self, trouble: _Trouble) -> PlanNeed:
        latency_ms = self._slack.latency_ms.get(trouble.query, 0.0)
        limit_ms = self._slack.limit_ms(trouble.query)
        return PlanNeed(trouble.query, latency_ms, limit_ms, trouble.congested)

    def _known(self, trouble: _Trouble) -> KnownQueries:
        around, served = self._around, self._around.served
        over = [o for o, queries in served.queries.items() if trouble.query in queries]

        def hops(plan: FinalPlan) -> Iterable[tuple[int, int]]:
            at = {o: around.site_of(o) for o in over} | dict(plan.moves)
            for operator in over:
                own = served.own[operator]
                yield from ((at[p], at[operator]) for p in own.publishers if p in at)
                yield from ((source.site, at[operator]) for source in own.sources)
                yield from ((at[operator], end.site) for end in own.ends if end.query == trouble.query)

        links = [(link.a, link.b) for link in trouble.congested]
        sharing = {
            query
            for operator in over
            for publisher in served.own[operator].publishers
            if any({around.site_of(publisher), around.site_of(operator)} == set(pair) for pair in links)
            for query in served.queries[operator]
        }
        return KnownQueries(self._slack.slack_ms(), hops, frozenset(sharing))

    def plans_are_new(self) -> None:
        """The plan exchange has left others."""
        self._stored_for = -1
        self._passed.clear()

    def _plans(self) -> PlanStore:
        """Plans were made for where things were: when that changes, they are made anew."""
        if self._stored_for != self._around.version:
            self._store, self._stored_for = PlanStore(), self._around.version
            for operator in self._around.running_here():
                self._store.replace(operator, self._plans_for(operator, self._around))
        return self._store

    def _ask_downstream(self, trouble: _Trouble, now_ms: float) -> Sequence[Effect]:
        around, served = self._around, self._around.served
        here = [o for o in around.running_here() if trouble.query in served.queries.get(o, ())]
        # What is upstream of an operator here has plans that move less than those that were looked at.
        before = served.before(here)
        readers = [r for o in here for r in served.readers[o] if trouble.query in served.queries[r]]
        asked = (*trouble.asked, around.site)
        sites = [around.site_of(r) for r in readers if r not in before]
        sites = [site for site in sites if site not in (*asked, NOWHERE)]
        if sites:
            latency_ms = self._slack.latency_ms.get(trouble.query, 0.0)
            need = NeedPlan(
                trouble.query, latency_ms, trouble.congested, trouble.avoid, trouble.instead_of, asked
            )
            return (Send(sites[0], need),)
        why = "no stored plan meets its limit"
        if trouble.avoid is not None and trouble.query >= 0 and not self._params.replicates:
            why = "only copies of operators for this query could meet its limit, and runs make no copies"
        elif trouble.avoid is not None and trouble.query >= 0:
            copies = replication(around, trouble.query, trouble.instead_of, trouble.avoid)
            if copies is not None and trouble.tries < self._params.tries:
                self.troubles[trouble.query] = trouble
                return self._seek(trouble, copies, now_ms)
        self._given_up_until_ms[trouble.query] = now_ms + self._params.review_ms
        return (Output(Unsatisfied(trouble.query, why)),)

    # How it went.

    def ended(self, ended: LeaseEnded, now_ms: float) -> None:
        trouble, self._seeking = self._seeking, None
        if trouble is None or ended.plan.query != trouble.query:
            return
        rest_ms = self._params.rest_ms * (1.0 + float(self._generator.random()))
        trouble.not_before_ms = now_ms + rest_ms
        moves = tuple((move.fragment, move.to_site) for move in ended.plan.moves)
        match ended.outcome:
            case "done":
                self.troubles.pop(trouble.query, None)
                return
            case "denied" if ended.by is not None:
                if self._mends(ended.by, trouble.query):
                    # Redundant: the other lease is there first, and this query will be within its limit too.
                    trouble.not_before_ms = now_ms + self._params.silence_ms
                elif ended.plan.kind == "migrate":
                    trouble.avoid, trouble.instead_of = ended.by, moves
                    # What is built on top of the other plan has to wait for its end.
                    trouble.not_before_ms = now_ms + rest_ms * 2.0 ** (trouble.tries - 1)
            case "stale" | "denied" | "failed" | "refused" | "expired":
                trouble.tried.add(moves)
        if trouble.tries >= self._params.tries:
            self.troubles.pop(trouble.query, None)
            self._given_up_until_ms[trouble.query] = now_ms + self._params.review_ms

    def _mends(self, other: LeasePlan, query: int) -> bool:
        change_ms = dict(other.change_ms).get(query)
        return change_ms is not None and self._late_by_ms(query) + change_ms <= LATENCY_SLACK_MS

    # While nothing is wrong.

    def _improve(self, now_ms: float) -> Sequence[Effect]:
        known = self._known(_Trouble(OVERLOAD))
        for query in self._slack.latency_ms:
            ends_here = self._around.end_site(query) == self._around.site
            if ends_here and (merge := merging(self._around, query)) is not None:
                return self._seek(_Trouble(query), merge, now_ms)
        found = improving(self._plans().plans(), self._params.least_saving, known)
        best = best_for_bandwidth(found)
        plan = None if best is None else self._as_lease(OVERLOAD, best)
        return () if plan is None else self._seek(_Trouble(OVERLOAD), plan, now_ms)
