"""Whether a plan still holds, by the replies of the sites that granted its locks.

Plans were made from latencies and places that may be old. Once all sites concerned have answered, the seeker
has the places of all operators of the affected queries and the latencies between them, and computes the
latencies of the queries again. The paper has no such step; without it a promise would be as old as the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mooring.algorithms.overlay.leases.lease_messages import LeasePlan
from mooring.algorithms.overlay.leases.site_view import OverlaySurroundings, Served
from mooring.algorithms.overlay.search.partial_plans import LATENCY_SLACK_MS
from mooring.algorithms.overlay.search.shared_operator import NOWHERE, upstream_first
from mooring.quantity import milliseconds

Measured = Mapping[tuple[int, int], float]
"""Milliseconds between two sites, the smaller number first."""


@dataclass(frozen=True)
class Revalidated:
    latency_ms: Mapping[int, float]
    """Of every affected query, once the plan is carried out."""
    objection: str | None
    """Why it does not hold."""


def link(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a <= b else (b, a)


def query_latencies(
    served: Served, sites: Mapping[int, int], queries: tuple[int, ...], measured: Measured, channel_ms: float
) -> dict[int, float | None]:
    """Query -> its latency; None where a link was not measured or an operator does not run."""
    wanted = set(queries)
    needed = [own for number, own in served.own.items() if wanted & set(served.queries[number])]

    def hop_ms(a: int, b: int) -> float | None:
        return 0.0 if a == b else measured.get(link(a, b))

    arrival: dict[int, float | None] = {}
    found: dict[int, float | None] = {}
    for own in upstream_first(needed):
        here = sites.get(own.operator, NOWHERE)
        hops = [(0.0, hop_ms(source.site, here)) for source in own.sources]
        for publisher in own.publishers:
            before = arrival.get(publisher)
            hop = hop_ms(sites.get(publisher, NOWHERE), here)
            hops.append((0.0, None) if before is None or hop is None else (before + channel_ms, hop))
        ways = [None if hop is None else before + hop for before, hop in hops]
        slowest = None if here == NOWHERE else _slowest([0.0, *ways])
        arrival[own.operator] = slowest
        for end in own.ends:
            last = hop_ms(here, end.site) if end.site != NOWHERE else 0.0
            way = None if slowest is None or last is None else slowest + last + end.beyond_ms
            found[end.query] = _slowest([found.get(end.query, 0.0), way])
    return {query: found.get(query) for query in queries}


def _slowest(ways: list[float | None]) -> float | None:
    known = [ms for ms in ways if ms is not None]
    return max(known) if len(known) == len(ways) else None


def revalidated(
    plan: LeasePlan, around: OverlaySurroundings, measured: Measured, channel_ms: float
) -> Revalidated:
    """Every affected query meets its limit then or, if it does not now, is at least no later than now."""
    served, sites = around.after(plan)
    limits: dict[int, float] = {}
    for own in served.own.values():
        for end in own.ends:
            limits[end.query] = min(end.limit_ms, limits.get(end.query, float("inf")))
    after = query_latencies(served, sites, plan.affected, measured, channel_ms)
    places = {number: place.site for number, place in around.where.items()}
    now = query_latencies(around.served, places, plan.affected, measured, channel_ms)
    known: dict[int, float] = {}
    for query, ms in after.items():
        if ms is None:
            return Revalidated(known, f"the latency of query {query} under the plan is not known")
        known[query] = ms
        allowed = max(limits.get(query, float("inf")), now[query] or 0.0)
        if ms > allowed + LATENCY_SLACK_MS:
            late = f"query {query} would take {milliseconds(ms)}, {milliseconds(ms - allowed)} over its limit"
            return Revalidated(known, late)
    return Revalidated(known, None)
