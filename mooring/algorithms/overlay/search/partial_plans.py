"""Partial plans (section 3.3.2): where an operator and everything upstream of it could run.

A leaf operator makes one plan per candidate site. Every operator downstream expands the plans it receives by
its own candidates, checks that they have the room, and passes on those that could still become feasible.
Plans of one operator are rows of a table, so that thousands are expanded by a few array operations.

All queries that share an operator share everything upstream of it, so the latency up to it is the same for
all of them: one number per plan stands for the paper's `pl_q` of every query. Its `pc^m` must be the cost of
the received plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mooring.algorithms.overlay.search.ahead import Ahead, Latencies, delivery_ahead
from mooring.algorithms.overlay.search.shared_operator import NOWHERE, SharedOperator
from mooring.arrays import Bools, Floats, Ints
from mooring.model.placement.site_limits import SLACK

LATENCY_SLACK_MS = 1e-6
"""Sums of hops in another order must not break a limit that is met exactly."""


@dataclass(frozen=True, eq=False)
class PlanTable:
    """Partial plans of one operator, the last of `operators`."""

    operators: tuple[SharedOperator, ...]
    """The columns, publishers before subscribers."""
    homes: tuple[int, ...]
    """Where each runs now; `NOWHERE` if it does not."""
    sites: Ints
    """Plans x operators."""
    latency_ms: Floats
    """Per plan, from the streams to the last operator at its site (`pl` in the paper)."""
    cost: Floats
    """Per plan, bytes per second between operators at different sites (`pc` in the paper)."""
    settled_ms: Mapping[int, Floats]
    """Query -> its latency per plan, of queries that read an operator of the plan itself."""

    def __len__(self) -> int:
        return len(self.latency_ms)

    @property
    def last(self) -> SharedOperator:
        return self.operators[-1]

    @property
    def column(self) -> dict[int, int]:
        return {own.operator: k for k, own in enumerate(self.operators)}

    def kept(self, which: Bools | Ints) -> PlanTable:
        return PlanTable(
            self.operators,
            self.homes,
            self.sites[which],
            self.latency_ms[which],
            self.cost[which],
            {query: ms[which] for query, ms in self.settled_ms.items()},
        )


@dataclass(frozen=True, eq=False)
class Candidates:
    """The sites that an operator may be given to (`A` in the paper), and what they have left."""

    sites: Ints
    cores_left: Floats
    """Below the CPU threshold, everything counted that runs there now."""
    memory_left_mb: Floats


def expanded(
    own: SharedOperator,
    home: int,
    candidates: Candidates,
    received: Sequence[PlanTable],
    latencies: Latencies,
    channel_ms: float = 0.0,
) -> PlanTable:
    """Every received plan with every candidate that has the room; plans of several publishers combined.

    Of a leaf, which receives nothing, one plan per candidate. A query's own end, a number below zero, is
    reached without a channel.
    """
    channel_ms = channel_ms if own.operator >= 0 else 0.0
    combined = _combined(received)
    sites = candidates.sites
    arrival = np.zeros((len(combined.cost), len(sites)))
    cost = np.repeat(combined.cost[:, None], len(sites), axis=1) + _cost_of_ends(own, sites)
    if own.sources:
        entries = np.array([source.site for source in own.sources])
        arrival = np.maximum(arrival, latencies.between_ms(entries, sites).max(axis=0))
    column = {each.operator: k for k, each in enumerate(combined.operators)}
    for publisher in own.publishers:
        if publisher not in column:
            continue
        at = combined.sites[:, column[publisher]]
        starts, inverse = np.unique(at, return_inverse=True)
        hop_ms = latencies.between_ms(starts, sites)[inverse] + channel_ms
        arrival = np.maximum(arrival, combined.latency_ms[publisher][:, None] + hop_ms)
        cost = cost + combined.operators[column[publisher]].output_rate * (at[:, None] != sites)
    plan, chosen = np.nonzero(_fitting(own, home, candidates, combined))
    latency_ms = arrival[plan, chosen]
    settled = {query: ms[plan] for query, ms in combined.settled_ms.items()}
    for query, ms in delivery_ahead(own, sites, latencies).items():
        settled[query] = np.maximum(settled.get(query, 0.0), latency_ms + ms[chosen])
    return PlanTable(
        (*combined.operators, own),
        (*combined.homes, home),
        np.column_stack([combined.sites[plan], sites[chosen]]),
        latency_ms,
        cost[plan, chosen],
        settled,
    )


def _cost_of_ends(own: SharedOperator, sites: Ints) -> Floats:
    """Per candidate: what its streams send there, and it sends to queries and to operators that stay."""
    cost = np.zeros(len(sites))
    for source in own.sources:
        cost += source.rate * (sites != source.site)
    for end in own.ends:
        if end.site != NOWHERE:
            cost += end.rate * (sites != end.site)
    return cost


def feasible(table: PlanTable, sites: Ints, ahead: Ahead, limits_ms: Mapping[int, float]) -> Bools:
    """Which plans could still meet every limit: latency so far plus the k-ahead latency (plan elimination).

    The paper eliminates at equality too, where the limit is still met. `ahead` is per candidate in `sites`.
    """
    order = np.argsort(sites, kind="stable")
    at = order[np.searchsorted(sites[order], table.sites[:, -1])]
    keep = np.ones(len(table), dtype=bool)
    for query, ahead_ms in ahead.items():
        limit_ms = limits_ms.get(query, np.inf)
        if np.isfinite(limit_ms):
            keep &= table.latency_ms + ahead_ms[at] <= limit_ms + LATENCY_SLACK_MS
    return keep


@dataclass(frozen=True, eq=False)
class _Combined:
    operators: tuple[SharedOperator, ...]
    homes: tuple[int, ...]
    sites: Ints
    latency_ms: Mapping[int, Floats]
    """Publisher -> latency up to it, per plan."""
    cost: Floats
    settled_ms: Mapping[int, Floats]


def _combined(received: Sequence[PlanTable]) -> _Combined:
    """All combinations of the publishers' plans that agree on the operators they have in common."""
    empty = np.empty((1, 0), dtype=np.int64)
    result = _Combined((), (), empty, {}, np.zeros(1), {})
    for table in received:
        result = _joined(result, table)
    return result


def _joined(left: _Combined, right: PlanTable) -> _Combined:
    column = {own.operator: k for k, own in enumerate(left.operators)}
    shared = [(column[own.operator], k) for k, own in enumerate(right.operators) if own.operator in column]
    agree = np.ones((len(left.cost), len(right)), dtype=bool)
    for mine, theirs in shared:
        agree &= left.sites[:, mine][:, None] == right.sites[:, theirs]
    rows, others = np.nonzero(agree)
    fresh = [k for k, own in enumerate(right.operators) if own.operator not in column]
    twice = _cost_within(right, {theirs for _, theirs in shared})
    settled = {query: ms[rows] for query, ms in left.settled_ms.items()}
    for query, ms in right.settled_ms.items():
        settled[query] = np.maximum(settled.get(query, 0.0), ms[others])
    return _Combined(
        (*left.operators, *(right.operators[k] for k in fresh)),
        (*left.homes, *(right.homes[k] for k in fresh)),
        np.column_stack([left.sites[rows], right.sites[others][:, fresh]]),
        {publisher: ms[rows] for publisher, ms in left.latency_ms.items()}
        | {right.last.operator: right.latency_ms[others]},
        left.cost[rows] + right.cost[others] - twice[others],
        settled,
    )


def _cost_within(table: PlanTable, columns: set[int]) -> Floats:
    """The part of each plan's cost that flows between some of its operators, and to their ends."""
    cost = np.zeros(len(table))
    where = table.column
    for k in columns:
        cost += _cost_of_ends(table.operators[k], table.sites[:, k])
        for publisher in table.operators[k].publishers:
            if (p := where.get(publisher, NOWHERE)) in columns:
                crossing = table.sites[:, p] != table.sites[:, k]
                cost += table.operators[p].output_rate * crossing
    return cost


def _fitting(own: SharedOperator, home: int, candidates: Candidates, combined: _Combined) -> Bools:
    """Plans x candidates: whether the candidate has room for what the plan puts there, with what the plan
    takes away from there."""
    at, cores, memory = candidates.sites, own.cores * 1.0, own.memory_mb * 1.0
    need_cores = np.full((len(combined.cost), len(at)), cores)
    need_mb = np.full((len(combined.cost), len(at)), memory)
    free_cores = candidates.cores_left + cores * (at == home)
    free_mb = candidates.memory_left_mb + memory * (at == home)
    for k, (each, at_home) in enumerate(zip(combined.operators, combined.homes, strict=True)):
        here = combined.sites[:, k][:, None] == at
        need_cores += each.cores * here
        need_mb += each.memory_mb * here
        free_cores = free_cores + each.cores * (at == at_home)
        free_mb = free_mb + each.memory_mb * (at == at_home)
    fits = (need_cores <= free_cores + SLACK * (1.0 + np.abs(free_cores))) & (
        need_mb <= free_mb * (1.0 + SLACK) + SLACK
    )
    return np.asarray(fits | (own.pinned_site == at))
