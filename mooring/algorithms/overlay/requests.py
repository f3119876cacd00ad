"""A problem as an overlay sees it: fragments as shared operators, queries as requests to their sites."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np

from mooring.algorithms.overlay.protocol.messages import HostedOperator, RegisterQuery, Subscriber
from mooring.algorithms.overlay.search.ahead import KnownLatencies
from mooring.algorithms.overlay.search.shared_operator import (
    QueryEnd,
    SharedOperator,
    Source,
    queries_of,
    subscribers_of,
    upstream_first,
)
from mooring.algorithms.overlay.search.walked_plan import walked
from mooring.algorithms.relaxation.limited_sites import LimitedSites
from mooring.algorithms.relaxation.springs import problem_springs
from mooring.arrays import Ints
from mooring.contracts.policy import Context
from mooring.model.placement.admission import upstream_fragments
from mooring.model.placement.links import node_flows
from mooring.model.problem.latencies import as_matrix, both_ways
from mooring.model.problem.problem import Problem

NO_LIMIT_MS = float("inf")
MANY = 1 << 30


@dataclass(frozen=True)
class Wanted:
    """A query, or operators that no query needs, which are asked for like one without a limit."""

    query: int
    site: int
    limit_ms: float
    delivered_rate: float
    reads: tuple[int, ...]
    """Fragments."""
    needs: frozenset[int]
    running: bool


class OverlayRequests:
    """Pinned fragments have their room from the start, so that nobody takes it: they ask for none."""

    def __init__(self, problem: Problem, context: Context, threshold: float, counts_ends: bool) -> None:
        self.problem, self._context, self._counts_ends = problem, context, counts_ends
        count = len(problem.sites)
        stated = problem.network.latency_ms
        self.latency_ms = np.zeros((count, count)) if stated is None else stated
        model = context.load
        springs = problem_springs(problem, model.pinned_site)
        limited = LimitedSites(model, problem.network, springs, self.latency_ms)
        self.needs_cores = limited.needs_cores
        self._site_of_current = self._current_sites()
        self.pinned_site = self._pinned()
        pinned = self.pinned_site >= 0
        held = np.bincount(self.pinned_site[pinned], self.needs_cores[pinned], count)
        held_mb = np.bincount(self.pinned_site[pinned], model.memory_mb[pinned], count)
        self.memory_mb = model.memory_limit_mb - held_mb
        taken = model.capacity_cores - limited.cores_left
        self.usable_cores = threshold * model.capacity_cores - taken - held
        self._fragment_of = {j: f for f, members in enumerate(problem.fragments) for j in members}
        self.operators = self._shared_operators()
        self._wanted = self._all_wanted()

    def query_name(self, query: int) -> str:
        names = [each.name for each in self.problem.queries]
        return names[query] if query < len(names) else "another"

    def wanted(self) -> list[Wanted]:
        """The smallest first: a query over few operators is in nobody's way, and others build on it."""
        return sorted(self._wanted, key=lambda each: (not each.running, len(each.needs)))

    def request(self, wanted: Wanted, most_moves: int | None) -> RegisterQuery:
        needed = [self.operators[f] for f in sorted(wanted.needs)]
        return RegisterQuery(
            wanted.query,
            wanted.limit_ms,
            wanted.delivered_rate,
            wanted.reads,
            tuple(upstream_first(needed)),
            MANY if most_moves is None else most_moves,
        )

    def hosted(self) -> list[tuple[int, HostedOperator]]:
        """What runs in the current placement, if there is one: fragments with their sites."""
        at = self._site_of_current
        if not at:
            return []
        ends: dict[int, list[QueryEnd]] = {f: [] for f in at}
        for each in self._wanted:
            if each.running:
                end = QueryEnd(each.query, each.site, each.limit_ms, each.delivered_rate)
                for f in each.reads:
                    ends[f].append(end)
        running = upstream_first(
            msgspec.structs.replace(self.operators[f], ends=tuple(ends[f])) for f in sorted(at)
        )
        sites = [at[own.operator] for own in running]
        channel_ms = self.problem.network.hop_ms
        known = KnownLatencies(as_matrix(both_ways(self.latency_ms)))
        now = walked(running, tuple(sites), sites, known, channel_ms)
        limits, readers = queries_of(running), subscribers_of(running)
        return [
            (
                site,
                HostedOperator(
                    own,
                    tuple(limits[own.operator].items()),
                    tuple((p, at[p]) for p in own.publishers if p in at),
                    tuple(Subscriber(r, at[r], now.rest_ms(r)) for r in readers[own.operator]),
                    now.arrival_ms[own.operator],
                ),
            )
            for own, site in zip(running, sites, strict=True)
        ]

    def _current_sites(self) -> dict[int, int]:
        current = self._context.current
        if current is None:
            return {}
        index = {name: f for f, name in enumerate(self.problem.fragment_names)}
        names, sites = current.problem.fragment_names, current.site_of_fragment.tolist()
        return {index[name]: site for name, site in zip(names, sites, strict=True)}

    def _pinned(self) -> Ints:
        """Where fragments have to be: by their pin, or because they run and may not move."""
        pinned = self._context.load.pinned_site.copy()
        for f, site in self._site_of_current.items():
            if not all(self.problem.operators[j].movable for j in self.problem.fragments[f]):
                pinned[f] = site if pinned[f] < 0 else pinned[f]
        return pinned

    def _shared_operators(self) -> list[SharedOperator]:
        problem = self.problem
        graph, streams = problem.graph, len(problem.streams)
        flow, _ = node_flows(problem)
        rank = {f: k for k, f in enumerate(self._in_order())}
        found = []
        for f, members in enumerate(problem.fragments):
            read = {node for j in members for port in graph.ports[j] for node in port}
            publishers = {self._fragment_of[node - streams] for node in read if node >= streams}
            sources = [node for node in sorted(read) if node < streams]
            read_outside = [
                j for j in members if any(self._fragment_of[r] != f for r in graph.readers[streams + j])
            ]
            pinned = int(self.pinned_site[f])
            found.append(
                SharedOperator(
                    f,
                    # Labels can make fragments read each other in a circle; then the earlier does not wait.
                    publishers=tuple(sorted(p for p in publishers if rank[p] < rank[f])),
                    sources=tuple(self._source(node, flow[node]) for node in sources if self._enters(node)),
                    output_rate=float(sum(flow[streams + j] for j in read_outside)),
                    cores=0.0 if pinned >= 0 else float(self.needs_cores[f]),
                    memory_mb=0.0 if pinned >= 0 else float(self._context.load.memory_mb[f]),
                    pinned_site=pinned,
                )
            )
        return found

    def _in_order(self) -> list[int]:
        place = {j: k for k, j in enumerate(self.problem.graph.order)}
        first = [min(place[j] for j in members) for members in self.problem.fragments]
        return sorted(range(len(first)), key=first.__getitem__)

    def _enters(self, stream: int) -> bool:
        return self.problem.streams[stream].site is not None

    def _source(self, stream: int, rate: float) -> Source:
        site = self.problem.streams[stream].site
        assert site is not None
        return Source(self.problem.site_index[site], float(rate) if self._counts_ends else 0.0)

    def _all_wanted(self) -> list[Wanted]:
        problem, streams = self.problem, len(self.problem.streams)
        flow, _ = node_flows(problem)
        wanted: list[Wanted] = []
        for q, query in enumerate(problem.queries):
            nodes = [node for node in problem.nodes_by_name[query.reads] if node >= streams]
            reads = tuple(sorted({self._fragment_of[node - streams] for node in nodes}))
            rate = float(sum(flow[node] for node in nodes)) if self._counts_ends else 0.0
            stated = query.max_latency_ms
            network = problem.network  # plans are walked from the first batch on
            limit_ms = (
                NO_LIMIT_MS if stated is None or network.latency_ms is None else stated - network.entry_ms
            )
            needs = frozenset(self._with_publishers(upstream_fragments(problem, query.reads)))
            site = problem.site_index[query.site]
            wanted.append(Wanted(q, site, limit_ms, rate, reads, needs, self._runs(needs)))
        covered = set().union(*(each.needs for each in wanted))
        left = [f for f in self._in_order() if f not in covered]
        read = {p for f in left for p in self.operators[f].publishers}
        for f in left:
            if f not in read:
                needs = frozenset(self._with_publishers({f}))
                site = next((s.site for own in needs for s in self.operators[own].sources), 0)
                wanted.append(Wanted(len(wanted), site, NO_LIMIT_MS, 0.0, (f,), needs, self._runs(needs)))
        return wanted

    def _with_publishers(self, fragments: set[int]) -> set[int]:
        found, todo = set[int](), list(fragments)
        while todo:
            f = todo.pop()
            if f not in found:
                found.add(f)
                todo += self.operators[f].publishers
        return found

    def _runs(self, needs: frozenset[int]) -> bool:
        return bool(needs) and needs <= self._site_of_current.keys()
