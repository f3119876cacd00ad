"""A cell: per destination, with what probability each neighbour is the next on the way, and what trips take.

Sections 3.3 to 3.5 of the ants paper. Trips that are not good are not counted; pheromones that are not
renewed decay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from mooring.algorithms.ants import rules
from mooring.algorithms.ants.ant_params import AntParams


@dataclass
class Trail:
    """To one destination."""

    weights: list[float]
    renewed_ms: float
    mean_s: float = 0.0
    variance: float = 0.0
    best_s: float = 0.0
    trips: int = 0


class Cell:
    def __init__(
        self,
        neighbours: Sequence[int],
        params: AntParams,
        forgotten_ms: float,
        through_s: Callable[[int], Sequence[float] | None] = lambda destination: None,
    ) -> None:
        """through_s: per neighbour the latency to a destination by way of it; None: not known."""
        self.neighbours = tuple(neighbours)
        self.trails: dict[int, Trail] = {}
        self._params, self._forgotten_ms, self._through_s = params, forgotten_ms, through_s

    def trail(self, destination: int, now_ms: float) -> Trail:
        """As at first where no ant has been, or too long ago."""
        found = self.trails.get(destination)
        if found is None or now_ms - found.renewed_ms > self._forgotten_ms:
            found = self.trails[destination] = Trail(self._first_weights(destination), now_ms)
        return found

    def _first_weights(self, destination: int) -> list[float]:
        through_s = self._through_s(destination)
        if through_s is None:
            return [1.0 / len(self.neighbours)] * len(self.neighbours)
        return list(rules.first_weights(through_s, self._params.sharpness))

    def forget(self, now_ms: float) -> None:
        """Give up all trails that nobody has renewed."""
        old = [d for d, trail in self.trails.items() if now_ms - trail.renewed_ms > self._forgotten_ms]
        for destination in old:
            del self.trails[destination]

    def next_hop(
        self, destination: int, visited: Collection[int], state: int, now_ms: float, astray: float = 0.0
    ) -> tuple[int, int]:
        """A neighbour by the pheromones, not visited yet if there is one; and the state of the generator.

        astray: so much of the choice is left to chance."""
        trail = self.trail(destination, now_ms)
        is_open = [other not in visited for other in self.neighbours]
        if not any(is_open):
            is_open = [True] * len(self.neighbours)
        state = rules.next_random(state)
        slot = rules.slot_of(trail.weights, is_open, state / rules.MODULUS, astray)
        return self.neighbours[slot], state

    def reinforce(self, destination: int, through: int, trip_s: float, now_ms: float) -> None:
        """Equations 1 and 2, with r = c T_best / T."""
        trail, params = self.trail(destination, now_ms), self._params
        if through not in self.neighbours or not rules.is_good_trip(
            trip_s, trail.mean_s, trail.variance, trail.trips, params.trusted_trips, params.confidence
        ):
            return
        trail.best_s = trip_s if trail.trips == 0 else min(trail.best_s, trip_s)
        trail.mean_s, trail.variance = rules.with_trip(trip_s, trail.mean_s, trail.variance, trail.trips)
        trail.trips += 1
        trail.renewed_ms = now_ms
        strength = params.strength * trail.best_s / trip_s if trip_s > 0.0 else params.strength
        trail.weights = [
            rules.reinforced(weight, strength, other == through)
            for other, weight in zip(self.neighbours, trail.weights, strict=True)
        ]

    def discourage(self, destination: int, through: int, now_ms: float) -> None:
        """Scouts of different greediness failed on this way."""
        if not self.neighbours:
            return
        trail = self.trail(destination, now_ms)
        weakened = [
            rules.reinforced(weight, -self._params.discouraged, other == through)
            for other, weight in zip(self.neighbours, trail.weights, strict=True)
        ]
        total = 0.0
        for weight in weakened:
            total += weight
        trail.weights = [weight / total for weight in weakened]
