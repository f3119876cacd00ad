"""Pheromones of a colony: rows for the sites that its ants have changed on their way to a destination.

Ants see few of many sites, and a row for every site and destination would take 0.8 GB per neighbour at 10,000
sites. A row is made when an ant comes by. Beyond a million rows, those that no ant has changed are dropped,
and computed again from latencies.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mooring.algorithms.ants.cell_kernels import Trails

MOST_UNCHANGED = 1_000_000
"""Up to 1,000 sites, no row is dropped."""


@dataclass
class KeptTrails:
    """Of a colony, from attempt to attempt and from look to look."""

    sites: int
    slots: int
    most_unchanged: int = MOST_UNCHANGED
    rows: Trails = field(init=False)
    _blocks: dict[int, list[tuple[int, int]]] = field(default_factory=dict, init=False)
    """Destination -> its rows, from and to."""
    _at: int = field(default=-1, init=False)
    """The destination that `row_of` is of."""
    _closed: int = field(default=0, init=False)
    """Rows that are in blocks."""

    def __post_init__(self) -> None:
        self.rows = self._with_room(2 * self.sites)

    def turn_to(self, destination: int) -> Trails:
        """Rows for the next ants, which all walk to this destination, with room for one per site."""
        rows = self.rows
        used = int(rows.used[0])
        if used > self._closed:
            self._blocks.setdefault(self._at, []).append((self._closed, used))
            self._closed = used
        if used + self.sites > len(rows.site):
            rows = self.rows = self._with_room(max(len(rows.site) * 3 // 2, used + self.sites), rows)
        if destination != self._at:
            for first, end in self._blocks.get(self._at, ()):
                rows.row_of[rows.site[first:end]] = -1
            for first, end in self._blocks.get(destination, ()):
                rows.row_of[rows.site[first:end]] = np.arange(first, end)
            self._at = destination
        return rows

    def _with_room(self, room: int, before: Trails | None = None) -> Trails:
        new = Trails(
            np.zeros(room, np.int64),
            np.zeros((room, self.slots)),
            np.zeros(room),
            np.zeros(room),
            np.zeros(room),
            np.zeros(room, np.int64),
            np.zeros(room, np.bool_),
            np.zeros(1, np.int64),
            self.most_unchanged,
            np.full(self.sites, -1, np.int64),
        )
        if before is None:
            return new
        for into, values in zip(new[:7], before[:7], strict=True):
            into[: self._closed] = values[: self._closed]
        return new._replace(used=before.used, row_of=before.row_of)
