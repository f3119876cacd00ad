"""A site's view of the others: its own coordinate by Vivaldi, theirs, and their spare cores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mooring.algorithms.relaxation.machines.review import Neighbourhood
from mooring.model.network.coordinate import Coordinate
from mooring.model.network.vivaldi import VivaldiClient, VivaldiParams


class KnownSites:
    def __init__(
        self, site: int, sites: int, generator: np.random.Generator, params: VivaldiParams, load_ms: float
    ) -> None:
        self._site, self._sites = site, sites
        self._generator, self._params, self._load_ms = generator, params, load_ms
        self._vivaldi = VivaldiClient(generator, params)
        self._peers: dict[int, tuple[Coordinate, float]] = {}
        """Site -> coordinate and spare cores, as it last said."""
        self._to_visit: list[int] = []
        self._stated_ms: dict[int, float] = {}

    @property
    def coordinate(self) -> Coordinate:
        return self._vivaldi.coordinate

    def next_to_measure(self) -> int | None:
        """All other sites in turn, in an order that is drawn anew for every tour; None if there are none."""
        if not self._to_visit:
            others = [peer for peer in range(self._sites) if peer != self._site]
            self._to_visit = [others[i] for i in self._generator.permutation(len(others)).tolist()]
        return self._to_visit.pop() if self._to_visit else None

    def state(self, latency_ms: Sequence[float]) -> None:
        """Latencies to all sites in their order that count whatever is measured; negative: none does."""
        if len(latency_ms) == self._sites:
            stated = {peer: ms for peer, ms in enumerate(latency_ms) if ms >= 0.0 and peer != self._site}
            for peer in self._stated_ms.keys() | stated.keys():
                if self._stated_ms.get(peer) != stated.get(peer):
                    self._vivaldi.forget(peer)
            self._stated_ms = stated

    def learn(self, peer: int, latency_ms: float, coordinate: Coordinate, spare_cores: float) -> None:
        if peer in self._stated_ms:
            latency_ms = max(self._stated_ms[peer], self._params.least_latency_ms)
        self._vivaldi.observe(peer, latency_ms, coordinate)
        if coordinate.unusable(self._params.dimensions, self._params.largest_latency_ms) is None:
            self._peers[peer] = (coordinate, spare_cores)

    def latencies_ms(self, ends: Sequence[int]) -> tuple[float, ...]:
        """As stated, or measured from here; zero to this site itself, -1 where nothing is known."""
        return tuple(0.0 if end == self._site else self._latency_ms(end) for end in ends)

    def _latency_ms(self, peer: int) -> float:
        if peer in self._stated_ms:
            return self._stated_ms[peer]
        measured = self._vivaldi.latency_ms(peer)
        return -1.0 if measured is None else measured

    def knows(self, ends: Sequence[int]) -> bool:
        """Whether the coordinates of all of these are known, and of at least one site besides this one."""
        return len(self._peers) > 0 and all(end == self._site or end in self._peers for end in ends)

    def neighbourhood(self, spare_cores: float) -> Neighbourhood:
        """The cost space as it looks from here, this site having so many cores to spare."""
        known = {peer: at for peer, (at, _) in self._peers.items()}
        spare = {peer: cores for peer, (_, cores) in self._peers.items()}
        return Neighbourhood(
            {**known, self._site: self.coordinate}, {**spare, self._site: spare_cores}, self._load_ms
        )
