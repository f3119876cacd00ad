"""The queries of section 4.1 in arrays: some producers, one join-and-select operator, one consumer; many at
once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mooring.algorithms.relaxation.mapping import Contacts, Mapper, MappingParams, MappingReport, OpenSites
from mooring.algorithms.relaxation.spring_params import SpringParams
from mooring.algorithms.relaxation.springs import Springs, virtual_positions
from mooring.arrays import Floats, Ints
from mooring.model.network.cost_space import CostSpace
from mooring.model.network.routing import Routing


@dataclass(frozen=True, eq=False)
class StarQueries:
    producers: Ints
    """Queries x producers: the node of each."""
    consumers: Ints
    producer_rate: float = 2000.0
    """Bytes per second of each producer (section 4.1: 2 KB/s)."""
    selectivity: float = 1.0 / 8.0
    """Output bytes per input byte (section 4.1: 8:1)."""

    @classmethod
    def draw(cls, count: int, nodes: int, rng: np.random.Generator, producers: int = 4) -> StarQueries:
        """Ends at random, all of a query on different nodes."""
        ends = np.argsort(rng.random((count, nodes)), axis=1)[:, : producers + 1]
        return cls(ends[:, :producers].astype(np.int64), ends[:, producers].astype(np.int64))

    def __len__(self) -> int:
        return len(self.consumers)

    @property
    def consumer_rate(self) -> float:
        return float(self.producer_rate * self.producers.shape[1] * self.selectivity)

    def springs(self) -> Springs:
        operators, width = np.arange(len(self)), self.producers.shape[1]
        sources = np.concatenate([~self.producers.ravel(), operators])
        targets = np.concatenate([np.repeat(operators, width), ~self.consumers])
        rates = np.concatenate(
            [np.full(width * len(self), self.producer_rate), np.full(len(self), self.consumer_rate)]
        )
        return Springs.of(len(self), sources, targets, rates)

    def usage(self, latency_ms: Floats, sites: Ints) -> Floats:
        """Bytes in flight per query with its operator at the given site."""
        into = latency_ms[self.producers, sites[:, None]].sum(axis=1) * self.producer_rate
        return np.asarray((into + latency_ms[sites, self.consumers] * self.consumer_rate) / 1e3)

    def delay_penalty(self, latency_ms: Floats, sites: Ints) -> Floats:
        """Longest way over the operator, relative to the longest direct way to the consumer, less 1."""
        through = latency_ms[self.producers, sites[:, None]].max(axis=1) + latency_ms[sites, self.consumers]
        direct = latency_ms[self.producers, self.consumers[:, None]].max(axis=1)
        return np.asarray(through / direct - 1.0)

    def optimal(self, latency_ms: Floats) -> Ints:
        """The best site for every query, by trying all."""
        best = np.empty(len(self), dtype=np.int64)
        for q in range(len(self)):
            into = latency_ms[self.producers[q]].sum(axis=0) * self.producer_rate
            best[q] = np.argmin(into + latency_ms[:, self.consumers[q]] * self.consumer_rate)
        return best

    def ip_multicast(self, routing: Routing) -> Ints:
        """The best node that lies on the routes from all producers to the consumer."""
        chosen = np.empty(len(self), dtype=np.int64)
        for q, consumer in enumerate(self.consumers.tolist()):
            routes = [routing.route(int(producer), consumer) for producer in self.producers[q]]
            on_all = np.array(sorted(set(routes[0]).intersection(*routes[1:])))
            into = routing.latency_ms[np.ix_(self.producers[q], on_all)].sum(axis=0) * self.producer_rate
            cost = into + routing.latency_ms[on_all, consumer] * self.consumer_rate
            chosen[q] = on_all[np.argmin(cost)]
        return chosen

    def relaxation(
        self,
        latency_ms: Floats,
        space: CostSpace,
        rng: np.random.Generator,
        params: MappingParams | None = None,
        sites: Contacts | None = None,
    ) -> tuple[Ints, MappingReport]:
        """Every query's operator placed in turn by relaxation and mapping."""
        springs = self.springs()
        virtual_ms = virtual_positions(springs, space.embedding, rng, SpringParams())
        mapper = Mapper(springs, virtual_ms, space, sites or OpenSites(latency_ms), params or MappingParams())
        for query in range(len(self)):
            mapper.place(query)
        return mapper.site_of, mapper.report
