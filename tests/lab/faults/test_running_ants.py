"""Ants of running queries with the mover through fault schedules: what must hold does, planted bugs are
found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest

from lab.faults.exploration import explore
from lab.faults.optimiser_invariants import CHAIN, GROUPS, some_refused
from lab.faults.runner_model import RunSubject
from lab.faults.running_ants_invariants import (
    OFTEN,
    QUICK,
    full_homes,
    running_ants_checkers,
    running_ants_scenarios,
    running_colony,
)
from lab.faults.scenario import Scenario
from mooring.algorithms.ants.machines.running_messages import HoldingAnt
from mooring.algorithms.ants.machines.running_site import RunningSite, running_machines
from mooring.algorithms.ants.machines.site_state import RunningHere
from mooring.contracts.site_machine import Effect, Event, Received, Started
from mooring.coordination.move_messages import NOWHERE, Accepted, Answer, StartedAt

ANTS = RunSubject(
    running_machines(running_colony, QUICK, OFTEN),
    running_ants_checkers,
    homes=full_homes,
    judge=some_refused,
)


def test_schedules_of_faults_end_with_everything_running_once_and_nothing_held() -> None:
    found = explore(ANTS, running_ants_scenarios(), range(30))
    assert found.finding is None, str(found.finding)
    assert found.steps > 8_000


@pytest.mark.soak
def test_a_thousand_schedules() -> None:
    found = explore(ANTS, running_ants_scenarios(), range(1000, 2000))
    assert found.finding is None, str(found.finding)


def healthy(sites: int) -> Scenario:
    latency_ms = tuple(tuple(10.0 * (a != b) for b in range(sites + 1)) for a in range(sites + 1))
    return Scenario(0, latency_ms, 8_000.0)


def test_on_a_healthy_network_a_full_site_is_left_and_then_nothing_moves() -> None:
    harness = ANTS.run(healthy(5))
    assert harness.violation is None, harness.violation
    runner = harness.machine(5)
    at = [runner.targets[fragment].place.site for fragment in range(GROUPS * CHAIN)]
    assert max(at.count(site) for site in set(at)) <= 2
    starts = sum(runner.ground.epochs)
    assert starts <= 3 * GROUPS * CHAIN
    longer = ANTS.run(Scenario(0, healthy(5).latency_ms, 16_000.0))
    assert sum(longer.machine(5).ground.epochs) == starts


class LetsGoEarly(RunningSite):
    """What is held is let go of as soon as the plan is accepted."""

    def _answered(self, answer: Answer) -> list[Effect]:
        if isinstance(answer, Accepted):
            self.residence.let_go(answer.id)
        return super()._answered(answer)


class NeverAsks(RunningSite):
    """A site waits for an answer for ever."""

    def _say_again(self, now_ms: float) -> list[Effect]:
        self._heard = dict.fromkeys(self.residence.held, self._round + 1)
        return super()._say_again(now_ms)


class HoldsUnchecked(RunningSite):
    """Enforcement believes the scout's report, however old."""

    def _why_not(self, ant: HoldingAnt) -> str | None:
        return None


class CountsNothingHeld(RunningSite):
    """What is held for others is free for everybody else."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)

        class Forgetful(RunningHere):
            def _flows(self, without: int) -> Any:
                held, self.held = self.held, {}
                yield from super()._flows(without)
                self.held = held

        self.residence.__class__ = Forgetful


class ForgetsHeld(RunningSite):
    """After a crash a site knows nothing of what it held."""

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        if isinstance(event, Started):
            event = Started(event.incarnation, None)
        return super().handle(event, now_ms)


class DeafToOthers(RunningSite):
    """Whereabouts that do not concern this site are not learnt."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)

        class Deaf(RunningHere):
            def learn(self, places: Iterable[StartedAt]) -> set[int]:
                return super().learn(place for place in places if place.site in (self.site, NOWHERE))

        self.residence.__class__ = Deaf


@pytest.mark.parametrize(
    ("bug", "seed", "invariant"),
    [
        (LetsGoEarly, 0, "what was accepted is held"),
        (NeverAsks, 0, "proposals and leases come to an end"),
        (HoldsUnchecked, 35, "load limits hold"),
        (CountsNothingHeld, 35, "load limits hold"),
        (ForgetsHeld, 10, "what was accepted is held"),
        (DeafToOthers, 0, "whereabouts reach everybody"),
    ],
)
def test_planted_bugs_are_found(bug: Callable[..., RunningSite], seed: int, invariant: str) -> None:
    """From a seed on near which it shows."""

    def make(site: int, sites: int, _generator: np.random.Generator) -> RunningSite:
        return bug(site, sites, QUICK, OFTEN, running_colony(sites)[site])

    subject = RunSubject(make, running_ants_checkers, homes=full_homes, judge=some_refused)
    found = explore(subject, running_ants_scenarios(), range(seed, seed + 300), most_shrinking_runs=1).finding
    assert found is not None
    assert found.violation.checker == invariant


def test_an_answer_to_what_was_never_held_changes_nothing() -> None:
    site = RunningSite(0, 3, QUICK, OFTEN, running_colony(3)[0])
    site.handle(Started(0, None), 0.0)
    before = site.memory
    site.handle(Received(3, Accepted((0, 0, 1))), 1.0)
    assert site.memory == before
