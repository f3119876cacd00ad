"""The operators and reservations of a site, and the room left below the CPU threshold."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.algorithms.overlay.protocol.messages import CandidateSite, HostedOperator, Round
from mooring.algorithms.overlay.search.shared_operator import SharedOperator
from mooring.model.network.coordinate import Coordinate
from mooring.model.placement.site_limits import SLACK

RESERVED_MS = 60_000.0
"""A reservation that is neither made use of nor released ends by itself."""


class SiteRoom:
    def __init__(
        self, site: int, usable_cores: float, memory_mb: float, hosted: Iterable[HostedOperator] = ()
    ) -> None:
        """`usable_cores`: the capacity up to the threshold, what is not Mooring's own left out."""
        self._site, self.usable_cores, self._memory_mb = site, usable_cores, memory_mb
        self.hosted = {own.operator.operator: own for own in hosted}
        self._reserved: dict[tuple[Round, int], tuple[SharedOperator, float]] = {}

    @property
    def cores_left(self) -> float:
        running = sum(own.operator.cores for own in self.hosted.values())
        return self.usable_cores - running - sum(own.cores for own, _ in self._reserved.values())

    @property
    def memory_left_mb(self) -> float:
        running = sum(own.operator.memory_mb for own in self.hosted.values())
        return self._memory_mb - running - sum(own.memory_mb for own, _ in self._reserved.values())

    def as_candidate(self, coordinate: Coordinate) -> CandidateSite:
        return CandidateSite(self._site, coordinate, self.cores_left, self.memory_left_mb)

    def reserve(
        self, round_: Round, own: SharedOperator, leaving: Iterable[int], now_ms: float
    ) -> tuple[float, float]:
        """Cores and memory that are short; where neither is, the room is the operator's until released.

        A plan that leaves an operator where it is, or takes others away, needs that much less.
        """
        self._expire(now_ms)
        if own.operator in self.hosted:
            return 0.0, 0.0
        away = [self.hosted[each].operator for each in leaving if each in self.hosted]
        freed_cores = sum(each.cores for each in away)
        freed_mb = sum(each.memory_mb for each in away)
        cores_short = own.cores - (self.cores_left + freed_cores)
        memory_short_mb = own.memory_mb - (self.memory_left_mb + freed_mb)
        fits = cores_short <= SLACK * max(self.usable_cores, 1.0) and memory_short_mb <= SLACK
        if fits or own.pinned_site == self._site:
            self._reserved[round_, own.operator] = own, now_ms + RESERVED_MS
            return 0.0, 0.0
        return cores_short, memory_short_mb

    def release(self, round_: Round) -> None:
        for key in [key for key in self._reserved if key[0] == round_]:
            del self._reserved[key]

    def commit(self, round_: Round, hosted: HostedOperator) -> None:
        self._reserved.pop((round_, hosted.operator.operator), None)
        self.hosted[hosted.operator.operator] = hosted

    def leave(self, operator: int) -> None:
        self.hosted.pop(operator, None)

    def _expire(self, now_ms: float) -> None:
        for key in [key for key, (_, until_ms) in self._reserved.items() if until_ms <= now_ms]:
            del self._reserved[key]
