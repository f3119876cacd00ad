"""Latencies between sites: a matrix, or coordinates from which they are computed where they are needed.

Both are indexed alike: `latency_ms[a, b]` for pairs (numbers or arrays that broadcast), `latency_ms[a]` for
rows.
A matrix of 10,000 sites takes 0.8 GB; their coordinates take 0.3 MB.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mooring.arrays import Floats, Ints
from mooring.errors import UnsupportedError

MOST_IN_MATRIX = 5_000
"""Sites between which a matrix is made of coordinates, for those who cannot do without: 0.2 GB."""


@dataclass(frozen=True, eq=False)
class Coordinates:
    """One-way latency between two sites: the distance of their positions and both heights; zero to itself.

    >>> plane = Coordinates(np.array([[0.0, 3.0], [4.0, 0.0]]), np.array([1.0, 2.0]))
    >>> float(plane[0, 1]), float(plane[1, 1])
    (8.0, 0.0)
    """

    position_ms: Floats
    """Sites x dimensions."""
    height_ms: Floats
    """The access link of each site, which every path to or from it takes."""
    changed_ms: Mapping[tuple[int, int], float] = field(default_factory=dict)
    """Pairs whose latency is another, each in its direction: links that got slower."""

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.height_ms), len(self.height_ms)

    def __len__(self) -> int:
        return len(self.height_ms)

    def __getitem__(self, key: Any) -> Floats:
        """As a matrix is indexed, by whole numbers, arrays of them and slices."""
        if not isinstance(key, tuple):
            key = (key, slice(None))
        start, end = (np.arange(len(self))[of] if isinstance(of, slice) else np.asarray(of) for of in key)
        if isinstance(key[0], slice) and end.ndim:
            start = start[:, None]
        elif isinstance(key[1], slice) and start.ndim:
            start = start[..., None]
        return self.between(start, end)

    def between(self, start: npt.ArrayLike, end: npt.ArrayLike) -> Floats:
        """Of pairs, which broadcast."""
        start, end = np.asarray(start), np.asarray(end)
        square = np.zeros(np.broadcast_shapes(start.shape, end.shape))
        for axis in self.position_ms.T:
            square += (axis[start] - axis[end]) ** 2
        found = np.sqrt(square) + (self.height_ms[start] + self.height_ms[end])
        found = np.where(start == end, 0.0, found)
        if self.changed_ms:
            keys, values = self.changed_pairs
            wanted = start * len(self) + end
            at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            found = np.where(keys[at] == wanted, values[at], found)
        return np.asarray(found)

    @cached_property
    def changed_pairs(self) -> tuple[Ints, Floats]:
        """As `first * sites + second`, ascending; and their latencies."""
        pairs = sorted(self.changed_ms.items())
        keys = np.array([a * len(self) + b for (a, b), _ in pairs], dtype=np.int64)
        return keys, np.array([value for _, value in pairs], dtype=np.float64)

    def of(self, sites: npt.ArrayLike) -> Coordinates:
        """Of some sites, in the order given."""
        chosen = np.asarray(sites)
        new = {int(old): i for i, old in enumerate(chosen)}
        kept = {(new[a], new[b]): ms for (a, b), ms in self.changed_ms.items() if a in new and b in new}
        return Coordinates(self.position_ms[chosen], self.height_ms[chosen], kept)


Latencies = Floats | Coordinates


def among(latency_ms: Latencies, sites: npt.ArrayLike) -> Latencies:
    """Between some sites, in the order given."""
    if isinstance(latency_ms, Coordinates):
        return latency_ms.of(sites)
    return np.asarray(latency_ms[np.ix_(np.asarray(sites), np.asarray(sites))])


def with_changed(latency_ms: Latencies, changed_ms: Mapping[tuple[int, int], float]) -> Latencies:
    """With other latencies between pairs of sites, in both directions."""
    both = {pair: ms for (a, b), ms in changed_ms.items() for pair in ((a, b), (b, a))}
    if isinstance(latency_ms, Coordinates):
        return replace(latency_ms, changed_ms={**latency_ms.changed_ms, **both})
    matrix = latency_ms.copy()
    for pair, ms in both.items():
        matrix[pair] = ms
    return matrix


def both_ways(latency_ms: Latencies) -> Latencies:
    """The mean of the ways there and back, which coordinates and changed links have anyway."""
    if isinstance(latency_ms, Coordinates):
        return latency_ms
    return np.asarray((latency_ms + latency_ms.T) / 2.0)


def same_latencies(one: Latencies | None, other: Latencies | None) -> bool:
    if isinstance(one, Coordinates) and isinstance(other, Coordinates):
        return (
            np.array_equal(one.position_ms, other.position_ms)
            and np.array_equal(one.height_ms, other.height_ms)
            and one.changed_ms == other.changed_ms
        )
    if one is None or other is None or isinstance(one, Coordinates) or isinstance(other, Coordinates):
        return one is other
    return np.array_equal(one, other)


def why_no_matrix(latency_ms: Latencies | None) -> str | None:
    """Why no matrix is made of it; None if one is."""
    if not isinstance(latency_ms, Coordinates) or len(latency_ms) <= MOST_IN_MATRIX:
        return None
    return (
        f"it has coordinates of {len(latency_ms):,} sites, and a matrix of latencies is made of at most "
        f"{MOST_IN_MATRIX:,}; use relaxation, ants or descent, which need none"
    )


def as_matrix(latency_ms: Latencies) -> Floats:
    """Sites x sites, for algorithms that cannot do without."""
    if not isinstance(latency_ms, Coordinates):
        return latency_ms
    if (reason := why_no_matrix(latency_ms)) is not None:
        raise UnsupportedError(reason, field="sites")
    return latency_ms[:, :]
