"""Runs the machines of many sites in virtual time.

Events are totally ordered by (time, priority, sequence): at one instant sites that start come first, then
requests, deliveries and timers, and among equals the one that was scheduled first. Nothing else decides what
happens next, so the same machines, latencies, seed and requests give the same events in every process.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import Any

import msgspec
import numpy as np

from mooring.contracts.site_machine import (
    Asked,
    Data,
    Effect,
    Event,
    MakeMachine,
    Output,
    Persist,
    Received,
    Send,
    SiteMachine,
    Started,
    TimerDue,
)

FAULT, REQUEST, DELIVERY, TIMER = range(4)
"""Priorities. A site goes down or starts before anything else of that instant."""


class EventLoop:
    """Sites are numbered by the rows of the latencies; all start at once."""

    def __init__(
        self,
        latency_ms: Sequence[Sequence[float]],
        make_machine: MakeMachine,
        seed: int = 0,
        *,
        counted: bool = False,
        planned: Iterable[tuple[float, int, int, Any]] = (),
    ) -> None:
        """`latency_ms`: from a row's site to a column's. `counted` counts messages and their bytes.
        `planned`: (time, priority, site, what) of events that are known before the sites start.
        """
        self.now_ms = 0.0
        self.sites = count = len(latency_ms)
        self.outputs: list[tuple[float, int, Data]] = []
        """(time, site, value): what machines said to their own sites, in order."""
        self.messages_sent: Counter[str] = Counter()
        """By kind, once each, whatever became of them."""
        self.bytes_sent = 0
        self._latency_ms, self._make_machine, self._seed = latency_ms, make_machine, seed
        self._size = msgspec.msgpack.Encoder().encode if counted else None
        self._queue: list[tuple[float, int, int, int, Any]] = []
        self._sequence = 0
        self._machines: list[SiteMachine | None] = [None] * count
        self._durable: list[Any] = [None] * count
        self._incarnation = [-1] * count
        self._timer_ms: list[float | None] = [None] * count
        for time_ms, priority, site, what in planned:
            self._schedule(time_ms, priority, site, what)
        for site in range(count):
            self._start(site)

    def machine(self, site: int) -> Any:
        """The site's state machine; None while the site is down."""
        return self._machines[site]

    def ask(self, site: int, request: Any) -> None:
        """A request of a site's own user, now."""
        self._schedule(self.now_ms, REQUEST, site, Asked(request))

    def set_latency_ms(self, latency_ms: Sequence[Sequence[float]]) -> None:
        """Links change: of messages that are sent from now on."""
        self._latency_ms = latency_ms

    def take_down(self, site: int) -> None:
        """A site is lost, until it is brought up again, or for good."""
        if self._machines[site] is not None:
            self._down(site)

    def bring_up(self, site: int) -> None:
        """It starts again from what it had persisted."""
        if self._machines[site] is None:
            self._start(site)

    def run_until(self, time_ms: float) -> None:
        """Let everything happen up to and including `time_ms`."""
        while self._next(time_ms):
            pass
        self.now_ms = max(self.now_ms, time_ms)

    def _next(self, until_ms: float) -> bool:
        """Handle the next event, if there is one by then."""
        if not self._queue or self._queue[0][0] > until_ms:
            return False
        self.now_ms, priority, sequence, site, what = heappop(self._queue)
        self._due(priority, sequence, site, what)
        return True

    def _due(self, priority: int, sequence: int, site: int, what: Any) -> None:
        if priority == TIMER:
            # A timer that was set anew, or whose machine is gone, is not due any more.
            if self._timer_ms[site] == what:
                self._timer_ms[site] = None
                self._step(priority, sequence, site, TimerDue())
        elif self._machines[site] is not None:
            self._step(priority, sequence, site, what)

    def _schedule(self, time_ms: float, priority: int, site: int, what: Any) -> None:
        heappush(self._queue, (time_ms, priority, self._next_sequence(), site, what))

    def _next_sequence(self) -> int:
        self._sequence += 1
        return self._sequence

    def _step(self, priority: int, sequence: int, site: int, event: Event) -> None:
        machine = self._machines[site]
        assert machine is not None
        for effect in machine.handle(event, self.now_ms):
            self._carry_out(site, effect)
        self._set_timer(site, machine)

    def _carry_out(self, site: int, effect: Effect) -> None:
        match effect:
            case Send():
                self._send(site, effect)
            case Persist(state=state):
                self._durable[site] = state
            case Output(value=value):
                self.outputs.append((self.now_ms, site, value))

    def _send(self, sender: int, effect: Send) -> None:
        if not 0 <= effect.to < self.sites:
            raise ValueError(f"sends to site {effect.to}, there are {self.sites}")
        if self._size is not None:
            self.messages_sent[type(effect.message).__name__] += 1
            self.bytes_sent += len(self._size(effect.message))
        for delay_ms in self._delays_ms(sender, effect.to):
            self._schedule(self.now_ms + delay_ms, DELIVERY, effect.to, Received(sender, effect.message))

    def _delays_ms(self, sender: int, receiver: int) -> Sequence[float]:
        """Of each copy that arrives of the message that is sent now."""
        return (self._latency_ms[sender][receiver],)

    def _set_timer(self, site: int, machine: SiteMachine) -> None:
        wanted_ms = machine.next_timer()
        if wanted_ms is not None and wanted_ms != self._timer_ms[site]:
            if not math.isfinite(wanted_ms):
                raise ValueError(f"the next timer is at {wanted_ms} ms")
            self._schedule(max(wanted_ms, self.now_ms), TIMER, site, wanted_ms)
        self._timer_ms[site] = wanted_ms

    def _start(self, site: int) -> None:
        self._incarnation[site] += 1
        incarnation = self._incarnation[site]
        generator = np.random.default_rng([self._seed, site, incarnation])
        self._machines[site] = self._make_machine(site, self.sites, generator)
        self._step(FAULT, self._next_sequence(), site, Started(incarnation, self._durable[site]))

    def _down(self, site: int) -> None:
        self._machines[site] = self._timer_ms[site] = None
