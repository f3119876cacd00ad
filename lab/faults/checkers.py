"""Invariants: what must hold after every step of a run, and at its end.

A checker sees everything, also inside the machines: it is what no site of a protocol can be. It lives for
one run and may remember what it saw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from mooring.contracts.site_machine import Effect, Event


class Crashed(msgspec.Struct, frozen=True, tag=True):
    """Recorded in place of an event when a site goes down."""


class Step(msgspec.Struct, frozen=True):
    """One event at one site, with the effects that were carried out. Steps are ordered by time, priority,
    sequence.
    """

    time_ms: float
    priority: int
    sequence: int
    site: int
    event: Event | Crashed
    effects: tuple[Effect, ...]

    def describe(self, width: int = 200) -> str:
        effects = ", ".join(str(effect) for effect in self.effects) or "nothing"
        text = f"{self.time_ms:10.3f} ms  site {self.site}: {self.event} -> {effects}"
        return text if len(text) <= width else text[: width - 3] + "..."


class Violation(msgspec.Struct, frozen=True):
    """An invariant that does not hold, and since when."""

    checker: str
    time_ms: float
    message: str


class WorldView(Protocol):
    """What a checker may look at."""

    @property
    def sites(self) -> int: ...

    @property
    def now_ms(self) -> float: ...

    def machine(self, site: int) -> Any:
        """The site's state machine; None while the site is down."""
        ...


class Checker(Protocol):
    name: str

    def after_step(self, step: Step, world: WorldView) -> str | None:
        """What is wrong, in words; None if nothing is."""
        ...

    def at_end(self, world: WorldView) -> str | None:
        """The same once the scenario is over, when all faults have healed and the time to settle has
        passed.
        """
        ...


MakeCheckers = Callable[[], Sequence[Checker]]
