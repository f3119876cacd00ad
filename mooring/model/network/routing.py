"""Routes by weight, and the latencies along them, between all pairs of thousands of nodes in seconds.

The routes from one source form a tree. Adding latencies from every node up to its root takes as many doubling
steps as the logarithm of the longest route, for all sources at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from mooring.arrays import Floats, Ints, Ints32
from mooring.errors import InputError
from mooring.model.network.topology import Topology

_SOURCES_AT_ONCE = 512
"""Bounds the memory of the doubling steps."""


@dataclass(frozen=True, eq=False)
class Routing:
    latency_ms: Floats
    """From node i to node j along the route, one way."""
    before: Ints32
    """The node before j on the route from i; i itself where i = j."""

    def route(self, start: int, end: int) -> tuple[int, ...]:
        """All nodes on the way, both ends included."""
        back = [end]
        while back[-1] != start:
            back.append(int(self.before[start, back[-1]]))
        return tuple(reversed(back))


def route(topology: Topology) -> Routing:
    """Routes with the least total weight. Every node must be reachable."""
    nodes = topology.node_count
    latency_of, weight_of = _link_matrices(topology)
    latency_ms = np.empty((nodes, nodes))
    before = np.empty((nodes, nodes), dtype=np.int32)
    for first in range(0, nodes, _SOURCES_AT_ONCE):
        sources = np.arange(first, min(nodes, first + _SOURCES_AT_ONCE))
        distance, previous = dijkstra(weight_of, indices=sources, return_predecessors=True)
        if not np.all(np.isfinite(distance)):
            lost = np.argwhere(~np.isfinite(distance))[0]
            raise InputError(
                f"found no route from {topology.names[sources[lost[0]]]!r} to {topology.names[lost[1]]!r}",
                field="links",
                remedy="connect the topology",
            )
        previous[np.arange(len(sources)), sources] = sources
        before[sources] = previous
        latency_ms[sources] = _along_routes(latency_of, sources, previous)
    return Routing(latency_ms, before)


def _link_matrices(topology: Topology) -> tuple[csr_array, csr_array]:
    """Latency and weight of the best link (by weight) between each pair of neighbours, as equal patterns."""
    nodes = topology.node_count
    a = np.concatenate([topology.ends[:, 0], topology.ends[:, 1]])
    b = np.concatenate([topology.ends[:, 1], topology.ends[:, 0]])
    weight, latency = np.tile(topology.weight, 2), np.tile(topology.latency_ms, 2)
    order = np.lexsort((latency, weight, a * nodes + b))
    first = np.ones(len(order), dtype=bool)
    first[1:] = np.diff((a * nodes + b)[order]) > 0
    kept = order[first]
    shape = (nodes, nodes)
    # A stored zero would mean "no link" to csgraph and vanish from sums; nothing is that fast.
    latency_of = csr_array((np.maximum(latency[kept], 1e-9), (a[kept], b[kept])), shape=shape)
    return latency_of, csr_array((weight[kept], (a[kept], b[kept])), shape=shape)


def _along_routes(latency_of: csr_array, sources: Ints, previous: Ints32) -> Floats:
    nodes = previous.shape[1]
    columns = np.broadcast_to(np.arange(nodes), previous.shape)
    total = np.asarray(latency_of[previous.ravel(), columns.ravel()]).reshape(previous.shape)
    total[np.arange(len(sources)), sources] = 0.0
    ahead = previous.astype(np.int64)
    while True:
        further = np.take_along_axis(ahead, ahead, axis=1)
        total = total + np.take_along_axis(total, ahead, axis=1)
        if np.array_equal(further, ahead):
            return np.asarray(total)
        ahead = further
