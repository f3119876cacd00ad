"""A network coordinate: a point, a height, and how far it can be trusted.

The height stands for the access link that every path of a node has to take (section 5.4 of the Vivaldi
paper): the predicted latency is the distance of the points plus both heights. A coordinate is a value;
`VivaldiClient` owns one and replaces it with every measurement.
"""

from __future__ import annotations

import math

import msgspec


class Coordinate(msgspec.Struct, frozen=True):
    position_ms: tuple[float, ...]
    height_ms: float = 0.0
    error: float = 1.0
    """Running relative error of its predictions: 1 before anything was measured."""

    @property
    def confidence(self) -> float:
        """From 0, nothing known, to 1."""
        return 1.0 - min(max(self.error, 0.0), 1.0)

    def latency_ms(self, other: Coordinate) -> float:
        """Predicted latency between two nodes.

        >>> Coordinate((0.0, 3.0), 1.0).latency_ms(Coordinate((4.0, 0.0), 2.0))
        8.0
        """
        return math.dist(self.position_ms, other.position_ms) + self.height_ms + other.height_ms

    def unusable(self, dimensions: int, largest_ms: float) -> str | None:
        """Why this cannot be a coordinate, whoever sent it; None if it can."""
        if len(self.position_ms) != dimensions:
            return f"{len(self.position_ms)} dimensions, expected {dimensions}"
        if not all(math.isfinite(x) and abs(x) <= largest_ms for x in self.position_ms):
            return f"a position beyond {largest_ms:g} ms"
        if not 0.0 <= self.height_ms <= largest_ms:
            return f"a height of {self.height_ms} ms"
        if not 0.0 <= self.error < math.inf:
            return f"an error of {self.error}"
        return None
