"""The workload of section 4: chains of operators over feeds, every operator a query of its own.

The operator at level i of a chain of h is shared by h - i + 1 queries. The paper leaves rates, costs, limits
and capacities open. Here operators need about the same on average; limits are between 1.5 and 4 times the
direct latency and 20 ms; and all sites have the same capacity, so that together they are used to the share
asked for. Without that everything would fit on one site, and no bandwidth be used at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lab.networks.transit_stub import TransitStubParams, transit_stub
from mooring.arrays import Bools, Floats, Ints
from mooring.model.network.shipped import planetlab
from mooring.model.placement.placement import Placement
from mooring.model.problem.network import Network
from mooring.model.problem.operator import Operator
from mooring.model.problem.problem import Problem
from mooring.model.problem.query import Query
from mooring.model.problem.site import Site
from mooring.model.problem.stream import Stream

FEEDS, CHAINS, HEIGHT = 100, 100, 5
FEED_BYTES = 6_300.0
"""The average feed has 6.3 kB."""
LIMIT_TIMES, LIMIT_PLUS_MS = (1.5, 4.0), 20.0


@dataclass(frozen=True, eq=False)
class SharedChains:
    latency_ms: Floats
    source: Ints
    """Per chain, the site of its feed."""
    client: Ints
    """Chains x levels."""
    cores: Floats
    selectivity: Floats
    limit_ms: Floats
    capacity_cores: float

    @property
    def rate(self) -> Floats:
        """Tuples per second out of every operator; feeds have one."""
        return np.asarray(np.cumprod(self.selectivity, axis=1), dtype=np.float64)

    @property
    def utilisation(self) -> float:
        """What all operators need, as a share of what all sites have."""
        return float(self.cores.sum()) / self.capacity_cores / len(self.latency_ms)

    def problem(self, rate: float = 1.0) -> Problem:
        chains, height = self.cores.shape
        into = np.column_stack([np.ones(chains), self.rate[:, :-1]])
        operators, queries = [], []
        for c in range(chains):
            for i in range(height):
                reads = f"feed{c}" if i == 0 else f"o{c}_{i - 1}"
                cost_us = float(self.cores[c, i] / into[c, i] * 1e6)
                chosen = float(self.selectivity[c, i])
                operators.append(
                    Operator(name=f"o{c}_{i}", inputs=(reads,), cost_us=cost_us, selectivity=chosen)
                )
                site = f"n{self.client[c, i]}"
                limit_ms = float(self.limit_ms[c, i])
                queries.append(Query(name=f"q{c}_{i}", reads=f"o{c}_{i}", site=site, max_latency_ms=limit_ms))
        return Problem(
            sites=tuple(
                Site(name=f"n{v}", capacity=self.capacity_cores) for v in range(len(self.latency_ms))
            ),
            streams=tuple(
                Stream(name=f"feed{c}", rate=rate, site=f"n{self.source[c]}", bytes=FEED_BYTES)
                for c in range(chains)
            ),
            operators=tuple(operators),
            queries=tuple(queries),
            network=Network(latency_ms=self.latency_ms),
        )

    def possible(self) -> Bools:
        """Which queries could meet their limits if capacity were no matter, one after the other: T_i(v) =
        min over u of T_(i-1)(u) + d(u, v), dropping the v that violate query i."""
        chains, height = self.cores.shape
        found = np.zeros((chains, height), dtype=bool)
        for c in range(chains):
            reached = self.latency_ms[self.source[c]]
            for i in range(height):
                if i:
                    reached = (reached[:, None] + self.latency_ms).min(axis=0)
                on_time = reached + self.latency_ms[:, self.client[c, i]] <= self.limit_ms[c, i]
                found[c, i] = on_time.any()
                if found[c, i]:
                    reached = np.where(on_time, reached, np.inf)
        return found

    def random_sites(self, rng: np.random.Generator, threshold: float) -> Ints:
        """Random: every operator at a random site with enough CPU; -1 where no site has it."""
        left = np.full(len(self.latency_ms), threshold * self.capacity_cores)
        sites = np.full(self.cores.shape, -1, dtype=np.int64)
        for at in np.ndindex(self.cores.shape):
            roomy = np.flatnonzero(left >= self.cores[at])
            if len(roomy):
                sites[at] = rng.choice(roomy)
                left[sites[at]] -= self.cores[at]
        return sites

    def sites_of(self, placement: Placement) -> Ints:
        """Chains x levels; -1 where an operator was left out."""
        where = placement.as_dict()
        index = placement.problem.site_index
        height = self.cores.shape[1]
        found = [where.get(f"o{c}_{i}") for c, i in np.ndindex(self.cores.shape)]
        return np.array([-1 if at is None else index[at] for at in found]).reshape(-1, height)

    def admitted(self, placement: Placement) -> Bools:
        """Chains x levels."""
        names = {query.name for query in placement.problem.queries}
        found = [f"q{c}_{i}" in names for c, i in np.ndindex(self.cores.shape)]
        return np.array(found).reshape(self.cores.shape)

    def latencies_ms(self, sites: Ints) -> Floats:
        """Chains x levels, of every query whose operators are somewhere; infinite for the others."""
        found = np.full(sites.shape, np.inf)
        for c in range(len(sites)):
            at, reached = int(self.source[c]), 0.0
            for i, site in enumerate(sites[c].tolist()):
                if site < 0:
                    break
                reached += float(self.latency_ms[at, site])
                at = site
                found[c, i] = reached + self.latency_ms[site, self.client[c, i]]
        return found

    def bandwidth(self, sites: Ints, rate: float = 1.0) -> float:
        """As the paper counts it: bytes per second between operators at different sites."""
        apart = (sites[:, 1:] != sites[:, :-1]) & (sites[:, 1:] >= 0)
        return float(np.sum(self.rate[:, :-1] * apart) * rate * FEED_BYTES)

    def least_bandwidth(self, admitted: Bools, rate: float = 1.0) -> float:
        """The least that can flow between sites with what feeds send and queries receive, whatever limits and
        capacities: a site that an operator or a query waits at is sent one copy."""
        least = 0.0
        for c in range(len(admitted)):
            wanted = np.flatnonzero(admitted[c])
            sites = np.unique([self.source[c], *self.client[c]])
            so_far = (sites != self.source[c]) * 1.0
            for i in range(wanted[-1] + 1 if len(wanted) else 0):
                delivered = (sites != self.client[c, i]) & admitted[c, i]
                if i == wanted[-1]:
                    least += float((so_far + self.rate[c, i] * delivered).min())
                    break
                onward = sites[:, None] != sites
                twice = onward & delivered[:, None] & (sites == self.client[c, i])
                copies = onward * 1.0 + delivered[:, None] - twice
                so_far = (so_far[:, None] + self.rate[c, i] * copies).min(axis=0)
        return least * rate * FEED_BYTES


def draw_chains(
    sites: int, utilisation: float, seed: int, *, chains: int = CHAINS, of_sites: int | None = None
) -> SharedChains:
    """Feeds and clients at random sites. `utilisation`: of all sites, or of `of_sites` as large as these.

    What operators need and how much time queries leave depends on the seed alone, so that networks of several
    sizes meet one workload.
    """
    demand, ends = np.random.default_rng(seed), np.random.default_rng([seed, sites])
    latency_ms, shape = draw_network(sites, ends), (chains, HEIGHT)
    cores = demand.uniform(0.5, 1.5, size=shape)
    selectivity = demand.uniform(0.5, 1.0, size=shape)
    limit_times = demand.uniform(*LIMIT_TIMES, size=shape)
    source = ends.integers(sites, size=FEEDS)[demand.integers(FEEDS, size=chains)]
    client = ends.integers(sites, size=shape)
    limit_ms = limit_times * latency_ms[source[:, None], client] + LIMIT_PLUS_MS
    capacity_cores = float(cores.sum()) / utilisation / (of_sites or sites)
    return SharedChains(latency_ms, source, client, cores, selectivity, limit_ms, capacity_cores)


def draw_network(sites: int, rng: np.random.Generator) -> Floats:
    """PlanetLab nodes as far as there are any, a transit-stub network beyond."""
    measured = planetlab().one_way_ms()
    if sites <= len(measured):
        chosen = rng.permutation(len(measured))[:sites]
        return np.asarray(measured[np.ix_(chosen, chosen)])
    # A few more than needed: stub domains draw their sizes.
    params = TransitStubParams(stub_domains=max(sites // 9, 1))
    latency_ms = transit_stub(rng, params)[1].latency_ms
    chosen = rng.permutation(len(latency_ms))[:sites]
    return np.asarray(latency_ms[np.ix_(chosen, chosen)])
