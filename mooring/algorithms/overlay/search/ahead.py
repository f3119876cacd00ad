"""The k-ahead search (section 3.3.1): what the next k steps of a query take at the least.

Seen from an operator at one of its candidate sites, a query's results still have to reach the next operator,
at one of that operator's candidates, and so on. The least latency of k such steps is a lower bound on what is
left, however everything downstream is placed, so a partial plan that exceeds a limit with it cannot become a
feasible plan.

The paper prints the recursion with gamma of the operator itself on both sides. It has to be that of the
*downstream* operator at the chosen site, as the paper's own example computes it:

    gamma_i^k(n_j, q) = min over n_u in A_m of d(n_j, n_u) + gamma_m^(k-1)(n_u, q)

Where a query reads an operator over several subscribers, the slowest of the ways counts. The last step of a
query is the delivery to its site.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from mooring.algorithms.overlay.search.shared_operator import (
    NOWHERE,
    SharedOperator,
    queries_of,
    subscribers_of,
    upstream_first,
)
from mooring.arrays import Floats, Ints

Ahead = Mapping[int, Floats]
"""Query -> milliseconds ahead, per candidate site of one operator."""


class Latencies(Protocol):
    """What somebody knows of the latencies between sites."""

    def between_ms(self, starts: Ints, ends: Ints) -> Floats:
        """From each start (rows) to each end (columns); zero from a site to itself."""
        ...


class KnownLatencies:
    """All of them, as a matrix."""

    def __init__(self, latency_ms: Floats) -> None:
        self._latency_ms = latency_ms

    def between_ms(self, starts: Ints, ends: Ints) -> Floats:
        return self._latency_ms[starts[:, None], ends]


def delivery_ahead(own: SharedOperator, sites: Ints, latencies: Latencies) -> dict[int, Floats]:
    """The step from an operator to the queries that read it, per candidate site."""
    found: dict[int, Floats] = {}
    for end in own.ends:
        there_ms = np.full(len(sites), end.beyond_ms)
        if end.site != NOWHERE:
            there_ms = there_ms + latencies.between_ms(sites, np.array([end.site]))[:, 0]
        found[end.query] = np.maximum(found.get(end.query, 0.0), there_ms)
    return found


def step_ahead(hop_ms: Floats, next_ahead: Ahead) -> dict[int, Floats]:
    """One step of the recursion: over the best candidate of the next operator, per query.

    `hop_ms` leads from the operator's candidates (rows) to those of the next (columns).

    >>> step_ahead(np.array([[10.0, 30.0]]), {1: np.array([5.0, 5.0]), 2: np.array([15.0, 5.0])})
    {1: array([15.]), 2: array([25.])}
    """
    return {query: (hop_ms + ahead_ms).min(axis=1) for query, ahead_ms in next_ahead.items()}


def slowest(ways: Sequence[Ahead]) -> dict[int, Floats]:
    """Several ways to the same queries: all have to arrive, so the slowest counts."""
    found: dict[int, Floats] = {}
    for way in ways:
        for query, ahead_ms in way.items():
            found[query] = np.maximum(found[query], ahead_ms) if query in found else ahead_ms
    return found


def k_ahead(
    operators: Sequence[SharedOperator],
    candidates: Mapping[int, Ints],
    latencies: Latencies,
    k: int,
    channel_ms: float = 0.0,
) -> dict[int, dict[int, Floats]]:
    """Operator -> query -> the k-ahead latency per candidate site.

    The rounds of the paper: every operator waits for the (k-1)-ahead latencies of its subscribers.
    """
    readers = subscribers_of(operators)
    ordered = upstream_first(operators)
    found = {
        operator: {query: np.zeros(len(candidates[operator])) for query in shared}
        for operator, shared in queries_of(operators).items()
    }
    for _ in range(k):
        before, found = found, {}
        for own in ordered:
            sites = candidates[own.operator]
            ways: list[Ahead] = [delivery_ahead(own, sites, latencies)]
            for reader in readers[own.operator]:
                hop_ms = latencies.between_ms(sites, candidates[reader]) + channel_ms
                ways.append(step_ahead(hop_ms, before[reader]))
            found[own.operator] = slowest(ways)
    return found
