"""The time by which a run is driven: a machine's own, or the simulator's."""

from __future__ import annotations

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
