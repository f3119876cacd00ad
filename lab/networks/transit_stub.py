"""Networks like the Internet of section 4.1: transit domains that carry traffic, and stub domains at their
edge.

Nodes lie on a plane and a link's latency is its length. Its routing weight follows policy instead: routes
stay inside a domain while they can, cross as few domains as possible, and never use a stub domain as a
shortcut. So routes are often longer than the shortest path, as in the topologies of the Georgia Tech
generator.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mooring.arrays import Floats, Ints
from mooring.errors import InputError
from mooring.model.network.routing import Routing, route
from mooring.model.network.topology import Topology


@dataclass(frozen=True)
class TransitStubParams:
    """Sizes are those of section 4.1; extents are relative to the plane on which the transit domains lie."""

    transit_domains: int = 10
    transit_nodes: int = 5
    """Nodes of each transit domain."""
    stub_domains: int = 150
    stub_nodes: int = 10
    """Nodes of a stub domain on average; each draws between half and one and a half times as many."""
    diameter_ms: float | None = 878.0
    """The longest routed latency after scaling; None leaves lengths as they are."""
    transit_extent: float = 0.15
    """How far the nodes of a transit domain spread around its centre."""
    stub_distance: float = 0.12
    """How far a stub domain lies from its transit node."""
    stub_extent: float = 0.06
    """How far the nodes of a stub domain spread around its centre."""
    transit_peering: float = 0.2
    """How likely two transit domains are linked directly, beyond a spanning tree."""
    transit_links: float = 0.5
    """The same for two nodes of one transit domain."""
    stub_links: float = 0.15
    """The same for two nodes of one stub domain."""

    def __post_init__(self) -> None:
        counts = (self.transit_domains, self.transit_nodes, self.stub_nodes)
        if min(counts) < 1 or self.stub_domains < 0:
            raise InputError(f"found sizes {counts}, expected at least 1 of each", field="transit_stub")
        if self.diameter_ms is not None and not 0 < self.diameter_ms < float("inf"):
            raise InputError(f"is {self.diameter_ms}, expected milliseconds", field="diameter_ms")


# Routing weights: one domain crossing outweighs any route inside domains, and entering a stub domain
# outweighs crossing all transit domains, so that a stub domain is never on the way.
_INSIDE, _BETWEEN_TRANSIT, _TO_STUB = 1.0, 100.0, 10_000.0


def transit_stub(
    rng: np.random.Generator, params: TransitStubParams | None = None
) -> tuple[Topology, Routing]:
    """A random topology and its routes, scaled to the diameter."""
    topology = _draw(rng, params := params or TransitStubParams())
    routing = route(topology)
    if params.diameter_ms is None:
        return topology, routing
    factor = params.diameter_ms / float(routing.latency_ms.max())
    return topology.scaled(factor), Routing(routing.latency_ms * factor, routing.before)


class _Links:
    def __init__(self, rng: np.random.Generator) -> None:
        self.ends: list[tuple[int, int]] = []
        self.weights: list[float] = []
        self._rng = rng

    def add(self, a: int, b: int, weight: float) -> None:
        """A little noise on the weight makes the best route unique, so that it is the same both ways."""
        self.ends.append((a, b))
        self.weights.append(weight * (1.0 + 0.5 * self._rng.random()))

    def connect(self, members: Ints, place: Floats, weight: float, extra: float) -> None:
        """A domain: a spanning tree that prefers near nodes, and some links beyond it."""
        near = np.linalg.norm(place[members][:, None] - place[members][None], axis=2)
        for k in range(1, len(members)):
            self.add(int(members[k]), int(members[np.argmin(near[k, :k])]), weight)
        for i in range(len(members)):
            for j in range(i):
                if self._rng.random() < extra:
                    self.add(int(members[i]), int(members[j]), weight)


def _draw(rng: np.random.Generator, params: TransitStubParams) -> Topology:
    inner, extent = params.transit_nodes, params.transit_extent
    transit_count = params.transit_domains * inner
    centres = rng.random((params.transit_domains, 2))
    transit_domain = np.repeat(np.arange(params.transit_domains), inner)
    place = [centres[transit_domain] + extent * rng.standard_normal((transit_count, 2)) / 2]
    sizes = _stub_sizes(rng, params)
    gateways = np.arange(params.stub_domains) % transit_count
    angle = rng.random(params.stub_domains) * 2 * np.pi
    away = params.stub_distance * (0.3 + 0.7 * rng.random(params.stub_domains))
    stub_centres = place[0][gateways] + away[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    stub_of = np.repeat(np.arange(params.stub_domains), sizes)
    place.append(stub_centres[stub_of] + params.stub_extent * rng.standard_normal((len(stub_of), 2)) / 2)
    where = np.concatenate(place)
    domain = np.concatenate([transit_domain, params.transit_domains + stub_of])
    links = _Links(rng)
    _link_transit(links, where, params)
    for stub in range(params.stub_domains):
        members = np.flatnonzero(domain == params.transit_domains + stub)
        links.connect(members, where, _INSIDE, params.stub_links)
        links.add(int(rng.choice(members)), int(gateways[stub]), _TO_STUB)
    ends = np.array(links.ends, dtype=np.int64)
    latency = np.linalg.norm(where[ends[:, 0]] - where[ends[:, 1]], axis=1)
    transit = np.arange(len(domain)) < transit_count
    names = tuple(f"{'transit' if transit[i] else 'stub'}-{domain[i]}-{i}" for i in range(len(domain)))
    return Topology(names, ends, latency, np.array(links.weights), domain, transit)


def _stub_sizes(rng: np.random.Generator, params: TransitStubParams) -> Ints:
    """Sizes that differ, but add up: every topology of these parameters has the same number of nodes."""
    spread = params.stub_nodes // 2
    sizes = params.stub_nodes + rng.integers(-spread, spread + 1, params.stub_domains)
    while excess := int(sizes.sum()) - params.stub_nodes * params.stub_domains:
        moved = rng.permutation(params.stub_domains)[: abs(excess)]
        sizes[moved] = np.maximum(sizes[moved] - np.sign(excess), 1)
    return sizes.astype(np.int64)


def _link_transit(links: _Links, where: Floats, params: TransitStubParams) -> None:
    """Links inside every transit domain, and between the nearest nodes of some pairs of domains."""
    inner, count = params.transit_nodes, params.transit_domains
    members = [np.arange(d * inner, (d + 1) * inner) for d in range(count)]
    centres = np.array([where[own].mean(axis=0) for own in members])
    for own in members:
        links.connect(own, where, _INSIDE, params.transit_links)
    pairs = _Links(links._rng)
    pairs.connect(np.arange(count), centres, _BETWEEN_TRANSIT, params.transit_peering)
    for a, b in dict.fromkeys(pairs.ends):
        apart = np.linalg.norm(where[members[a]][:, None] - where[members[b]][None], axis=2)
        i, j = np.unravel_index(int(np.argmin(apart)), apart.shape)
        links.add(int(members[a][i]), int(members[b][j]), _BETWEEN_TRANSIT)
