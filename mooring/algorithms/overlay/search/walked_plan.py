"""One plan, walked link by link: when results are where, and how long the rest takes.

Tables of plans carry the latency up to their last operator. To apply one takes more figures, and the newest
measurements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mooring.algorithms.overlay.search.ahead import Latencies
from mooring.algorithms.overlay.search.partial_plans import LATENCY_SLACK_MS
from mooring.algorithms.overlay.search.shared_operator import (
    NOWHERE,
    QueryEnd,
    SharedOperator,
    subscribers_of,
)
from mooring.arrays import Ints


@dataclass(frozen=True)
class WalkedPlan:
    sites: Mapping[SharedOperator, int]
    """Operator -> its site, publishers first."""
    homes: tuple[int, ...]
    arrival_ms: Mapping[int, float]
    """Operator -> latency from the streams to it."""
    query_ms: Mapping[int, float]
    """Query -> its latency."""
    rests: Mapping[int, Mapping[int, float]] = field(repr=False)
    """Operator -> query -> how long its results take from there on."""

    def site_of(self, operator: int) -> int:
        return next(site for own, site in self.sites.items() if own.operator == operator)

    def rest_ms(self, operator: int) -> tuple[tuple[int, float], ...]:
        return tuple(sorted(self.rests[operator].items()))

    def cost(self) -> float:
        """Bytes per second between sites, as plans count them."""
        at = {own.operator: site for own, site in self.sites.items()}
        rate = {own.operator: own.output_rate for own in self.sites}
        total = 0.0
        for own, site in self.sites.items():
            total += sum(rate[p] for p in own.publishers if p in at and at[p] != site)
            total += sum(source.rate for source in own.sources if source.site != site)
            total += sum(end.rate for end in own.ends if end.site not in (NOWHERE, site))
        return total

    def latest(self, limits_ms: Mapping[int, float]) -> tuple[int, float] | None:
        """The query that misses its limit by most, and by how much; None if all meet theirs."""
        late = [(ms - limits_ms.get(query, np.inf), query) for query, ms in self.query_ms.items()]
        by_ms, query = max(late, default=(0.0, -1))
        return (query, by_ms) if by_ms > LATENCY_SLACK_MS else None


def walked(
    operators: Sequence[SharedOperator],
    homes: tuple[int, ...],
    sites: Ints | Sequence[int],
    latencies: Latencies,
    channel_ms: float = 0.0,
) -> WalkedPlan:
    """Operators, publishers first, at the given sites. A query's own end, a number below zero, is reached
    without a channel."""
    at = {own.operator: int(site) for own, site in zip(operators, sites, strict=True)}

    hops_ms: dict[tuple[int, int], float] = {}  # operators are many, pairs of sites few

    def hop_ms(start: int, end: int) -> float:
        if start == end:
            return 0.0
        if (start, end) not in hops_ms:
            hops_ms[start, end] = float(latencies.between_ms(np.array([start]), np.array([end]))[0, 0])
        return hops_ms[start, end]

    def end_ms(here: int, end: QueryEnd) -> float:
        return end.beyond_ms + (0.0 if end.site == NOWHERE else hop_ms(here, end.site))

    arrival: dict[int, float] = {}
    query_ms: dict[int, float] = {}
    for own in operators:
        here, channel = at[own.operator], channel_ms if own.operator >= 0 else 0.0
        ways = [hop_ms(source.site, here) for source in own.sources]
        ways += [arrival[p] + hop_ms(at[p], here) + channel for p in own.publishers if p in arrival]
        arrival[own.operator] = max(ways, default=0.0)
        for end in own.ends:
            ms = arrival[own.operator] + end_ms(here, end)
            query_ms[end.query] = max(query_ms.get(end.query, 0.0), ms)
    readers = subscribers_of(operators)
    rests: dict[int, dict[int, float]] = {}
    for own in reversed(operators):
        here = at[own.operator]
        rest: dict[int, float] = {}
        for end in own.ends:
            rest[end.query] = max(rest.get(end.query, 0.0), end_ms(here, end))
        for reader in readers[own.operator]:
            channel = channel_ms if reader >= 0 else 0.0
            for query, ms in rests[reader].items():
                rest[query] = max(rest.get(query, 0.0), hop_ms(here, at[reader]) + channel + ms)
        rests[own.operator] = rest
    placed = {own: at[own.operator] for own in operators}
    return WalkedPlan(placed, homes, arrival, query_ms, rests)
