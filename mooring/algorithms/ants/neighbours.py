"""The neighbours of a cell: consecutive sites of stated routes; else its nearest sites and some random
ones, all connected.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from mooring.model.problem.latencies import Coordinates, Latencies
from mooring.model.problem.network import Network

NEAREST, AT_RANDOM = 5, 2
BLOCK = 256
"""Sites whose latencies to all others are looked at together."""


def neighbours_of(network: Network, count: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Per site, its neighbours in order of their number; who knows someone is known there too."""
    latency_ms = network.latency_ms
    if latency_ms is None:
        latency_ms = Coordinates(np.zeros((count, 0)), np.zeros(count))
    pairs = _on_routes(network)
    if not pairs:
        pairs |= set(_nearest(latency_ms, min(NEAREST, count - 1)))
        for s in range(count):
            pairs |= {(s, int(other)) for other in rng.integers(count, size=AT_RANDOM)}
    known: list[set[int]] = [set() for _ in range(count)]
    for one, other in pairs:
        if one != other:
            known[one].add(other)
            known[other].add(one)
    _connect(known, latency_ms)
    return [tuple(sorted(own)) for own in known]


def _nearest(latency_ms: Latencies, most: int) -> Iterator[tuple[int, int]]:
    """Every site with its nearest; of equally near ones, those that come first."""
    for first in range(0, len(latency_ms), BLOCK):
        sites = np.arange(first, min(first + BLOCK, len(latency_ms)))
        away_ms = np.array(latency_ms[sites])
        rows = np.arange(len(sites))
        away_ms[rows, sites] = np.inf
        for _ in range(most):
            nearest = away_ms.argmin(axis=1)
            yield from zip(sites.tolist(), nearest.tolist(), strict=True)
            away_ms[rows, nearest] = np.inf


def _on_routes(network: Network) -> set[tuple[int, int]]:
    found: set[tuple[int, int]] = set()
    for (source, target), between in network.routes.items():
        found |= set(pairwise((source, *between, target)))
    return found


def _connect(known: list[set[int]], latency_ms: Latencies) -> None:
    """Join the parts by the nearest sites of two."""
    while True:
        reached = {0}
        ahead = [0]
        while ahead:
            new = known[ahead.pop()] - reached
            reached |= new
            ahead += sorted(new)
        others = sorted(set(range(len(known))) - reached)
        if not others:
            return
        inside = sorted(reached)
        between = latency_ms[np.ix_(inside, others)]
        one, other = np.unravel_index(int(np.argmin(between)), between.shape)
        known[inside[one]].add(others[other])
        known[others[other]].add(inside[one])
