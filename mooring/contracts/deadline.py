"""The deadline of a policy that improves step by step."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

"""Seconds since some moment that does not matter; the room that has a clock passes it in."""


@dataclass(frozen=True)
class Deadline:
    """A time budget that is being spent on a clock, or no deadline at all, which is never spent.

    >>> seconds = iter([100.0, 103.0, 112.0])
    >>> ten_seconds = Deadline.in_seconds(10.0, lambda: next(seconds))
    >>> ten_seconds.share_spent, ten_seconds.expired
    (0.3, True)
    """

    clock_s: Callable[[], float]
    begun_s: float
    budget_s: float
    """Infinite: there is no deadline."""

    @classmethod
    def in_seconds(cls, budget_s: float | None, clock_s: Callable[[], float]) -> Deadline:
        """The budget begins to be spent now; None: there is no deadline."""
        return NO_DEADLINE if budget_s is None else cls(clock_s, clock_s(), budget_s)

    def part(self, share: float) -> Deadline:
        """One that expires when this share of the budget is spent."""
        return Deadline(self.clock_s, self.begun_s, share * self.budget_s)

    @property
    def exists(self) -> bool:
        return math.isfinite(self.budget_s)

    @property
    def share_spent(self) -> float:
        """The part of the budget that is used up, from 0; 1 and beyond when it has expired."""
        if self.budget_s <= 0.0:
            return 1.0
        return (self.clock_s() - self.begun_s) / self.budget_s

    @property
    def expired(self) -> bool:
        return self.share_spent >= 1.0


NO_DEADLINE = Deadline(clock_s=lambda: 0.0, begun_s=0.0, budget_s=math.inf)
