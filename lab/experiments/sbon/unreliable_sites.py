"""Sites of which some are dead and some lie: about where they are, how far others are, or how much room they
have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mooring.arrays import Bools, Floats, Ints
from mooring.model.network.embedding import Embedding, embed, start_embedding
from mooring.model.network.vivaldi import VivaldiParams


@dataclass(frozen=True, eq=False)
class Deceit:
    """Who does what, per site."""

    dead: Bools
    displaced: Bools
    """Reports the coordinate of somewhere else, and great confidence in it."""
    delaying: Bools
    """Holds back its answers, so that it seems farther away than it is."""
    boasting: Bools
    """Claims to have room when it has none."""

    @classmethod
    def draw(cls, nodes: int, rng: np.random.Generator, dead: float, lying: float) -> Deceit:
        """Shares of all nodes; liars tell one kind of lie each."""
        order = rng.permutation(nodes)
        gone, liars = round(dead * nodes), round(lying * nodes)
        kinds = np.full(nodes, -1)
        kinds[order[:gone]] = 0
        kinds[order[gone : gone + liars]] = 1 + np.arange(liars) % 3
        return cls(*(kinds == kind for kind in range(4)))

    @property
    def honest(self) -> Bools:
        return ~(self.dead | self.displaced | self.delaying | self.boasting)

    def measured_ms(self, latency_ms: Floats, rng: np.random.Generator) -> Floats:
        """What measurements show: up to five times the truth where one end holds back its answers."""
        factor = np.where(self.delaying, 1.5 + 3.5 * rng.random(len(latency_ms)), 1.0)
        return np.asarray(latency_ms * np.maximum(factor[:, None], factor[None, :]))

    def embed(
        self, measured_ms: Floats, rng: np.random.Generator, distrust: float | None, params: VivaldiParams
    ) -> Embedding:
        """Coordinates among liars: the displaced name a random place from the start and never move.

        The dead still answered when the coordinates were formed, so they can be found, and fail on contact.
        """
        nodes = len(measured_ms)
        start = start_embedding(nodes, rng, params)
        spread = float(np.nanmedian(measured_ms))
        start.position_ms[self.displaced] = rng.normal(
            0.0, spread / 2, (int(self.displaced.sum()), params.dimensions)
        )
        start.error[self.displaced] = 0.01
        return embed(measured_ms, rng, params, start=start, frozen=self.displaced, distrust=distrust)


class UnreliableSites:
    """Sites with room for a few operators each, seen through a `Deceit`."""

    def __init__(self, deceit: Deceit, measured_ms: Floats, room: Ints) -> None:
        self._deceit, self._measured_ms = deceit, measured_ms
        self.room = np.where(deceit.boasting, 0, room)
        self._found_out = np.zeros(len(room), dtype=bool)

    def answering(self, sites: Ints) -> Bools:
        return np.asarray(~self._deceit.dead[sites])

    def measured_ms(self, sites: Ints, others: Ints) -> Floats:
        return self._measured_ms[np.ix_(others, sites)].T

    def running(self, operator: int) -> Ints:
        return np.empty(0, dtype=np.int64)

    def lacking(self, operator: int, sites: Ints) -> Bools:
        """As they claim; a boaster that was found out once is not asked again."""
        claimed = (self.room[sites] > 0) | (self._deceit.boasting[sites] & ~self._found_out[sites])
        return np.asarray(~claimed)

    def accept(self, operator: int, site: int) -> bool:
        if self.room[site] <= 0:
            self._found_out[site] = True
            return False
        self.room[site] -= 1
        return True
