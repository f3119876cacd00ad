"""Many schedules: every fault at every effect of a few runs, and as many as wanted drawn by seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from lab.session_faults.process import Process
from lab.session_faults.schedule import (
    SITES,
    Crash,
    Event,
    Freeze,
    Leave,
    Move,
    Schedule,
    SiteFault,
    Stop,
    Turn,
    drawn,
)
from lab.session_faults.trial import Outcome, carried_out, shrunk
from lab.session_faults.world import Condition

BASES: dict[str, tuple[Event, ...]] = {
    "two moves": (Move(0.8, ((0, 1), (1, 2))),),
    "a list and its way back": (Move(0.8, ((0, 1),)), Move(1.6, ((0, 0), (1, 1)))),
    "a site is emptied and used again": (Leave(0.8, 0), Leave(2.4, 0, back=True)),
    "stopped and begun again": (Move(0.8, ((1, 1),)), Stop(1.6), Move(2.4, ((0, 2),))),
    "planned anew": (Move(0.8, ((1, 1),)), Stop(1.6, replan=True)),
}
END_S = 3.6
_CONDITIONS: tuple[Condition, ...] = ("silent", "late", "frozen", "dead")
_TURNS = ((False, False), (True, False), (False, True))
_RECOVERY_EFFECTS = 14
"""A second crash falls into the recovery from the first."""


@dataclass(frozen=True)
class Finding:
    schedule: Schedule
    small: Schedule
    outcome: Outcome
    """Of the small one."""

    def __str__(self) -> str:
        violation = self.outcome.violation
        assert violation is not None
        before, after = len(self.schedule.events), len(self.small.events)
        return "\n".join(
            [
                f"violated: {violation.checker}, after {violation.time_ms / 1000:.1f} s: {violation.message}",
                f"shrunken from {before} events to {after}; what happened:",
                *(f"  {line}" for line in self.outcome.trace[-60:]),
                "replay with Schedule.from_json:",
                self.small.as_json(),
            ]
        )


@dataclass(frozen=True)
class Explored:
    schedules: int
    effects: int
    finding: Finding | None


def explored(
    schedules: Iterable[Schedule], process: type[Process] = Process, *, shrink: bool = True
) -> Explored:
    """Carry them out until one breaks something."""
    count = effects = 0
    for schedule in schedules:
        outcome = carried_out(schedule, process)
        count += 1
        effects += len(outcome.effects)
        if outcome.violation is not None:
            small, last = shrunk(schedule, process) if shrink else (schedule, outcome)
            return Explored(count, effects, Finding(schedule, small, last))
    return Explored(count, effects, None)


def by_seeds(seeds: Iterable[int]) -> Iterator[Schedule]:
    return (drawn(seed) for seed in seeds)


FaultsAt = Callable[[int, str], Iterator[tuple[Event, ...]]]
"""What goes wrong just after an effect, given its number and what it was; each for itself."""


def crashes(at: int, what: str) -> Iterator[tuple[Event, ...]]:
    yield (Crash(at),)
    if what.split(" ", 1)[1].startswith("journal"):
        yield (Crash(at, torn=True),)


def crashes_twice(at: int, what: str) -> Iterator[tuple[Event, ...]]:
    yield from ((Crash(at), Crash(at + after)) for after in range(1, _RECOVERY_EFFECTS + 1))


def every_fault(at: int, what: str) -> Iterator[tuple[Event, ...]]:
    yield from crashes(at, what)
    yield (Freeze(at),)
    yield (Freeze(at), Crash(at + 6))
    yield from ((Turn(at, abort=abort, halt=halt),) for abort, halt in _TURNS)
    for site in range(SITES):
        yield from ((SiteFault(at, site, condition),) for condition in _CONDITIONS)
        yield (SiteFault(at, site, "silent"), Crash(at))


def at_every_effect(base: tuple[Event, ...], faults_at: FaultsAt = every_fault) -> Iterator[Schedule]:
    effects = carried_out(Schedule(base, END_S)).effects
    for at, what in enumerate(effects, start=1):
        for faults in faults_at(at, what):
            yield Schedule((*base, *faults), END_S)
