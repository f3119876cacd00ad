"""The time by which a run is driven: a machine's own, or the simulator's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """A run asks it and never the machine, so that the same run can be driven in virtual time."""

    def now_s(self) -> float:
        """Seconds since 1970, for people and files; it may be set back."""
        ...

    def monotonic_s(self) -> float:
        """Seconds since some moment; only goes forward."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return when so much time has passed. In virtual time this is what makes it pass."""
        ...


LEAST_STEP_S = 60.0
"""Smaller ones are corrections, as machines make all the time."""


class ClockSteps:
    """Tells when the clock was set while a run goes on, or is behind what the run before it noted. Nothing is
    deleted by it: ages are counted in time that has passed.
    """

    def __init__(self, clock: Clock, tell: Callable[[str], None], noted_s: float | None = None) -> None:
        """`noted_s`: the clock's time when the run before noted something last."""
        self._clock, self._tell = clock, tell
        self._now_s, self._monotonic_s = clock.now_s(), clock.monotonic_s()
        if noted_s is not None and (behind_s := noted_s - self._now_s) >= LEAST_STEP_S:
            tell(
                f"the clock is {behind_s:,.0f} s behind the time that the last run noted: one of the "
                "two was wrong"
            )

    def look(self) -> None:
        now_s, monotonic_s = self._clock.now_s(), self._clock.monotonic_s()
        step_s = now_s - self._now_s - (monotonic_s - self._monotonic_s)
        self._now_s, self._monotonic_s = now_s, monotonic_s
        if abs(step_s) >= LEAST_STEP_S:
            how = "forward" if step_s > 0 else "back"
            self._tell(
                f"the clock jumped {how} by {abs(step_s):,.0f} s: it was set, or the machine slept; rows "
                "are kept longer, not shorter"
            )
