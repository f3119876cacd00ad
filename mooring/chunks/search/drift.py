"""Drift: a new search starts when frames take noticeably longer, or shorter, than the chunk plan predicted.

How often the environment changes is different everywhere, so no period fits (section 5.2). The sign is the
difference between predicted and observed latency. It is smoothed, because single frames say little, and a
search is asked for once per lasting change: what is observed after it is compared with the new prediction.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mooring.errors import InputError


@dataclass(frozen=True)
class DriftLimits:
    threshold: float = 0.15
    """Relative difference from which on another search may pay."""
    memory: float = 0.8
    """What the smoothed difference keeps of its past with every frame: about five frames."""
    settling_frames: int = 5
    """After a new chunk plan, frames of the old one are still under way."""

    def __post_init__(self) -> None:
        if self.threshold <= 0 or not 0 <= self.memory < 1 or self.settling_frames < 0:
            raise InputError(
                f"found threshold={self.threshold}, memory={self.memory}, "
                f"settling_frames={self.settling_frames}",
                remedy="the threshold must be > 0, memory from 0 to below 1, settling_frames >= 0",
            )


@dataclass
class DriftWatch:
    """Is told of every frame, and says whether it is time to search again.

    >>> watch = DriftWatch(predicted_ms=100.0)
    >>> any(watch.observe(105.0) for _ in range(100))
    False
    >>> [watch.observe(150.0) for _ in range(4)]
    [False, True, True, True]
    """

    predicted_ms: float
    limits: DriftLimits = field(default_factory=DriftLimits)
    _drift: float = 0.0
    _frames: int = 0

    @property
    def drift(self) -> float:
        """Smoothed: 0.2 where frames take a fifth longer than predicted."""
        return self._drift

    def observe(self, latency_ms: float) -> bool:
        self._frames += 1
        if self._frames <= self.limits.settling_frames:
            return False
        memory = self.limits.memory
        self._drift = memory * self._drift + (1 - memory) * (latency_ms / self.predicted_ms - 1.0)
        return abs(self._drift) > self.limits.threshold

    def replanned(self, predicted_ms: float) -> None:
        """A new chunk plan is in force, whether or not the search changed anything."""
        self.predicted_ms, self._drift, self._frames = predicted_ms, 0.0, 0
