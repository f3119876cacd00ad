"""Ants through fault schedules: what must hold does, and planted bugs are found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from lab.faults.ants_invariants import (
    CHAINS,
    QUICK,
    ants_checkers,
    ants_scenarios,
    ring_facts,
    some_chain,
)
from lab.faults.exploration import Subject, explore
from lab.faults.harness import Harness
from lab.faults.placing_ants import (
    EndChain,
    HoldChain,
    PlaceChain,
    PlacingLeader,
    PlacingSite,
    SiteMemory,
    ants_machines,
)
from lab.faults.scenario import Request, Scenario
from mooring.algorithms.ants.machines.messages import (
    RoutingAnt,
    RoutingReturn,
)
from mooring.contracts.site_machine import Asked, Effect, Event, MakeMachine, Received, Send, Started

ANTS = Subject(ants_machines(ring_facts, QUICK), ants_checkers)


def test_schedules_of_faults_end_with_every_chain_answered_and_nothing_leaked() -> None:
    found = explore(ANTS, ants_scenarios(), range(40))
    assert found.finding is None, str(found.finding)
    assert found.steps > 8_000


@pytest.mark.soak
def test_a_thousand_schedules() -> None:
    found = explore(ANTS, ants_scenarios(), range(1000, 2000))
    assert found.finding is None, str(found.finding)


def healthy(sites: int, chains: int, *, shares: bool = False) -> Scenario:
    latency_ms = tuple(tuple(10.0 * (a != b) for b in range(sites)) for a in range(sites))
    specs = [some_chain(k, sites, shares=shares) for k in range(chains)]
    asked = tuple(Request(500.0 * k, spec.source, PlaceChain(spec)) for k, spec in enumerate(specs))
    return Scenario(0, latency_ms, 20_000.0, requests=asked)


def statuses(harness: Harness) -> list[str]:
    return [led.status for site in range(harness.sites) for led in harness.machine(site).leader.led.values()]


def test_on_a_healthy_network_all_that_fits_is_placed_and_the_rest_refused_with_a_reason() -> None:
    roomy = ANTS.run(healthy(7, CHAINS))
    assert roomy.violation is None
    assert statuses(roomy) == ["placed"] * CHAINS
    # Twelve tasks of a quarter core on three sites of one core, up to nine tenths each: nine fit at most.
    tight = ANTS.run(healthy(3, CHAINS))
    assert tight.violation is None
    assert sorted(set(statuses(tight))) == ["placed", "refused"]
    reasons = [led.reason for s in range(3) for led in tight.machine(s).leader.led.values() if led.reason]
    assert all("after 4 attempts" in reason for reason in reasons)


def test_what_several_chains_share_ends_with_the_last_of_them() -> None:
    """All of a chain's four rivals fit on three sites if they share, and the load is that of what runs."""
    harness = ANTS.run(healthy(3, CHAINS, shares=True))
    assert harness.violation is None
    assert statuses(harness) == ["placed"] * CHAINS
    deployed = [harness.machine(site).deployed for site in range(3)]
    reserved = [each for own in deployed for each in own.reservations.values()]
    shared = sum(each.segment.shared for each in reserved)
    assert shared > 0
    assert sum(own.totals[1] for own in deployed) == pytest.approx(0.25 * (3 * CHAINS - shared))
    for number in range(CHAINS - 1):
        harness.ask(0, EndChain(number))
        harness.run_until(harness.now_ms + 100.0)
        assert harness.violation is None, harness.violation
    last = sum(own.totals[1] for own in deployed)
    assert last == pytest.approx(0.25 * 3)
    harness.ask(0, EndChain(CHAINS - 1))
    harness.run_until(harness.now_ms + 100.0)
    assert not any(own.reservations for own in deployed)


class EndsWithTheFirstReader(PlacingSite):
    """What is shared is gone when the chain that ran it first leaves."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.deployed.hand_over = lambda: None  # type: ignore[method-assign]


class NeverExpires(PlacingSite):
    """Reservations stay although nobody renews them."""

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        self.deployed.expire = lambda now_ms: False  # type: ignore[method-assign]
        self.deployed.next_expiry_ms = lambda: None  # type: ignore[method-assign]
        return super().handle(event, now_ms)


class WithoutRecheck(PlacingSite):
    """Enforcement believes the scout's report, however old."""

    def _enforce(self, ant: Any, now_ms: float) -> list[Effect]:
        segment = ant.segments[ant.position]
        self.deployed.reserve(ant.chain, ant.attempt, segment, now_ms + self._params.reservation_ms)
        return super()._enforce(ant, now_ms)


class WaitsForEver(PlacingSite):
    """Leaders do not give up ants that were lost."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)

        class Patient(PlacingLeader):
            def timer(self, now_ms: float) -> list[Effect]:
                for hunt in self._hunts.values():
                    hunt.give_up_lost = lambda now_ms: None  # type: ignore[method-assign]
                    hunt.next_timer = lambda: None  # type: ignore[method-assign]
                return super().timer(now_ms)

            def next_timer(self) -> float | None:
                return min(self._next_hold_ms.values(), default=None)

        self.leader = Patient(self._params)


class ForgetsReservations(PlacingSite):
    """After a crash the site knows nothing of what it has, and takes no hold for an answer."""

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        if isinstance(event, Started) and isinstance(event.durable, SiteMemory):
            event = Started(event.incarnation, SiteMemory((), event.durable.led))
        if isinstance(event, Received) and isinstance(event.message, HoldChain):
            return ()
        return super().handle(event, now_ms)


class CountsTwice(PlacingSite):
    """A doubled enforcement ant, or a hold, reserves again."""

    def _hold(self, sender: int, message: HoldChain, now_ms: float) -> list[Effect]:
        found = super()._hold(sender, message, now_ms)
        self.deployed.totals[0] += 1.0
        return found


def planted(kind: Callable[..., PlacingSite]) -> Subject:
    def make(site: int, sites: int, _generator: np.random.Generator) -> PlacingSite:
        return kind(site, ring_facts(sites)[site], QUICK)

    machines: MakeMachine = make
    return Subject(machines, ants_checkers)


@pytest.mark.parametrize(
    ("bug", "invariant"),
    [
        (NeverExpires, "no reservation is leaked"),
        (WithoutRecheck, "load limits and memory hold"),
        (WaitsForEver, "every chain is answered"),
        (ForgetsReservations, "every chain is answered"),
        (CountsTwice, "totals and probabilities are right"),
        (EndsWithTheFirstReader, "what is shared ends with its last reader"),
    ],
)
def test_planted_bugs_are_found_and_made_small(bug: Callable[..., PlacingSite], invariant: str) -> None:
    found = explore(planted(bug), ants_scenarios(), range(200), most_shrinking_runs=40).finding
    assert found is not None
    assert found.violation.checker == invariant


def test_an_ant_that_comes_twice_counts_once() -> None:
    """Of a doubled routing ant only the first return lets the leader send another."""
    site = PlacingSite(0, ring_facts(3)[0], QUICK)
    site.handle(Started(0, None), 0.0)
    spec = some_chain(0, 3)
    sent = site.handle(Asked(PlaceChain(spec)), 0.0)
    ants = [effect.message for effect in sent if isinstance(effect, Send)]
    assert len(ants) == QUICK.at_once
    assert isinstance(ants[0], RoutingAnt)
    there = msgspec.structs.replace(
        ants[0], path=(0, spec.destination), elapsed_s=(0.0, 0.1), age_s=(0.0, 0.1), now_s=0.1, clock_s=0.1
    )
    walked = RoutingReturn(there, 0)
    first = site.handle(Received(1, walked), 50.0)
    again = site.handle(Received(1, walked), 51.0)
    assert len([e for e in first if isinstance(e, Send)]) == 1
    assert [e for e in again if isinstance(e, Send)] == []
