"""Runs the machines of a protocol in virtual time, through the faults of a scenario.

Events are totally ordered by (time, priority, sequence): at one instant faults come first, then requests,
deliveries and timers, and among equals the one that was scheduled first. Nothing else decides what happens
next, so a scenario gives the same events, and the same digest of them, in every process.
"""

from __future__ import annotations

import hashlib
import math
import traceback
from collections import Counter, deque
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

import msgspec
import numpy as np

from mooring.contracts.site_machine import (
    Asked,
    Event,
    MakeMachine,
    Persist,
    Received,
    Send,
    SiteMachine,
    Started,
    TimerDue,
)
from mooring.virtual_time.checkers import Checker, Crashed, Step, Violation
from mooring.virtual_time.faults import Crash, Fault, Pause
from mooring.virtual_time.message_delivery import MessageFates
from mooring.virtual_time.scenario import Scenario

FAULT, REQUEST, DELIVERY, TIMER = range(4)

MOST_STEPS = 1_000_000
_REMEMBERED_STEPS = 20


class Harness:
    """One run. Step it with `run_until`; `finish` runs it to its end and asks the checkers for their last
    word.
    """

    def __init__(
        self,
        scenario: Scenario,
        make_machine: MakeMachine,
        checkers: Sequence[Checker] = (),
        *,
        recorded: bool = True,
        counted: bool = False,
        most_steps: int = MOST_STEPS,
    ) -> None:
        """`recorded` keeps the digest and checks that what is sent and kept is frozen; off, large runs go
        faster. `counted` counts messages and their bytes.
        """
        self.now_ms = 0.0
        self.steps = 0
        self.violation: Violation | None = None
        self._scenario = scenario
        self._make_machine = make_machine
        self._checkers = checkers
        self._most_steps = most_steps
        self._fates = MessageFates(scenario.seed, scenario.latency_ms)
        self._queue: list[tuple[float, int, int, int, Any]] = []
        self._sequence = 0
        self.sites = count = scenario.sites
        self._machines: list[SiteMachine | None] = [None] * count
        self._durable: list[Any] = [None] * count
        self._incarnation = [-1] * count
        self._timer_ms: list[float | None] = [None] * count
        self._paused_until_ms = [0.0] * count
        self._crash_after: dict[int, int] = {}
        self._last_steps: deque[Step] = deque(maxlen=_REMEMBERED_STEPS)
        self._encode = msgspec.msgpack.Encoder(order="deterministic").encode if recorded else None
        self._hash = hashlib.blake2b(digest_size=16)
        self.messages_sent: Counter[str] = Counter()
        """By kind, once each, whatever became of them."""
        self.bytes_sent = 0
        self._size = msgspec.msgpack.Encoder().encode if counted else None
        for fault in scenario.faults:
            self._schedule(fault.at_ms, FAULT, -1, (fault, True))
            self._schedule(fault.until_ms, FAULT, -1, (fault, False))
        for request in scenario.requests:
            self._schedule(request.at_ms, REQUEST, request.site, Asked(request.request))
        for site in range(count):
            self._start(site)

    def machine(self, site: int) -> Any:
        """The site's state machine; None while the site is down."""
        return self._machines[site]

    @property
    def digest(self) -> str:
        """Stands for every step so far: equal digests, equal runs."""
        return self._hash.hexdigest()

    @property
    def last_steps(self) -> tuple[Step, ...]:
        return tuple(self._last_steps)

    def ask(self, site: int, request: Any) -> None:
        """A request of a site's own user beyond those of the scenario, now."""
        self._schedule(self.now_ms, REQUEST, site, Asked(request))

    def set_latency_ms(self, latency_ms: Sequence[Sequence[float]]) -> None:
        """Links change: of messages that are sent from now on."""
        self._fates.latency_ms = latency_ms

    def take_down(self, site: int) -> None:
        """A site is lost, until it is brought up again, or for good."""
        if self._machines[site] is not None:
            self._down(site)

    def bring_up(self, site: int) -> None:
        if self._machines[site] is None:
            self._start(site)

    def finish(self) -> Violation | None:
        """Run to the scenario's end; the first violation ends it early."""
        if self.run_until(self._scenario.end_ms) is None:
            for checker in self._checkers:
                if wrong := checker.at_end(self):
                    self._violated(checker.name, wrong)
                    break
        return self.violation

    def run_until(self, time_ms: float) -> Violation | None:
        """Let everything happen up to and including `time_ms`, unless an invariant breaks first."""
        queue = self._queue
        while queue and queue[0][0] <= time_ms and self.violation is None:
            self.now_ms, priority, sequence, site, what = heappop(queue)
            if priority == FAULT:
                fault, begins = what
                self._fault(fault, begins)
            elif self._paused_until_ms[site] > self.now_ms:
                heappush(queue, (self._paused_until_ms[site], priority, sequence, site, what))
            elif priority == TIMER:
                # A timer that was set anew, or whose machine is gone, is not due any more.
                if self._timer_ms[site] == what:
                    self._timer_ms[site] = None
                    self._step(priority, sequence, site, TimerDue())
            elif self._machines[site] is not None:
                self._step(priority, sequence, site, what)
        if self.violation is None:
            self.now_ms = max(self.now_ms, time_ms)
        return self.violation

    def _schedule(self, time_ms: float, priority: int, site: int, what: Any) -> None:
        heappush(self._queue, (time_ms, priority, self._next_sequence(), site, what))

    def _next_sequence(self) -> int:
        self._sequence += 1
        return self._sequence

    def _step(self, priority: int, sequence: int, site: int, event: Event) -> None:
        machine = self._machines[site]
        assert machine is not None
        try:
            effects = tuple(machine.handle(event, self.now_ms))
            torn = len(effects) > self._crash_after.get(site, len(effects))
            if torn:
                effects = effects[: self._crash_after.pop(site)]
            for effect in effects:
                if self._encode is not None:
                    hash(effect)
                if isinstance(effect, Send):
                    self._send(site, effect)
                elif isinstance(effect, Persist):
                    self._durable[site] = effect.state
            if not torn:
                self._set_timer(site, machine)
        except Exception:
            self._violated("handles every event", f"site {site}, {event}:\n{traceback.format_exc()}")
            return
        if torn:
            self._machines[site] = None
        self._record(Step(self.now_ms, priority, sequence, site, event, effects))
        if torn:
            self._down(site)

    def _send(self, sender: int, effect: Send) -> None:
        if not 0 <= effect.to < self.sites:
            raise ValueError(f"sends to site {effect.to}, there are {self.sites}")
        if self._size is not None:
            self.messages_sent[type(effect.message).__name__] += 1
            self.bytes_sent += len(self._size(effect.message))
        for delay_ms in self._fates.delays_ms(sender, effect.to, self.now_ms):
            self._schedule(self.now_ms + delay_ms, DELIVERY, effect.to, Received(sender, effect.message))

    def _set_timer(self, site: int, machine: SiteMachine) -> None:
        wanted_ms = machine.next_timer()
        if wanted_ms is not None and wanted_ms != self._timer_ms[site]:
            if not math.isfinite(wanted_ms):
                raise ValueError(f"the next timer is at {wanted_ms} ms")
            self._schedule(max(wanted_ms, self.now_ms), TIMER, site, wanted_ms)
        self._timer_ms[site] = wanted_ms

    def _record(self, step: Step) -> None:
        self.steps += 1
        self._last_steps.append(step)
        if self._encode is not None:
            self._hash.update(self._encode(step))
        for checker in self._checkers:
            if wrong := checker.after_step(step, self):
                self._violated(checker.name, wrong)
                return
        if self.steps >= self._most_steps:
            self._violated("comes to rest", f"{self.steps} steps and no end")

    def _violated(self, checker: str, message: str) -> None:
        if self.violation is None:
            self.violation = Violation(checker, self.now_ms, message)

    def _start(self, site: int) -> None:
        self._incarnation[site] += 1
        incarnation = self._incarnation[site]
        generator = np.random.default_rng([self._scenario.seed, site, incarnation])
        self._machines[site] = self._make_machine(site, self.sites, generator)
        self._step(FAULT, self._next_sequence(), site, Started(incarnation, self._durable[site]))

    def _fault(self, fault: Fault, begins: bool) -> None:
        match fault:
            case Crash():
                self._crash(fault) if begins else self._restart(fault)
            case Pause():
                if begins:
                    self._paused_until_ms[fault.site] = max(self._paused_until_ms[fault.site], fault.until_ms)
            case _:
                (self._fates.begin if begins else self._fates.end)(fault)

    def _crash(self, crash: Crash) -> None:
        if self._machines[crash.site] is None:
            return
        if crash.after_effects is not None:
            self._crash_after[crash.site] = crash.after_effects
            return
        self._down(crash.site)

    def _down(self, site: int) -> None:
        self._machines[site] = self._timer_ms[site] = None
        self._record(Step(self.now_ms, FAULT, self._next_sequence(), site, Crashed(), ()))

    def _restart(self, crash: Crash) -> None:
        self._crash_after.pop(crash.site, None)
        if self._machines[crash.site] is None:
            self._start(crash.site)
