"""Virtual time for protocols: order, delivery, crashes, pauses, and what the harness itself notices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from lab.faults.checkers import Crashed, Step, WorldView
from lab.faults.faults import Crash, Fault, Noise, Partition, Pause
from lab.faults.harness import Harness
from lab.faults.scenario import Request, Scenario
from mooring.contracts.site_machine import (
    Asked,
    Effect,
    Event,
    Output,
    Persist,
    Received,
    Send,
    Started,
    TimerDue,
)


class Forwarder:
    """Sends what it is asked to the next site, keeps count durably, and notes when things happen."""

    def __init__(self, site: int, sites: int, _generator: np.random.Generator) -> None:
        self.site, self.sites = site, sites
        self.kept: Any = None
        self.seen: list[tuple[float, Event]] = []
        self.timer_ms: float | None = None

    def next_timer(self) -> float | None:
        return self.timer_ms

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        self.seen.append((now_ms, event))
        match event:
            case Started(durable=durable):
                self.kept = durable
            case TimerDue():
                self.timer_ms = None
            case Asked(request=("timer", at_ms)):
                self.timer_ms = float(str(at_ms))
            case Asked(request=request):
                self.kept = request
                return (Persist(request), Send((self.site + 1) % self.sites, request))
        return ()


class Recorder:
    name = "recorder"

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def after_step(self, step: Step, world: WorldView) -> str | None:
        self.steps.append(step)
        return None

    def at_end(self, world: WorldView) -> str | None:
        return None


LATENCY_MS = ((0.0, 10.0, 30.0), (10.0, 0.0, 20.0), (30.0, 20.0, 0.0))


def run(
    *requests: Request, faults: tuple[Fault, ...] = (), make: Any = Forwarder, most_steps: int = 10_000
) -> tuple[Harness, list[Step]]:
    recorder = Recorder()
    scenario = Scenario(seed=1, latency_ms=LATENCY_MS, end_ms=1000.0, faults=faults, requests=requests)
    harness = Harness(scenario, make, [recorder], most_steps=most_steps)
    harness.finish()
    return harness, recorder.steps


def received(harness: Harness, site: int) -> list[tuple[float, object]]:
    return [(at, event.message) for at, event in harness.machine(site).seen if isinstance(event, Received)]


def test_a_message_takes_the_latency_of_its_link() -> None:
    harness, _ = run(Request(5.0, 0, "a"), Request(5.0, 1, "b"))
    assert received(harness, 1) == [(15.0, "a")]
    assert received(harness, 2) == [(25.0, "b")]
    assert harness.now_ms == 1000.0


def test_at_one_instant_faults_precede_requests_deliveries_and_timers() -> None:
    requests = (Request(0.0, 1, ("timer", 20.0)), Request(10.0, 0, "x"), Request(20.0, 1, "y"))
    _, steps = run(*requests, faults=(Crash(20.0, 2, 5.0),))
    at_20 = [(step.site, type(step.event)) for step in steps if step.time_ms == 20.0]
    assert at_20 == [(2, Crashed), (1, Asked), (1, Received), (1, TimerDue)]


def test_steps_carry_keys_that_never_repeat() -> None:
    _, steps = run(Request(5.0, 0, "a"), Request(5.0, 0, "b"), faults=(Crash(5.0, 1, 0.0),))
    keys = [(step.time_ms, step.priority, step.sequence) for step in steps]
    assert len(set(keys)) == len(keys)
    assert [step.time_ms for step in steps] == sorted(step.time_ms for step in steps)


def test_a_crash_keeps_what_is_durable_and_loses_the_rest() -> None:
    harness, steps = run(Request(5.0, 0, "a"), faults=(Crash(50.0, 0, 20.0),))
    machine = harness.machine(0)
    assert machine.kept == "a"
    assert machine.seen == [(70.0, Started(1, "a"))]
    assert Crashed() in [step.event for step in steps]


def test_a_site_that_is_down_misses_requests_messages_and_timers() -> None:
    requests = (Request(0.0, 1, ("timer", 15.0)), Request(3.0, 0, "lost"), Request(14.0, 1, "lost too"))
    harness, _ = run(*requests, faults=(Crash(12.0, 1, 20.0),))
    assert harness.machine(1).seen == [(32.0, Started(1, None))]


def test_a_message_in_flight_reaches_the_next_incarnation() -> None:
    harness, _ = run(Request(5.0, 1, "a"), faults=(Crash(6.0, 2, 1.0),))
    assert received(harness, 2) == [(25.0, "a")]


@pytest.mark.parametrize(("after_effects", "kept", "sent"), [(0, None, 0), (1, "a", 0), (2, "a", 1)])
def test_a_crash_can_cut_off_the_effects_of_an_event(after_effects: int, kept: object, sent: int) -> None:
    harness, _ = run(Request(5.0, 0, "a"), faults=(Crash(4.0, 0, 30.0, after_effects),))
    assert harness.machine(0).kept == kept
    assert len(received(harness, 1)) == sent


def test_a_paused_site_handles_everything_afterwards_in_order() -> None:
    requests = (Request(0.0, 1, ("timer", 12.0)), Request(1.0, 0, "a"), Request(30.0, 1, "own"))
    harness, _ = run(*requests, faults=(Pause(5.0, 60.0, 1),))
    after = [(at, type(event)) for at, event in harness.machine(1).seen][2:]
    assert after == [(60.0, Asked), (60.0, Received), (60.0, TimerDue)]


@pytest.mark.parametrize(
    ("both_ways", "to_inside", "to_outside"), [(True, False, False), (False, True, False)]
)
def test_a_partition_cuts_one_way_or_both(both_ways: bool, to_inside: bool, to_outside: bool) -> None:
    faults = (Partition(0.0, 50.0, (1,), both_ways),)
    requests = (Request(5.0, 0, "in"), Request(5.0, 1, "out"), Request(60.0, 1, "healed"))
    harness, _ = run(*requests, faults=faults)
    assert ("in" in [message for _, message in received(harness, 1)]) == to_inside
    assert ("out" in [message for _, message in received(harness, 2)]) == to_outside
    assert (80.0, "healed") in received(harness, 2)


def test_noise_loses_doubles_and_reorders() -> None:
    requests = tuple(Request(float(i), 0, i) for i in range(200))
    lossy, _ = run(*requests, faults=(Noise(0.0, 500.0, loss=0.3),))
    assert 100 < len(received(lossy, 1)) < 180
    doubled, _ = run(*requests, faults=(Noise(0.0, 500.0, duplicate=0.3),))
    assert 230 < len(received(doubled, 1)) < 290
    late, _ = run(*requests, faults=(Noise(0.0, 500.0, jitter_ms=50.0),))
    order = [message for _, message in received(late, 1)]
    assert sorted(order) == list(range(200)) != order  # type: ignore[type-var]


def test_the_fate_of_a_message_does_not_change_when_another_link_is_used() -> None:
    noise = (Noise(0.0, 500.0, loss=0.5),)
    requests = tuple(Request(float(i), 0, i) for i in range(50))
    alone, _ = run(*requests, faults=noise)
    beside, _ = run(*requests, *(Request(i + 0.5, 1, i) for i in range(50)), faults=noise)
    assert received(alone, 1) == received(beside, 1)


def test_a_run_can_be_stepped() -> None:
    scenario = Scenario(seed=1, latency_ms=LATENCY_MS, end_ms=100.0, requests=(Request(5.0, 0, "a"),))
    harness = Harness(scenario, Forwarder)
    harness.run_until(14.9)
    assert received(harness, 1) == []
    assert harness.now_ms == 14.9
    harness.run_until(15.0)
    assert received(harness, 1) == [(15.0, "a")]


class Misbehaving(Forwarder):
    answer: tuple[Effect, ...] = ()

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        return self.answer if isinstance(event, Asked) else ()


class Raising(Forwarder):
    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        if isinstance(event, Asked):
            raise KeyError("lost my mind")
        return ()


class Restless(Forwarder):
    def next_timer(self) -> float | None:
        return 0.0


class Timeless(Forwarder):
    def next_timer(self) -> float | None:
        return float("nan")


class SendsMutable(Misbehaving):
    answer = (Output(["mutable"]),)  # type: ignore[arg-type]


class SendsNowhere(Misbehaving):
    answer = (Send(99, "x"),)


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (Raising, "lost my mind"),
        (Restless, "no end"),
        (Timeless, "timer is at nan"),
        (SendsMutable, "unhashable"),
        (SendsNowhere, "site 99"),
    ],
)
def test_a_machine_that_breaks_the_contract_is_a_violation(make: Any, what: str) -> None:
    harness, _ = run(Request(5.0, 0, "a"), make=make)
    assert harness.violation is not None
    assert what in harness.violation.message


def test_nothing_happens_after_a_violation() -> None:
    class Once(Recorder):
        def after_step(self, step: Step, world: WorldView) -> str | None:
            super().after_step(step, world)
            return "broken" if isinstance(step.event, Asked) else None

    checker = Once()
    scenario = Scenario(1, LATENCY_MS, 100.0, (), (Request(5.0, 0, "a"), Request(6.0, 0, "b")))
    harness = Harness(scenario, Forwarder, [checker])
    assert harness.finish() == harness.violation
    assert checker.steps[-1].event == Asked("a")
    assert harness.now_ms == 5.0
