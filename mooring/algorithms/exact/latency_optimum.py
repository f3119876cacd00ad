"""The placement with the least mean latency of all queries, queues included, for problems small enough."""

from __future__ import annotations

import numpy as np

from mooring.algorithms.ants.descent_kernels import OVERLOADED_S
from mooring.algorithms.ants.latency_search import LatencySearch
from mooring.algorithms.exact.latency_optimum_kernels import DEPTH, NODES, Branching, search, walk_at_the_root
from mooring.arrays import Ints
from mooring.contracts.deadline import NO_DEADLINE, Deadline
from mooring.errors import InfeasibleError, UnsupportedError
from mooring.model.load.model import LoadModel
from mooring.model.problem.latencies import as_matrix
from mooring.model.problem.problem import Problem

_STRETCH_NODES = 2_000
"""Between two looks at the deadline."""
_NODES_PER_BUDGET = 20
"""A step of this search costs about as much as twenty of the one for resilience."""


def latency_optimum(
    problem: Problem, model: LoadModel, node_budget: int = 20_000_000, deadline: Deadline = NO_DEADLINE
) -> Ints:
    """Sites per fragment; `UnsupportedError` when the budget does not suffice, `InfeasibleError` when none
    fits."""
    ready = LatencySearch.of(problem, model)
    best_s, best = np.inf, model.pinned_site.astype(np.int64)
    if (start := ready.shortest_ways(deadline=deadline)) is not None:
        best, best_s = ready.descend(start, passes=20, deadline=deadline)
    branching, at_least = _Ways(ready).branching()
    sites = model.pinned_site.astype(np.int64)
    most_nodes = max(node_budget // _NODES_PER_BUDGET, 1)
    walk = walk_at_the_root(ready.many.template, ready.fragments, len(branching.order), sites, at_least)
    found_s = best_s
    while walk.counts[DEPTH] >= 0:
        looked_at = int(walk.counts[NODES])
        if looked_at >= most_nodes:
            raise _too_large(looked_at, "raise node_budget, or use descent")
        if deadline.expired:
            raise _too_large(looked_at, "allow more time, or use descent")
        until = min(looked_at + _STRETCH_NODES, most_nodes)
        found_s = search(ready.many.template, ready.fragments, branching, walk, sites, best, found_s, until)
    if not np.isfinite(found_s):
        raise InfeasibleError(
            "no placement leaves every site within its capacity and memory", remedy="add capacity or memory"
        )
    if found_s >= OVERLOADED_S:
        raise InfeasibleError(
            "every placement overloads a site or a link at the present rates",
            remedy="add capacity or bandwidth, or lower the rates",
        )
    return best


def _too_large(looked_at: int, remedy: str) -> UnsupportedError:
    what = f"looked at {looked_at:,} partial placements without reaching the end"
    return UnsupportedError(what, remedy=remedy)


class _Ways:
    """From what has a site or gets one, to what has a site or gets one later."""

    def __init__(self, ready: LatencySearch) -> None:
        self.ready, self.pinned = ready, ready.model.pinned_site
        rank = {j: n for n, j in enumerate(ready.problem.graph.order)}
        free = [f for f in range(len(self.pinned)) if self.pinned[f] < 0]
        self.order = sorted(free, key=lambda f: min(rank[j] for j in ready.problem.fragments[f]))
        self.weight_of: dict[tuple[int, int], float] = {}
        place = {f: n for n, f in enumerate(self.order)}
        for a, weight in enumerate(ready.many.weights.tolist()):
            ends = self._ends(a)
            if ends is not None and place.get(ends[0], -1) < place.get(ends[1], len(place)):
                self.weight_of[ends] = self.weight_of.get(ends, 0.0) + weight
        self.into: list[list[int]] = [[] for _ in self.pinned]
        self.out: list[list[int]] = [[] for _ in self.pinned]
        for n, (source, target) in enumerate(self.weight_of):
            if target >= 0:
                self.into[target].append(n)
            if source >= 0:
                self.out[source].append(n)

    def _ends(self, a: int) -> tuple[int, int] | None:
        """Fragments, or ~site; None where the arc leads nowhere, or between two that have sites."""
        template, arc = self.ready.many.template, self.ready.many.arcs[a]
        source = int(template.fragment_of[arc.producer])
        if source < 0:
            source = ~int(template.stream_site[arc.producer])
            if source >= 0:  # a stream that is everywhere
                return None
        if arc.reader is None:
            target = ~int(template.query_site[template.query[a]])
        else:
            target = self._end(int(template.fragment_of[arc.reader]))
        source = self._end(source)
        return None if source == target or (source < 0 and target < 0) else (source, target)

    def _end(self, end: int) -> int:
        return ~int(self.pinned[end]) if end >= 0 and self.pinned[end] >= 0 else end

    def branching(self) -> tuple[Branching, float]:
        """And what every placement costs at least."""
        template, latency_ms = self.ready.many.template, self.ready.problem.network.latency_ms
        count = len(template.capacity_cores)
        latency_s = np.zeros((count, count)) if latency_ms is None else as_matrix(latency_ms) / 1e3
        own = self.ready.fragments.path[:, None] / template.capacity_cores[None, :]
        ends, weights = list(self.weight_of), np.array(list(self.weight_of.values()))
        least = np.zeros((len(ends), count))
        for n, (_, target) in enumerate(ends):
            if target < 0:
                least[n] = weights[n] * latency_s[:, ~target]
        for f in reversed(self.order):
            behind = own[f] + least[self.out[f]].sum(axis=0)
            for n in self.into[f]:
                through = weights[n] * latency_s + behind[None, :] / len(self.into[f])
                least[n] = through.min(axis=1)
        at_least = sum(float(least[n, ~source]) for n, (source, _) in enumerate(ends) if source < 0)
        into_start, into = _joined(self.into)
        out_start, out = _joined(self.out)
        sources = np.array([source for source, _ in ends], dtype=np.int64)
        order = np.array(self.order, dtype=np.int64)
        found = Branching(order, own, into_start, into, out_start, out, sources, weights, least)
        return found, at_least


def _joined(lists: list[list[int]]) -> tuple[Ints, Ints]:
    starts = np.concatenate([[0], np.cumsum([len(own) for own in lists])]).astype(np.int64)
    return starts, np.array([n for own in lists for n in own], dtype=np.int64)
