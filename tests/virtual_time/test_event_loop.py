"""Machines in virtual time: order, latency, timers, and sites that are lost for a while."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

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
from mooring.virtual_time.event_loop import EventLoop

LATENCY_MS = ((0.0, 10.0, 30.0), (10.0, 0.0, 20.0), (30.0, 20.0, 0.0))


class Counting:
    """Sends what it is asked to the next site, counts durably what it receives, and says so."""

    def __init__(self, site: int, sites: int, generator: np.random.Generator) -> None:
        self.site, self.sites, self.count = site, sites, 0
        self.drawn = float(generator.random())
        self.timer_ms: float | None = None

    def next_timer(self) -> float | None:
        return self.timer_ms

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        match event:
            case Started(durable=durable):
                self.count = durable if isinstance(durable, int) else 0
            case TimerDue():
                self.timer_ms = None
                return (Output("timer"),)
            case Asked(request=("timer", at_ms)):
                self.timer_ms = float(str(at_ms))
            case Asked(request="nowhere"):
                return (Send(self.sites, "lost"),)
            case Asked(request=request):
                return (Send((self.site + 1) % self.sites, request),)
            case Received(message=message):
                self.count += 1
                return (Persist(self.count), Output((message, self.count)))
        return ()


def loop(**more: Any) -> EventLoop:
    return EventLoop(LATENCY_MS, Counting, **more)


def test_a_message_takes_the_latency_that_its_link_has_when_it_is_sent() -> None:
    sites = loop()
    sites.ask(0, "a")
    sites.run_until(5.0)
    sites.set_latency_ms(((0.0, 1.0, 1.0),) * 3)
    sites.ask(0, "b")
    sites.run_until(100.0)
    assert sites.outputs == [(6.0, 1, ("b", 1)), (10.0, 1, ("a", 2))]
    assert sites.now_ms == 100.0


def test_at_one_instant_requests_precede_deliveries_and_timers() -> None:
    sites = loop()
    sites.ask(1, ("timer", 10.0))
    sites.ask(0, "a")
    sites.run_until(9.0)
    assert sites.outputs == []
    sites.run_until(10.0)
    assert [what for _, _, what in sites.outputs] == [("a", 1), "timer"]


def test_a_timer_that_is_set_anew_is_due_once() -> None:
    sites = loop()
    sites.ask(1, ("timer", 10.0))
    sites.run_until(1.0)
    sites.ask(1, ("timer", 20.0))
    sites.run_until(50.0)
    assert sites.outputs == [(20.0, 1, "timer")]


def test_a_site_that_is_lost_misses_what_comes_and_goes_on_from_what_it_persisted() -> None:
    sites = loop()
    sites.ask(0, "a")
    sites.run_until(20.0)
    sites.ask(0, "missed")
    sites.take_down(1)
    assert sites.machine(1) is None
    sites.run_until(40.0)
    sites.bring_up(1)
    sites.ask(0, "b")
    sites.run_until(60.0)
    assert [what for _, _, what in sites.outputs] == [("a", 1), ("b", 2)]


def test_each_start_of_a_site_draws_its_own_numbers_and_the_seed_repeats_them() -> None:
    def drawn() -> list[float]:
        sites = loop(seed=5)
        first = [sites.machine(site).drawn for site in range(3)]
        sites.take_down(2)
        sites.bring_up(2)
        return [*first, sites.machine(2).drawn]

    assert len({*drawn()}) == 4
    assert drawn() == drawn()


def test_messages_are_counted_by_kind_where_that_is_wanted() -> None:
    counted, plain = loop(counted=True), loop()
    for sites in (counted, plain):
        sites.ask(0, "a")
        sites.run_until(50.0)
    assert counted.messages_sent == {"str": 1}
    assert counted.bytes_sent > 0
    assert not plain.messages_sent


def test_a_message_to_a_site_that_is_not_there_is_a_mistake() -> None:
    sites = loop()
    sites.ask(0, "nowhere")
    with pytest.raises(ValueError, match="sends to site 3, there are 3"):
        sites.run_until(1.0)
