"""The network monitor: latencies measured to a few sites, inferred through coordinates elsewhere.

A site measures the sites of its queries, and a few neighbours in turn for its coordinate. Of pairs with a
reported measurement, it takes that; of all others the distance of their coordinates, with the error that
these have shown so far. A site without figures is taken to be far away. Where a latency is stated, that
counts in place of what is measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from mooring.arrays import Floats, Ints
from mooring.model.network.coordinate import Coordinate
from mooring.model.network.latency_filter import FilterParams, LatencyFilter
from mooring.model.network.vivaldi import VivaldiClient, VivaldiParams

UNKNOWN_MS = 1e6
"""Of a site of which not even a coordinate is known."""
MOST_PAIRS = 20_000
"""Measured pairs remembered; the oldest are forgotten."""


class LatencyEstimate(msgspec.Struct, frozen=True):
    latency_ms: float
    error_ms: float
    """How far off it may well be; zero for what was measured."""
    measured: bool


class NetworkMonitor:
    """What one site knows of the latencies between all. Fulfils `Latencies`."""

    def __init__(
        self, site: int, rng: np.random.Generator, params: VivaldiParams, start: Coordinate | None = None
    ) -> None:
        self._site = site
        self._vivaldi = VivaldiClient(rng, params)
        if start is not None:
            self._vivaldi.coordinate = start
        self._places: dict[int, Coordinate] = {}
        self._rows: dict[int, int] = {}
        self._positions_ms: Floats = np.zeros((8, params.dimensions))
        """Of the places, in the order in which sites became known."""
        self._pairs: dict[tuple[int, int], LatencyFilter] = {}
        self._filter: FilterParams = params.filter
        self._stated_ms: dict[int, float] = {}
        """From this site to others."""

    @property
    def coordinate(self) -> Coordinate:
        return self._vivaldi.coordinate

    @property
    def known_positions_ms(self) -> Floats:
        """Of other sites, a row each."""
        return self._positions_ms[: len(self._rows)]

    def place_of(self, site: int) -> Coordinate | None:
        return self.coordinate if site == self._site else self._places.get(site)

    def state(self, latency_ms: Sequence[float]) -> None:
        """From this site to each, one way; below zero: not stated. It counts from the next measurement on."""
        self._stated_ms = {site: ms for site, ms in enumerate(latency_ms) if ms >= 0.0}
        for site in self._stated_ms:
            self._pairs.pop((min(self._site, site), max(self._site, site)), None)

    def measured(self, peer: int, sample_ms: float, theirs: Coordinate) -> None:
        """A measurement of this site's own."""
        if peer != self._site:
            sample_ms = self._stated_ms.get(peer, sample_ms)
            self._vivaldi.observe(peer, sample_ms, theirs)
            self.learn_place(peer, theirs)
            # Zero is no use to a coordinate, but it is a latency.
            if sample_ms == 0.0 or self._vivaldi.params.refused(sample_ms) is None:
                self.learn_pair(self._site, peer, sample_ms)

    def learn_place(self, site: int, coordinate: Coordinate) -> None:
        if site == self._site or self._places.get(site) == coordinate:
            return
        params = self._vivaldi.params
        if coordinate.unusable(params.dimensions, params.largest_latency_ms) is None:
            self._places[site] = coordinate
            row = self._rows.setdefault(site, len(self._rows))
            if row == len(self._positions_ms):
                self._positions_ms = np.concatenate([self._positions_ms, np.zeros_like(self._positions_ms)])
            self._positions_ms[row] = coordinate.position_ms

    def learn_pair(self, one: int, other: int, latency_ms: float) -> None:
        """What somebody measured between two sites."""
        key = min(one, other), max(one, other)
        if key not in self._pairs and len(self._pairs) >= MOST_PAIRS:
            del self._pairs[next(iter(self._pairs))]
        self._pairs.setdefault(key, LatencyFilter(self._filter)).add(latency_ms)

    def estimate(self, one: int, other: int) -> LatencyEstimate:
        if one == other:
            return LatencyEstimate(0.0, 0.0, True)
        known = self._pairs.get((min(one, other), max(one, other)))
        if known is not None:
            return LatencyEstimate(known.value, 0.0, True)
        start, end = self.place_of(one), self.place_of(other)
        if start is None or end is None:
            return LatencyEstimate(UNKNOWN_MS, UNKNOWN_MS, False)
        apart_ms = start.latency_ms(end)
        return LatencyEstimate(apart_ms, apart_ms * max(start.error, end.error), False)

    def between_ms(self, starts: Ints, ends: Ints) -> Floats:
        """What `estimate` says, without saying how sure it is: plans ask for thousands."""
        pairs, to = self._pairs, [(other, self.place_of(other)) for other in ends.tolist()]
        found: list[float] = []
        for one in starts.tolist():
            start = self.place_of(one)
            for other, end in to:
                if one == other:
                    found.append(0.0)
                elif (known := pairs.get((one, other) if one < other else (other, one))) is not None:
                    found.append(known.value)
                elif start is None or end is None:
                    found.append(UNKNOWN_MS)
                else:
                    apart_ms = math.dist(start.position_ms, end.position_ms)
                    found.append(apart_ms + start.height_ms + end.height_ms)
        return np.array(found, dtype=np.float64).reshape(len(starts), len(ends))
