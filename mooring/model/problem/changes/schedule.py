"""Changes unfolded: what begins and ends when, and the course of each stream's rate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mooring.arrays import Floats
from mooring.model.problem.changes.change import Change, Changes, QueryChange, RateChange, RateReplay


@dataclass(frozen=True)
class Turn:
    """A change begins, or one that ends by itself is over."""

    at_s: float
    change: Change
    begins: bool


def turns(changes: Changes) -> list[Turn]:
    """In order; at one instant, what ends comes before what begins. Rates are left to `rate_course`.

    >>> from mooring.model.problem.changes.change import SiteLoss
    >>> [(t.at_s, t.begins) for t in turns((SiteLoss(at_s=5, site="a", for_s=10),))]
    [(5, True), (15, False)]
    """
    result = []
    for change in changes:
        if isinstance(change, RateChange | RateReplay):
            continue
        result.append(Turn(change.at_s, change, True))
        if not isinstance(change, QueryChange) and change.for_s is not None:
            result.append(Turn(change.at_s + change.for_s, change, False))
    return sorted(result, key=lambda turn: (turn.at_s, turn.begins))


def instants(changes: Changes, least_gap_s: float = 0.0) -> list[float]:
    """The seconds at which something becomes different: beginnings, ends, steps of histories; those closer
    than `least_gap_s` to one before are left out.
    """
    found: set[float] = {turn.at_s for turn in turns(changes)}
    for change in changes:
        if isinstance(change, RateChange):
            found |= {change.at_s, change.at_s + change.over_s}
            if change.for_s is not None:
                found.add(change.at_s + change.for_s)
        elif isinstance(change, RateReplay):
            found |= {change.at_s + after_s for after_s, _ in change.rates}
    kept: list[float] = []
    for at_s in sorted(found):
        if not kept or at_s - kept[-1] >= least_gap_s:
            kept.append(at_s)
    return kept


def absent_at_first(changes: Changes) -> set[str]:
    """Queries whose first change is that they join."""
    first: dict[str, bool] = {}
    for change in changes:
        if isinstance(change, QueryChange):
            first.setdefault(change.query, change.joins)
    return {query for query, joins in first.items() if joins}


@dataclass(frozen=True, eq=False)
class RateCourse:
    """A rate over time in straight pieces, the last of which never ends."""

    begins_s: Floats
    """When each piece begins; the first at 0."""
    first: Floats
    """Rate at its beginning, tuples per second."""
    last: Floats
    """Rate at its end; as at its beginning for the last piece."""

    def rate_at(self, at_s: float) -> float:
        """
        >>> course = rate_course((RateChange(at_s=10, stream="x", rate=9, over_s=10),), "x", 1.0)
        >>> [course.rate_at(at_s) for at_s in (5.0, 15.0, 30.0)]
        [1.0, 5.0, 9.0]
        """
        piece = int(np.searchsorted(self.begins_s, at_s, side="right")) - 1
        if piece + 1 >= len(self.begins_s):
            return float(self.first[-1])
        length_s = self.begins_s[piece + 1] - self.begins_s[piece]
        share = (at_s - self.begins_s[piece]) / length_s
        return float(self.first[piece] + share * (self.last[piece] - self.first[piece]))

    @property
    def varies(self) -> bool:
        return len(self.begins_s) > 1

    def mean(self, from_s: float, until_s: float) -> float:
        """Over a stretch of time."""
        inside = self.begins_s[(self.begins_s > from_s) & (self.begins_s < until_s)]
        edges = np.concatenate([[from_s], inside, [until_s]])
        middles = 0.5 * (edges[1:] + edges[:-1])
        rates = np.array([self.rate_at(float(at_s)) for at_s in middles])
        return float(rates @ np.diff(edges) / (until_s - from_s))


def rate_course(changes: Changes, stream: str, rate: float) -> RateCourse:
    """Of a stream that has `rate` at first."""
    pieces: list[tuple[float, float, float]] = [(0.0, rate, rate)]
    for change in _of(changes, stream):
        before = pieces[-1][2]
        if isinstance(change, RateReplay):
            pieces += [(change.at_s + after_s, value, value) for after_s, value in change.rates]
            continue
        if change.over_s > 0.0:
            pieces.append((change.at_s, before, change.rate))
        pieces.append((change.at_s + change.over_s, change.rate, change.rate))
        if change.for_s is not None:
            pieces.append((change.at_s + change.for_s, before, before))
    begins, first, last = (np.array(column, dtype=np.float64) for column in zip(*pieces, strict=True))
    some = np.append(np.diff(begins) > 0.0, True)  # a piece that is over at once never was
    return RateCourse(begins[some], first[some], last[some])


def _of(changes: Changes, stream: str) -> Iterable[RateChange | RateReplay]:
    for change in changes:
        if isinstance(change, RateChange | RateReplay) and change.stream == stream:
            yield change
