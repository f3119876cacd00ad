"""How much of its budget a search has used up, whether that is counted in steps or in time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mooring.placement.policy import Context, never

FIRST_ROUND_STEPS = 50_000


@dataclass(frozen=True)
class Budget:
    """So many steps, or the context's time, whichever is used up first."""

    context: Context
    steps: int | None

    @classmethod
    def rounds(cls, context: Context, default_steps: int) -> Iterator[Budget]:
        """One round that takes the whole budget; where only the end of it can be told, rounds that double."""
        timed = context.spent is not None or context.expired is not never
        if context.steps is not None or not timed:
            yield cls(context, default_steps if context.steps is None else context.steps)
        elif context.spent is not None:
            yield cls(context, None)
        else:
            steps = FIRST_ROUND_STEPS
            while not context.expired():
                yield cls(context, steps)
                steps *= 2

    def part(self, begin: float, end: float) -> Used:
        """The stretch between two parts of the budget. Steps are shared out by parts; time counts from
        now."""
        steps = None if self.steps is None else max(round(self.steps * (end - begin)), 1)
        spent = self.context.spent
        started = 0.0 if spent is None else min(spent(), end - 1e-9)
        return Used(self.context, steps, started, end)


@dataclass(frozen=True)
class Used:
    """Tells how much of a stretch is used up."""

    context: Context
    steps: int | None
    """Of the stretch; None: only time counts."""
    started: float
    end: float
    """Parts of the context's time between which the stretch lies."""

    def __call__(self, taken: int) -> float:
        """0 to 1, given the steps taken in this stretch."""
        if self.context.expired():
            return 1.0
        by_steps = 0.0 if self.steps is None else taken / self.steps
        if self.context.spent is None:
            return by_steps
        return max(by_steps, (self.context.spent() - self.started) / (self.end - self.started))
