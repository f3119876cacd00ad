"""Many schedules drawn by seeds, until one breaks something; that one is made small."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import msgspec

from lab.faults.shrink import with_simpler, without_needless
from lab.storage_faults.planted import Bug
from lab.storage_faults.steps import Schedule, Step, draw_schedule
from lab.storage_faults.trial import Outcome, carried_out

_MOST_TOLD = 60


@dataclass(frozen=True)
class Finding:
    schedule: Schedule
    small: Schedule
    outcome: Outcome
    """Of the small one."""

    def __str__(self) -> str:
        violation = self.outcome.violation
        assert violation is not None
        before, after = len(self.schedule.steps), len(self.small.steps)
        return "\n".join(
            [
                f"violated: {violation.checker}: {violation.message}",
                f"seed {self.schedule.seed}, shrunk from {before} steps to {after}; what happened:",
                *(f"  {line}" for line in self.outcome.story[-_MOST_TOLD:]),
                "replay with Schedule.from_json:",
                self.small.as_json(),
            ]
        )


@dataclass(frozen=True)
class Explored:
    schedules: int
    operations: int
    refused: int
    """Storages that were found damaged, and whose damage was named."""
    finding: Finding | None


def by_seeds(seeds: Iterable[int]) -> Iterator[Schedule]:
    return (draw_schedule(seed) for seed in seeds)


def explored(schedules: Iterable[Schedule], bug: Bug | None = None) -> Explored:
    """Carry them out until one breaks something."""
    count = operations = refused = 0
    for schedule in schedules:
        outcome = carried_out(schedule, bug)
        count += 1
        operations += outcome.operations
        refused += outcome.refused
        if outcome.violation is not None:
            small = shrunk(schedule, outcome.violation.checker, bug)
            finding = Finding(schedule, small, carried_out(small, bug))
            return Explored(count, operations, refused, finding)
    return Explored(count, operations, refused, None)


def shrunk(schedule: Schedule, invariant: str, bug: Bug | None = None) -> Schedule:
    """The smallest one found that still breaks the same invariant."""

    def fails(candidate: Schedule) -> bool:
        violation = carried_out(candidate, bug).violation
        return violation is not None and violation.checker == invariant

    def with_steps(steps: list[Step]) -> Schedule:
        return msgspec.structs.replace(schedule, steps=tuple(steps))

    steps = without_needless(list(schedule.steps), lambda steps: fails(with_steps(steps)))
    schedule = _with_simpler_setting(with_steps(steps), fails)
    steps = with_simpler(steps, lambda steps: fails(with_steps(steps)), lambda step: step.simpler())
    return with_steps(without_needless(steps, lambda steps: fails(with_steps(steps))))


def _with_simpler_setting(schedule: Schedule, fails: Callable[[Schedule], bool]) -> Schedule:
    simplified = True
    while simplified:
        simplified = False
        for setting in schedule.setting.simpler():
            candidate = msgspec.structs.replace(schedule, setting=setting)
            if fails(candidate):
                schedule, simplified = candidate, True
                break
    return schedule
