"""Queries that come and go on one network, sharing operators: the full placement optimiser of section 3.2.

A new query is placed by relaxation. Where an operator that computes the same already runs near the place that
the springs want (among the k nearest sites), it is reused with everything behind it, and only its output is
sent on, once per site. An operator ends when the last query that uses it does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from mooring.algorithms.relaxation.mapping import Contacts, Mapper, MappingParams, OpenSites
from mooring.algorithms.relaxation.spring_params import SpringParams
from mooring.algorithms.relaxation.springs import Springs, virtual_positions
from mooring.arrays import Floats
from mooring.errors import InputError
from mooring.model.load.rates import output_rates
from mooring.model.network.cost_space import CostSpace
from mooring.model.placement.links import node_bytes
from mooring.model.placement.signatures import Signature, signatures
from mooring.model.problem.problem import Problem
from mooring.model.problem.reading.fields import refuse_reference


@dataclass
class Instance:
    """An operator that runs, for one or more queries."""

    number: int
    operator: int
    site: int
    inputs: tuple[int, ...]
    """What it reads: streams as ~stream, other instances by number."""
    queries: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Admission:
    """How a query was placed."""

    query: str
    sites: dict[str, str]
    """Every operator of the query, and the site where it (or the one that stands for it) runs."""
    reused: dict[str, str]
    """Operators that were not started because an equal one runs: that one's name."""
    added_usage: float
    """Bytes in flight that the query added."""


class RunningQueries:
    """What runs now. `admit` and `withdraw` change it."""

    def __init__(
        self,
        problem: Problem,
        space: CostSpace,
        latency_ms: Floats,
        rng: np.random.Generator,
        *,
        reuse: bool = True,
        mapping: MappingParams | None = None,
        make_sites: Callable[[], Contacts] | None = None,
    ) -> None:
        self.problem, self.space, self.latency_ms = problem, space, latency_ms
        self.instances: dict[int, Instance] = {}
        self.roots: dict[str, tuple[int, ...]] = {}
        """Query -> the instances it reads."""
        self._rng, self._reuse = rng, reuse
        self._mapping = mapping or MappingParams()
        self._sites = make_sites() if make_sites is not None else OpenSites(latency_ms)
        self._signatures = signatures(problem)
        self._running: dict[Signature, list[int]] = {}
        self._next = 0
        sizes = node_bytes(problem)
        known = all(size is not None for size in sizes)
        rates = output_rates(problem, None)
        self._flow = [
            float(rates[node]) * (float(sizes[node] or 0.0) if known else 1.0) for node in range(len(sizes))
        ]
        self._queries = {query.name: query for query in problem.queries}

    def admit(self, name: str) -> Admission:
        """Place a query of the problem that does not run yet, sharing what can be shared."""
        if name not in self._queries:
            refuse_reference(name, self._queries, "query", "a query of the problem")
        if name in self.roots:
            raise InputError(f"query {name!r} runs already", field="query")
        before = self.usage()
        consumer = self.problem.site_index[self._queries[name].site]
        tops = self._operators_read(name)
        closure = self._closure(tops)
        wanted_ms = self._springs_at_rest(closure, {}, tops, consumer)
        shared = self._shareable(tops, dict(zip(closure, wanted_ms, strict=True)))
        fresh = self._closure(tops, stop=set(shared))
        sites = self._place(fresh, shared, tops, consumer)
        for j in fresh:
            self._start(j, sites[j], shared)
        self.roots[name] = tuple(shared[j] for j in tops)
        self._mark(self.roots[name], name)
        names, operators = self.problem.sites, self.problem.operators
        return Admission(
            name,
            {operators[j].name: names[self.instances[shared[j]].site].name for j in shared},
            {
                operators[j].name: operators[self.instances[number].operator].name
                for j, number in shared.items()
                if j not in fresh
            },
            self.usage() - before,
        )

    def withdraw(self, name: str) -> tuple[str, ...]:
        """End a query; returns the operators that ended with it because nobody else uses them."""
        if name not in self.roots:
            refuse_reference(name, self.roots, "query", "a running query")
        del self.roots[name]
        ended: list[str] = []
        for number, instance in list(self.instances.items()):
            instance.queries.discard(name)
            if not instance.queries:
                del self.instances[number]
                self._running[self._signatures[instance.operator]].remove(number)
                ended.append(self.problem.operators[instance.operator].name)
        return tuple(ended)

    def usage(self) -> float:
        """Bytes in flight: with reuse every output once to every site that needs it, without it once per
        reader."""
        reached: set[tuple[int, int, int, str]] = set()
        streams = len(self.problem.streams)
        for number, instance in self.instances.items():
            reader = "" if self._reuse else f"instance {number}"
            reached |= {(*self._source(source), instance.site, reader) for source in instance.inputs}
        for name, roots in self.roots.items():
            target, reader = self.problem.site_index[self._queries[name].site], "" if self._reuse else name
            reached |= {(*self._source(root), target, reader) for root in roots}
        total = 0.0
        for source, site, target, _ in reached:
            node = ~source if source < 0 else streams + self.instances[source].operator
            total += self._flow[node] * (self.latency_ms[site, target] if site >= 0 else 0.0)
        return total / 1e3

    def _source(self, source: int) -> tuple[int, int]:
        """A producer and its site; -1 for a stream that is everywhere."""
        if source >= 0:
            return source, self.instances[source].site
        site = self.problem.streams[~source].site
        return source, -1 if site is None else self.problem.site_index[site]

    def _operators_read(self, query: str) -> tuple[int, ...]:
        streams = len(self.problem.streams)
        return tuple(node - streams for node in self.problem.nodes_by_name[self._queries[query].reads])

    def _inputs(self, j: int) -> list[int]:
        """Nodes that an operator reads, streams included."""
        return list(dict.fromkeys(node for port in self.problem.graph.ports[j] for node in port))

    def _closure(self, tops: tuple[int, ...], stop: set[int] | None = None) -> list[int]:
        """The operators behind a query, producers first; those in `stop` and what only they need left out."""
        streams, found = len(self.problem.streams), set()
        todo = [j for j in tops if j not in (stop or ())]
        while todo:
            j = todo.pop()
            found.add(j)
            todo += [
                node - streams
                for node in self._inputs(j)
                if node >= streams and node - streams not in found and node - streams not in (stop or ())
            ]
        return [j for j in self.problem.graph.order if j in found]

    def _spring_graph(
        self, fresh: list[int], shared: dict[int, int], tops: tuple[int, ...], consumer: int
    ) -> Springs:
        streams, number = len(self.problem.streams), {j: k for k, j in enumerate(fresh)}
        links: list[tuple[int, int, float]] = []
        for j in fresh:
            for node in self._inputs(j):
                if node >= streams and node - streams in number:
                    links.append((number[node - streams], number[j], self._flow[node]))
                else:
                    source = ~node if node < streams else shared[node - streams]
                    site = self._source(source)[1]
                    if site >= 0:
                        links.append((~site, number[j], self._flow[node]))
            if j in tops:
                links.append((number[j], ~consumer, self._flow[streams + j]))
        ends = np.array([(a, b) for a, b, _ in links], dtype=np.int64).reshape(-1, 2)
        return Springs.of(len(fresh), ends[:, 0], ends[:, 1], np.array([rate for _, _, rate in links]))

    def _springs_at_rest(
        self, fresh: list[int], shared: dict[int, int], tops: tuple[int, ...], consumer: int
    ) -> Floats:
        springs = self._spring_graph(fresh, shared, tops, consumer)
        return virtual_positions(springs, self.space.embedding, self._rng, SpringParams())

    def _shareable(self, tops: tuple[int, ...], wanted_ms: dict[int, Floats]) -> dict[int, int]:
        """Operators that need not be started, and the instances that stand for them: the largest sub-queries
        first."""
        shared: dict[int, int] = {}
        todo, streams = list(tops), len(self.problem.streams)
        while todo and self._reuse:
            j = todo.pop()
            number = self._found_near(j, wanted_ms[j])
            if number is not None:
                shared[j] = number
            else:
                todo += [node - streams for node in self._inputs(j) if node >= streams]
        return shared

    def _found_near(self, j: int, point_ms: Floats) -> int | None:
        """A running equal of operator j at one of the k sites nearest to a point, the nearest if there are
        several."""
        running = self._running.get(self._signatures[j], [])
        if not running:
            return None
        region, _ = self.space.nearest(point_ms, self._mapping.candidates)
        rank = {site: k for k, site in enumerate(region.tolist())}
        near = [number for number in running if self.instances[number].site in rank]
        return min(near, key=lambda number: rank[self.instances[number].site], default=None)

    def _place(
        self, fresh: list[int], shared: dict[int, int], tops: tuple[int, ...], consumer: int
    ) -> dict[int, int]:
        if not fresh:
            return {}
        springs = self._spring_graph(fresh, shared, tops, consumer)
        virtual_ms = virtual_positions(springs, self.space.embedding, self._rng, SpringParams())
        mapper = Mapper(springs, virtual_ms, self.space, self._sites, self._mapping)
        for k, j in enumerate(fresh):
            pinned = self.problem.operators[j].site
            if pinned is not None:
                mapper.site_of[k] = self.problem.site_index[pinned]
            else:
                mapper.place(k)
        return {j: int(mapper.site_of[k]) for k, j in enumerate(fresh)}

    def _start(self, j: int, site: int, shared: dict[int, int]) -> None:
        streams = len(self.problem.streams)
        inputs = tuple(~node if node < streams else shared[node - streams] for node in self._inputs(j))
        self.instances[self._next] = Instance(self._next, j, site, inputs)
        self._running.setdefault(self._signatures[j], []).append(self._next)
        shared[j] = self._next
        self._next += 1

    def _mark(self, roots: tuple[int, ...], query: str) -> None:
        """Everything behind a query is in use by it."""
        todo = list(roots)
        while todo:
            instance = self.instances[todo.pop()]
            instance.queries.add(query)
            todo += [source for source in instance.inputs if source >= 0]
