"""The gossip protocol survives a thousand random fault schedules; planted bugs are found and shown small."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest

from lab.faults.checkers import Step, WorldView
from lab.faults.exploration import Subject, explore
from lab.faults.faults import Noise
from lab.faults.gossip_invariants import draw_publications, gossip_checkers, gossip_scenarios
from lab.faults.scenario import Request, Scenario, draw_scenario
from mooring.contracts.site_machine import Asked, Data, Effect, Event, Persist, Received, Send, Started
from mooring.coordination.gossip import Entries, Entry, Gossip, GossipParams, KnownVersions, gossip_machines

PARAMS = GossipParams()
GOSSIP = Subject(gossip_machines(PARAMS), gossip_checkers)
DRAW = gossip_scenarios(PARAMS)

IN_ANOTHER_PROCESS = """
from mooring.coordination.gossip import GossipParams, gossip_machines
from lab.faults.exploration import Subject, explore
from lab.faults.gossip_invariants import gossip_checkers, gossip_scenarios
params = GossipParams()
print(explore(Subject(gossip_machines(params), gossip_checkers), gossip_scenarios(params), range(20)).digest)
"""


def test_a_thousand_random_fault_schedules_break_nothing() -> None:
    result = explore(GOSSIP, DRAW, range(1000))
    assert result.finding is None, str(result.finding)
    assert result.scenarios == 1000
    # Work was done: a schedule that stalls would pass every check of safety.
    assert result.steps > 300_000


def test_a_third_of_the_time_is_not_enough_to_converge() -> None:
    """The bound is not idle, and the checker that watches it can fail."""

    def impatient(seed: int) -> Scenario:
        return draw_scenario(seed, draw_publications, lambda *size: PARAMS.convergence_ms(*size) / 3)

    finding = explore(GOSSIP, impatient, range(1000), most_shrinking_runs=0).finding
    assert finding is not None
    assert finding.violation.checker == "sites converge"


@pytest.mark.soak
def test_a_hundred_thousand_random_fault_schedules_break_nothing() -> None:
    result = explore(GOSSIP, DRAW, range(1000, 101_000))
    assert result.finding is None, str(result.finding)


def test_the_same_seeds_give_the_same_bytes_in_two_processes() -> None:
    here = explore(GOSSIP, DRAW, range(20)).digest
    for hash_seed in ("1", "2"):
        there = subprocess.run(
            [sys.executable, "-c", IN_ANOTHER_PROCESS],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": hash_seed},
        )
        assert there.stdout.strip() == here
    assert explore(GOSSIP, DRAW, range(1, 21)).digest != here


class Forgetful(Gossip):
    """Publishes without making the version durable."""

    def publish(self, value: Data) -> Sequence[Effect]:
        super().publish(value)
        return ()


class Overwriting(Gossip):
    """Believes whatever arrives last."""

    def merge(self, entries: Iterable[Entry[Data]]) -> Sequence[Effect]:
        for entry in entries:
            if entry.owner != self.site or self.site not in self.entries:
                self.entries[entry.owner] = entry
        return ()


class Hasty(Gossip):
    """Tells a peer before the version is durable; only a crash between the two effects shows it."""

    def publish(self, value: Data) -> Sequence[Effect]:
        (persist,) = super().publish(value)
        assert isinstance(persist, Persist)
        assert isinstance(persist.state, Entry)
        return (Send((self.site + 1) % self._sites, Entries((persist.state,))), persist)


class Sulking(Gossip):
    """Neither asks nor answers once it has been restarted."""

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        effects = super().handle(event, now_ms)
        if isinstance(event, Started) and event.incarnation > 0:
            self._next_round_ms = None
        sulks = self._next_round_ms is None and isinstance(event, Received)
        return () if sulks and isinstance(event.message, KnownVersions) else effects  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("broken", "checker", "items"),
    [
        (Forgetful, "versions never go backwards", 2),
        (Overwriting, "versions never go backwards", 3),
        (Hasty, "no value out of thin air", 2),
        (Sulking, "sites converge", 2),
    ],
)
def test_a_planted_bug_is_found_and_shrunk(broken: Any, checker: str, items: int) -> None:
    subject = Subject(lambda *site: broken(*site, PARAMS), gossip_checkers)
    finding = explore(subject, DRAW, range(1000)).finding
    assert finding is not None
    assert finding.violation.checker == checker
    assert len(finding.shrunken.faults) + len(finding.shrunken.requests) <= items
    report = str(finding)
    assert f"seed {finding.drawn.seed}" in report
    # What the report prints is all that is needed to see the violation again.
    replayed = subject.run(Scenario.from_json(finding.shrunken.as_json()))
    assert replayed.violation == finding.violation
    assert Subject(gossip_machines(PARAMS), gossip_checkers).run(finding.shrunken).violation is None


class InOrder:
    """Takes it for granted that messages of one sender arrive in order and once."""

    def __init__(self, site: int, sites: int, _generator: np.random.Generator) -> None:
        self.next_to, self.sent, self.last = (site + 1) % sites, 0, 0
        self.broken = False

    def next_timer(self) -> float | None:
        return None

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        if isinstance(event, Asked):
            self.sent += 1
            return (Send(self.next_to, self.sent),)
        if isinstance(event, Received) and isinstance(event.message, int):
            self.broken = event.message != self.last + 1
            self.last = event.message
        return ()


class NeverBroken:
    name = "messages are numbered in a row"

    def after_step(self, step: Step, world: WorldView) -> str | None:
        machine = world.machine(step.site)
        return "not the next number" if machine is not None and machine.broken else None

    def at_end(self, world: WorldView) -> str | None:
        return None


def test_trust_in_order_is_betrayed_by_noise_alone() -> None:
    """The culprit that is left is one noise with one ingredient, without crash, pause or partition."""

    def requests(generator: np.random.Generator, sites: int, horizon_ms: float) -> tuple[Request, ...]:
        return tuple(Request(10.0 * i, 0, i) for i in range(int(horizon_ms) // 10))

    def only_noise(seed: int) -> Scenario:
        scenario = draw_scenario(seed, requests, lambda sites, latency_ms: 500.0)
        kept = tuple(fault for fault in scenario.faults if isinstance(fault, Noise))
        return Scenario(scenario.seed, scenario.latency_ms, scenario.end_ms, kept, scenario.requests)

    finding = explore(Subject(InOrder, lambda: [NeverBroken()]), only_noise, range(100)).finding
    assert finding is not None
    (noise,) = finding.shrunken.faults
    assert isinstance(noise, Noise)
    assert sum(bool(part) for part in (noise.loss, noise.duplicate, noise.jitter_ms)) == 1
    assert len(finding.shrunken.requests) <= 2
