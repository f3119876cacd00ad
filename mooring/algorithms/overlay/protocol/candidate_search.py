"""Searches for sites near some points, in boxes that grow until enough are found.

A box around a coordinate is a range of each of its dimensions, so the directory answers it from the few sites
that are responsible for that part of the space. How large it has to be differs between networks: the sites
that are known already say how far apart sites are, and what a box has held says how large the next one has to
be. A box that is too large costs two messages per site in it, one that is too small another search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mooring.algorithms.overlay.protocol.directory import Directory, Found, Within
from mooring.algorithms.overlay.protocol.messages import CandidateSite
from mooring.algorithms.overlay.protocol.monitor import NetworkMonitor
from mooring.contracts.site_machine import Effect
from mooring.model.network.coordinate import Coordinate

FIRST_RADIUS_MS = 10.0
"""Where nothing is known of how dense sites are."""
SMALLEST_RADIUS_MS = 1.0
WIDEST_RADIUS_MS = 2_000.0
"""Beyond this a box is not narrowed at all: it is wider than the world."""
MOST_PER_SITE = 32
LEAST_GROWTH, MOST_GROWTH = 1.25, 2.0
"""By which a box that held too few sites is enlarged."""
ENOUGH = 2.0
"""Times the wanted sites that a box should hold: more to choose from, and it seldom takes another."""

Done = Callable[[tuple[CandidateSite, ...]], Sequence[Effect]]


class CandidateSearches:
    """The searches of one site that are under way."""

    def __init__(self, directory: Directory, monitor: NetworkMonitor, sites: int, dimensions: int) -> None:
        self._directory, self._monitor = directory, monitor
        self._sites, self._dimensions = sites, dimensions
        self._running: dict[int, tuple[_Wanted, int, float]] = {}
        """Number of the search in the directory -> what it belongs to, which point, and its radius."""
        self._stretch = 1.0
        """By how much boxes had to be larger than if sites were spread evenly and all had room."""
        self._old: set[int] = set()
        self.hops: list[int] = []
        """Of every search so far, the longest way that it took."""

    def near(
        self, points: Sequence[Coordinate], cores: float, memory_mb: float, wanted: int, done: Done
    ) -> Sequence[Effect]:
        """Sites with so much left near each of the points; `done` gets what was found."""
        search = _Wanted(tuple(points), cores, memory_mb, wanted, done)
        effects: list[Effect] = []
        first_ms = min(max(self._stretch * self._even_ms(wanted), SMALLEST_RADIUS_MS), WIDEST_RADIUS_MS / 4.0)
        for k in range(len(points)):
            effects += self._ask(search, k, first_ms)
        return effects

    def widen(self) -> None:
        """What was found was not good enough: the next search looks further."""
        self._stretch *= MOST_GROWTH

    def _even_ms(self, wanted: int) -> float:
        """The radius of a box that holds enough sites if they are spread evenly, as far from each other as
        those that are known are from this one.
        """
        positions_ms = self._monitor.known_positions_ms
        if not len(positions_ms):
            return FIRST_RADIUS_MS
        # The radius of the smallest box around this site that holds the other.
        known_ms = np.abs(positions_ms - self._monitor.coordinate.position_ms).max(axis=1)
        part = float(min(ENOUGH * wanted / self._sites, 1.0) ** (1.0 / self._dimensions))
        return max(float(np.median(known_ms)) * part, SMALLEST_RADIUS_MS)

    def _ask(self, search: _Wanted, point: int, radius_ms: float) -> Sequence[Effect]:
        ranges = [
            Within(self._dimensions, least=search.cores),
            Within(self._dimensions + 1, least=search.memory_mb),
        ]
        if radius_ms < WIDEST_RADIUS_MS:
            centre = search.points[point].position_ms
            ranges += [Within(d, x - radius_ms, x + radius_ms) for d, x in enumerate(centre)]
        number, effects = self._directory.search(tuple(ranges), MOST_PER_SITE)
        self._running[number] = search, point, radius_ms
        search.open += 1
        return effects

    def turn(self) -> Sequence[Effect]:
        """Once per period: what has been under way since the last turn ends with what has come in."""
        effects: list[Effect] = []
        for number in self._old & self._running.keys():
            if (found := self._directory.give_up(number)) is not None:
                effects += self.found(found)
        self._old = set(self._running)
        return effects

    def found(self, found: Found) -> Sequence[Effect]:
        if found.number not in self._running:
            return ()
        search, point, radius_ms = self._running.pop(found.number)
        self.hops.append(found.hops)
        search.open -= 1
        if len(found.adverts) < search.wanted and radius_ms < WIDEST_RADIUS_MS:
            more = ENOUGH * search.wanted / max(len(found.adverts), 1)
            times = more ** (1.0 / self._dimensions)
            return self._ask(search, point, radius_ms * min(max(times, LEAST_GROWTH), MOST_GROWTH))
        # The next search begins where this one ended, or a little below where it found too much.
        self._stretch = radius_ms / self._even_ms(search.wanted)
        if len(found.adverts) > 2.0 * ENOUGH * search.wanted:
            self._stretch /= 2.0
        for advert in found.adverts:
            assert isinstance(advert.note, Coordinate)
            cores, memory_mb = advert.attributes[self._dimensions], advert.attributes[self._dimensions + 1]
            search.sites[advert.site] = CandidateSite(advert.site, advert.note, cores, memory_mb)
        return search.done(tuple(search.sites.values())) if search.open == 0 else ()


class _Wanted:
    def __init__(
        self, points: tuple[Coordinate, ...], cores: float, memory_mb: float, wanted: int, done: Done
    ) -> None:
        self.points, self.cores, self.memory_mb, self.wanted, self.done = (
            points,
            cores,
            memory_mb,
            wanted,
            done,
        )
        self.open = 0
        self.sites: dict[int, CandidateSite] = {}


def middle_of(sites: Sequence[CandidateSite]) -> Coordinate:
    """The point in the middle of some sites."""
    positions = [each.coordinate.position_ms for each in sites]
    return Coordinate(tuple(sum(axis) / len(positions) for axis in zip(*positions, strict=True)))
