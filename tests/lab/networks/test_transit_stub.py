"""Generated networks look like those of section 4.1."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from lab.networks.transit_stub import TransitStubParams, transit_stub
from mooring.errors import InputError
from mooring.model.network.routing import route
from mooring.model.network.topology import Topology

SMALL = TransitStubParams(transit_domains=3, transit_nodes=3, stub_domains=12, stub_nodes=6)


def test_the_papers_network_has_1550_nodes_and_a_diameter_of_878_ms() -> None:
    topology, routing = transit_stub(np.random.default_rng(0))
    assert topology.node_count == 1550
    assert len(np.unique(topology.domain)) == 160
    assert routing.latency_ms.max() == pytest.approx(878.0)
    sizes = np.bincount(topology.domain)[10:]
    assert sizes.min() < 10 < sizes.max()


def test_routes_are_the_same_both_ways_and_often_longer_than_the_shortest_path() -> None:
    topology, routing = transit_stub(np.random.default_rng(1), SMALL)
    assert np.allclose(routing.latency_ms, routing.latency_ms.T)
    nodes = topology.node_count
    by_latency = route(Topology(**{**vars(topology), "weight": topology.latency_ms + 1e-9}))
    assert np.all(routing.latency_ms >= by_latency.latency_ms - 1e-6)
    longer = routing.latency_ms > 1.01 * by_latency.latency_ms
    assert 0.05 < longer.sum() / nodes**2 < 0.9


def test_no_route_passes_through_a_stub_domain_of_others() -> None:
    topology, routing = transit_stub(np.random.default_rng(2), SMALL)
    rng = np.random.default_rng(0)
    for start, end in rng.integers(topology.node_count, size=(200, 2)).tolist():
        own = {topology.domain[start], topology.domain[end]}
        for node in routing.route(start, end):
            assert topology.transit[node] or topology.domain[node] in own


def test_the_latency_of_a_route_is_the_sum_of_its_links() -> None:
    topology, routing = transit_stub(np.random.default_rng(3), SMALL)
    link: dict[tuple[int, int], list[float]] = {}
    for (a, b), latency in zip(topology.ends.tolist(), topology.latency_ms.tolist(), strict=True):
        for key in ((a, b), (b, a)):
            link.setdefault(key, []).append(latency)
    rng = np.random.default_rng(0)
    for start, end in rng.integers(topology.node_count, size=(100, 2)).tolist():
        way = routing.route(start, end)
        assert way[0] == start
        assert way[-1] == end
        bounds = [sum(pick(link[pair]) for pair in pairwise(way)) for pick in (min, max)]
        assert bounds[0] - 1e-6 <= routing.latency_ms[start, end] <= bounds[1] + 1e-6


def test_nodes_without_a_route_are_named() -> None:
    ends = np.array([[0, 1]])
    lonely = Topology(("a", "b", "c"), ends, np.ones(1), np.ones(1), np.zeros(3, np.int64), np.ones(3, bool))
    with pytest.raises(InputError, match="'a' to 'c'"):
        route(lonely)
