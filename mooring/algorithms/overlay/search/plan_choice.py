"""Choosing among stored plans when something has changed (section 3.4, adaptive optimisation).

Stored plans say what they change, against latencies as they were when the plans were made. If a link has
become slower since, a query over it takes that much longer now. A plan that leaves the link takes the added
delay off; one that keeps it does not, and must meet the limit all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from mooring.algorithms.overlay.search.final_plans import FinalPlan, PlanStore
from mooring.algorithms.overlay.search.partial_plans import LATENCY_SLACK_MS


class CongestedLink(msgspec.Struct, frozen=True):
    """A link that takes longer than when plans were made."""

    a: int
    b: int
    """Sites."""
    added_ms: float
    """Every time that results cross it."""
    crossings: int = 1
    """By the query in need, now."""

    def is_between(self, a: int, b: int) -> bool:
        return (a, b) in ((self.a, self.b), (self.b, self.a))


@dataclass(frozen=True)
class PlanNeed:
    """A query that takes too long."""

    query: int
    latency_ms: float
    """Now, added delays included."""
    limit_ms: float
    congested: tuple[CongestedLink, ...] = ()
    """Links on its way that are part of the trouble."""

    @property
    def added_ms(self) -> float:
        return sum(link.added_ms * link.crossings for link in self.congested)


@dataclass(frozen=True)
class KnownQueries:
    """What whoever chooses knows of queries and of where things are."""

    slack_ms: Mapping[int, float]
    """Query -> by how much it may become slower now; below zero where it is late."""
    hops: Callable[[FinalPlan], Iterable[tuple[int, int]]]
    """Links that a plan leaves or makes in use, as pairs of sites."""
    shares_link: frozenset[int] = field(default_factory=frozenset)
    """Queries over the congested links; the one in need among them."""


def change_now_ms(plan: FinalPlan, query: int, need: PlanNeed, known: KnownQueries) -> float:
    """What a plan changes a query's latency by from now, congestion included."""
    change_ms = plan.change_of(query)
    if not need.congested or (query != need.query and query not in known.shares_link):
        return change_ms
    hops = list(known.hops(plan))
    kept_ms = sum(link.added_ms for link in need.congested for a, b in hops if link.is_between(a, b))
    return change_ms + kept_ms - need.added_ms


def harms_nobody(plan: FinalPlan, need: PlanNeed, known: KnownQueries) -> bool:
    """Every other query that it touches stays within its limit, or is no later than it is."""
    return all(
        change_now_ms(plan, query, need, known) <= max(known.slack_ms.get(query, 0.0), 0.0) + LATENCY_SLACK_MS
        for query, _ in plan.latency_change_ms
        if query != need.query
    )


def recovering(store: PlanStore, need: PlanNeed, known: KnownQueries) -> Iterator[FinalPlan]:
    """Stored plans that bring a query back within its limit and harm no other, in no order.

    Only those are looked at that would do it if they left every congested link: the store is sorted by that.
    """
    over_ms = need.latency_ms - need.limit_ms
    for plan in store.reducing(need.query, over_ms - need.added_ms):
        enough = change_now_ms(plan, need.query, need, known) <= LATENCY_SLACK_MS - over_ms
        if enough and harms_nobody(plan, need, known):
            yield plan


def best_for_bandwidth(plans: Iterable[FinalPlan], query: int = -1) -> FinalPlan | None:
    """The one that saves most bandwidth; of equals the one that is best for the query, then of fewest
    moves."""
    return min(
        plans,
        key=lambda plan: (plan.bandwidth_change, plan.change_of(query), len(plan.moves), plan.moves),
        default=None,
    )


def relieving(
    plans: Iterable[FinalPlan],
    here: int,
    short_cores: float,
    cores_of: Callable[[int], float],
    site_of: Callable[[int], int],
    known: KnownQueries,
) -> Iterator[FinalPlan]:
    """Plans that take at least so many cores away from a site, and harm no query."""
    nobody = PlanNeed(-1, 0.0, 0.0)
    for plan in plans:
        freed = sum(cores_of(operator) for operator, to in plan.moves if site_of(operator) == here != to)
        freed -= sum(cores_of(operator) for operator, to in plan.moves if site_of(operator) != here == to)
        if freed >= short_cores - 1e-12 and harms_nobody(plan, nobody, known):
            yield plan


def improving(plans: Iterable[FinalPlan], least_saving: float, known: KnownQueries) -> Iterator[FinalPlan]:
    """Plans that save so much bandwidth, and harm no query."""
    nobody = PlanNeed(-1, 0.0, 0.0)
    for plan in plans:
        if plan.bandwidth_change <= -least_saving and harms_nobody(plan, nobody, known):
            yield plan
