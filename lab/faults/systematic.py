"""Every step of a run, with every kind of fault at it: what random schedules find only by luck.

One run without faults shows the steps there are. Then each is run again with one fault at that very step: the
site crashes before it, or after any of its effects, stands still, is cut off, or its messages are lost,
doubled, or overtaken. One pair belongs together: a site that stands still just after it has spoken, while
what it said is under way for long. It then hears all answers at once, however old they are, before it sees
what time it is. Other pairs are left to random schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from lab.faults.checkers import Step, WorldView
from lab.faults.exploration import Subject
from lab.faults.faults import Crash, Fault, Noise, Partition, Pause
from lab.faults.harness import Harness
from lab.faults.scenario import Scenario
from mooring.contracts.site_machine import Persist, Send

AN_INSTANT_MS = 0.001


class _Steps:
    """Remembers what happened; a checker that finds nothing wrong."""

    name = "remembers steps"

    def __init__(self) -> None:
        self.seen: list[Step] = []

    def after_step(self, step: Step, world: WorldView) -> str | None:
        self.seen.append(step)
        return None

    def at_end(self, world: WorldView) -> str | None:
        return None


def steps_of(subject: Subject, scenario: Scenario) -> list[Step]:
    """Of a run without faults; those that only pass time, with neither effect nor message, left out."""
    steps = _Steps()
    Harness(
        msgspec.structs.replace(scenario, faults=()),
        subject.make_machine,
        [steps],
        most_steps=subject.most_steps,
    ).finish()
    return [step for step in steps.seen if step.time_ms > 0.0 and step.effects]


FaultsAt = Callable[[Step, Sequence[float]], Iterator[tuple[Fault, ...]]]
"""What goes wrong at a step, each for itself; those that last take each of the lengths."""


def faults_at(step: Step, lengths_ms: Sequence[float]) -> Iterator[tuple[Fault, ...]]:
    """Every kind of fault."""
    yield from ((fault,) for fault in _single(step, lengths_ms))
    yield from stalls_at(step, lengths_ms)


def stalls_at(step: Step, lengths_ms: Sequence[float]) -> Iterator[tuple[Fault, ...]]:
    """The site stands still after the step, for as long as what it has sent may take; only the longest."""
    at_ms, length_ms = step.time_ms, lengths_ms[-1]
    late = Noise(at_ms, at_ms + AN_INSTANT_MS, jitter_ms=length_ms)
    yield late, Pause(at_ms + AN_INSTANT_MS, at_ms + length_ms + AN_INSTANT_MS, step.site)


def _single(step: Step, lengths_ms: Sequence[float]) -> Iterator[Fault]:
    """Faults alone.

    A crash before any effect loses the event; one after some of them is torn at each place in between.
    """
    at_ms, site = step.time_ms, step.site
    kept = sum(isinstance(effect, Persist | Send) for effect in step.effects)
    for length_ms in lengths_ms:
        yield Crash(at_ms, site, length_ms)
        yield from (Crash(at_ms, site, length_ms, after) for after in range(kept))
        yield Pause(at_ms, at_ms + length_ms, site)
        yield Partition(at_ms, at_ms + length_ms, (site,))
        yield Partition(at_ms, at_ms + length_ms, (site,), both_ways=False)
    yield Noise(at_ms, at_ms + AN_INSTANT_MS, loss=1.0)
    yield Noise(at_ms, at_ms + AN_INSTANT_MS, duplicate=1.0, jitter_ms=lengths_ms[0])
    yield Noise(at_ms, at_ms + AN_INSTANT_MS, jitter_ms=lengths_ms[-1])


def with_every_fault(
    subject: Subject,
    scenario: Scenario,
    lengths_ms: Sequence[float],
    until_ms: float,
    every: int = 1,
    at: FaultsAt = faults_at,
) -> Iterator[Scenario]:
    """The scenario with one thing going wrong each, at every step up to a time that leaves some to settle;
    with `every`, each so manieth of them only."""
    steps = [step for step in steps_of(subject, scenario) if step.time_ms <= until_ms]
    found = (faults for step in steps for faults in at(step, lengths_ms))
    for number, faults in enumerate(found):
        if number % every == 0:
            yield msgspec.structs.replace(scenario, faults=faults)
