"""Runs a protocol through many random scenarios, and reports the first that breaks an invariant, made
small.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lab.faults.checkers import MakeCheckers, Step, Violation
from lab.faults.harness import MOST_STEPS, Harness
from lab.faults.scenario import Scenario
from lab.faults.shrink import shrink
from mooring.contracts.site_machine import MakeMachine


@dataclass(frozen=True)
class Subject:
    """What is put to the test: how to build each site's machine, and what must hold."""

    make_machine: MakeMachine
    make_checkers: MakeCheckers
    most_steps: int = MOST_STEPS

    def run(self, scenario: Scenario) -> Harness:
        harness = Harness(scenario, self.make_machine, self.make_checkers(), most_steps=self.most_steps)
        harness.finish()
        return harness


@dataclass(frozen=True)
class Finding:
    """A broken invariant with the scenario that breaks it, as drawn and shrunken."""

    drawn: Scenario
    shrunken: Scenario
    violation: Violation
    """Of the shrunken scenario."""
    last_steps: tuple[Step, ...]

    def __str__(self) -> str:
        before = len(self.drawn.faults) + len(self.drawn.requests)
        after = len(self.shrunken.faults) + len(self.shrunken.requests)
        return "\n".join(
            [
                f"violated: {self.violation.checker} (seed {self.drawn.seed})",
                f"at {self.violation.time_ms:.3f} ms: {self.violation.message}",
                f"shrunken from {before} faults and requests to {after}:",
                self.shrunken.describe(),
                "last steps:",
                *(f"  {step.describe()}" for step in self.last_steps),
                "replay with Scenario.from_json and the type of its requests:",
                self.shrunken.as_json(),
            ]
        )


@dataclass(frozen=True)
class Exploration:
    scenarios: int
    steps: int
    digest: str
    """Stands for every step of every scenario."""
    finding: Finding | None


def explore(
    subject: Subject, draw: Callable[[int], Scenario], seeds: Iterable[int], most_shrinking_runs: int = 1000
) -> Exploration:
    """Run the scenario of each seed; stop at the first violation and shrink it."""
    scenarios = steps = 0
    digest = hashlib.blake2b(digest_size=16)
    finding = None
    for seed in seeds:
        scenario = draw(seed)
        harness = subject.run(scenario)
        scenarios += 1
        steps += harness.steps
        digest.update(harness.digest.encode())
        if harness.violation is not None:
            finding = find_small(subject, scenario, harness.violation, most_shrinking_runs)
            break
    return Exploration(scenarios, steps, digest.hexdigest(), finding)


def find_small(subject: Subject, scenario: Scenario, violation: Violation, most_runs: int = 1000) -> Finding:
    """Shrink a failing scenario as long as the same invariant breaks."""

    def fails(candidate: Scenario) -> bool:
        found = subject.run(candidate).violation
        return found is not None and found.checker == violation.checker

    shrunken = shrink(scenario, fails, most_runs)
    last = subject.run(shrunken)
    assert last.violation is not None
    return Finding(scenario, shrunken, last.violation, last.last_steps)
