"""The budget of a search, counted in steps or in time."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.contracts.deadline import Deadline
from mooring.contracts.policy import Context


@dataclass(frozen=True)
class Budget:
    """So many steps, or the time until the deadline, whichever is used up first."""

    deadline: Deadline
    steps: int | None
    """None: only time counts."""

    @classmethod
    def of(cls, context: Context, default_steps: int) -> Budget:
        """What the context allows; the default steps where it sets no limit."""
        if context.steps is None and not context.deadline.exists:
            return cls(context.deadline, default_steps)
        return cls(context.deadline, context.steps)

    def part(self, begin: float, end: float) -> Used:
        """The stretch between two parts of the budget. Steps are shared out by parts; time counts from
        now."""
        steps = None if self.steps is None else max(round(self.steps * (end - begin)), 1)
        return Used(self.deadline, steps, min(self.deadline.share_spent, end - 1e-9), end)


@dataclass(frozen=True)
class Used:
    """Tells how much of a stretch is used up."""

    deadline: Deadline
    steps: int | None
    """Of the stretch; None: only time counts."""
    started: float
    end: float
    """Shares of the deadline's time between which the stretch lies."""

    def __call__(self, taken: int) -> float:
        """0 to 1, given the steps taken in this stretch."""
        spent = self.deadline.share_spent
        if spent >= 1.0:
            return 1.0
        by_steps = 0.0 if self.steps is None else taken / self.steps
        return max(by_steps, (spent - self.started) / (self.end - self.started))
