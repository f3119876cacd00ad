"""Baselines of the SBON paper (section 4.1): operators at the producer, at the consumer, or on the routes
between them. If a baseline's site has no room, the nearest site with room takes the operator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mooring.algorithms.relaxation.springs import problem_springs
from mooring.arrays import Ints
from mooring.contracts.policy import Context
from mooring.model.evaluation.explanation import Subject
from mooring.model.placement.placement import Placement
from mooring.model.placement.site_limits import SiteLimits, first_that_fits, no_room
from mooring.model.problem.problem import Problem

Wanted = Callable[[int], int]


class _Ends:
    """Per fragment: the sites its data comes from and those it goes to in the end."""

    def __init__(self, problem: Problem) -> None:
        graph, index = problem.graph, problem.site_index
        streams = graph.stream_count
        sources: list[set[int]] = [{index[s.site]} if s.site else set() for s in problem.streams]
        sources += [set() for _ in problem.operators]
        targets: list[set[int]] = [set() for _ in sources]
        for query in problem.queries:
            for node in problem.nodes_by_name[query.reads]:
                targets[node].add(index[query.site])
        for j in graph.order:
            sources[streams + j].update(*(sources[node] for port in graph.ports[j] for node in port))
        for j in reversed(graph.order):
            targets[streams + j].update(*(targets[streams + r] for r in graph.readers[streams + j]))
        self.producers = [
            sorted(set().union(*(sources[streams + j] for j in own))) for own in problem.fragments
        ]
        self.consumers = [
            sorted(set().union(*(targets[streams + j] for j in own))) for own in problem.fragments
        ]


def _place(problem: Problem, context: Context, wanted: Wanted) -> Placement:
    model = context.load
    latency_ms = problem.network.latency_ms
    count = len(problem.sites)
    distance = np.zeros((count, count)) if latency_ms is None else latency_ms
    choice = [wanted(fragment) for fragment in range(model.fragment_count)]

    def attempt(order: Ints) -> Ints:
        limits, sites = SiteLimits(model), np.empty(model.fragment_count, dtype=np.int64)
        for fragment in order.tolist():
            allowed = np.flatnonzero(limits.allowed(fragment))
            if not len(allowed):
                raise no_room(model, fragment, limits.capacity_left_cores, limits.memory_left_mb, problem)
            chosen = choice[fragment]
            if chosen not in allowed:
                chosen = int(allowed[np.argmin(distance[chosen, allowed])])
            sites[fragment] = chosen
            limits.take(fragment, chosen)
        return sites

    return Placement(problem, first_that_fits(model, np.arange(model.fragment_count), attempt))


@dataclass(frozen=True)
class Producer:
    """Policy `producer`: every fragment at one of the sites its streams come from, by chance."""

    name: ClassVar[str] = "producer"
    as_published: ClassVar[bool] = True
    about: ClassVar[Subject] = "network"

    def unsupported(self, problem: Problem) -> str | None:
        return None if any(s.site for s in problem.streams) else "no stream states its site"

    def place(self, problem: Problem, context: Context) -> Placement:
        ends, sites = _Ends(problem), len(problem.sites)

        def wanted(fragment: int) -> int:
            own = ends.producers[fragment]
            return int(context.rng.choice(own)) if own else int(context.rng.integers(sites))

        return _place(problem, context, wanted)


@dataclass(frozen=True)
class Consumer:
    """Policy `consumer`: every fragment at the site of a query it serves, the first where there are
    several."""

    name: ClassVar[str] = "consumer"
    as_published: ClassVar[bool] = True
    about: ClassVar[Subject] = "network"

    def unsupported(self, problem: Problem) -> str | None:
        return None if problem.queries else "it has no queries"

    def place(self, problem: Problem, context: Context) -> Placement:
        ends, sites = _Ends(problem), len(problem.sites)

        def wanted(fragment: int) -> int:
            own = ends.consumers[fragment]
            return own[0] if own else int(context.rng.integers(sites))

        return _place(problem, context, wanted)


@dataclass(frozen=True)
class IpMulticast:
    """Policy `ip_multicast`: the best site on all routes from a fragment's streams to its query.

    A route that the problem does not state leads there directly, so that only the query's site is on all of
    them.
    """

    name: ClassVar[str] = "ip_multicast"
    as_published: ClassVar[bool] = True
    about: ClassVar[Subject] = "network"

    def unsupported(self, problem: Problem) -> str | None:
        if problem.network.latency_ms is None and len(problem.sites) > 1:
            return "it states no latency_ms between its sites"
        return None if problem.queries else "it has no queries"

    def place(self, problem: Problem, context: Context) -> Placement:
        ends, springs = _Ends(problem), problem_springs(problem, context.load.pinned_site)
        count = len(problem.sites)
        stated = problem.network.latency_ms
        latency_ms = np.zeros((count, count)) if stated is None else stated
        sites = context.load.pinned_site.copy()

        def wanted(fragment: int) -> int:
            consumer = ends.consumers[fragment][0] if ends.consumers[fragment] else 0
            on_all = {consumer, *range(count)} if not ends.producers[fragment] else None
            for producer in ends.producers[fragment]:
                way = {producer, consumer, *problem.network.routes.get((producer, consumer), ())}
                on_all = way if on_all is None else on_all & way
            own = springs.of_operator(fragment)
            other = springs.other[own]
            there = sites[np.maximum(other, 0)]
            # Readers that are not placed yet are on the way to the consumer.
            known = np.where(other < 0, ~other, np.where(there >= 0, there, consumer))
            candidates = np.array(sorted(on_all or {consumer}))
            cost = latency_ms[np.ix_(candidates, known)] @ springs.rate[own]
            sites[fragment] = candidates[np.argmin(cost)]
            return int(sites[fragment])

        return _place(problem, context, wanted)
