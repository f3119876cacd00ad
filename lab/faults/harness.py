"""Runs the machines of a protocol in virtual time, through the faults of a scenario.

The event loop is the one that plans with overlays. Here it also loses, doubles and delays messages, crashes
and pauses sites, and asks the checkers after every step. At one instant faults come first. A scenario gives
the same events, and the same digest of them, in every process.
"""

from __future__ import annotations

import hashlib
import traceback
from collections import deque
from collections.abc import Sequence
from heapq import heappush
from typing import Any

import msgspec

from lab.faults.checkers import Checker, Crashed, Step, Violation
from lab.faults.faults import Crash, Fault, Pause
from lab.faults.message_delivery import MessageFates
from lab.faults.scenario import Scenario
from mooring.contracts.site_machine import Asked, Effect, Event, MakeMachine
from mooring.virtual_time.event_loop import FAULT, REQUEST, EventLoop

MOST_STEPS = 1_000_000
_REMEMBERED_STEPS = 20


class Harness(EventLoop):
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
        faster.
        """
        self.steps = 0
        self.violation: Violation | None = None
        self._scenario = scenario
        self._checkers = checkers
        self._most_steps = most_steps
        self._fates = MessageFates(scenario.seed, scenario.latency_ms)
        self._paused_until_ms = [0.0] * scenario.sites
        self._crash_after: dict[int, int] = {}
        self._last_steps: deque[Step] = deque(maxlen=_REMEMBERED_STEPS)
        self._encode = msgspec.msgpack.Encoder(order="deterministic").encode if recorded else None
        self._hash = hashlib.blake2b(digest_size=16)
        ends = [
            (at_ms, FAULT, -1, (fault, begins))
            for fault in scenario.faults
            for at_ms, begins in ((fault.at_ms, True), (fault.until_ms, False))
        ]
        asked = [(each.at_ms, REQUEST, each.site, Asked(each.request)) for each in scenario.requests]
        super().__init__(
            scenario.latency_ms, make_machine, scenario.seed, counted=counted, planned=[*ends, *asked]
        )

    @property
    def digest(self) -> str:
        """Stands for every step so far: equal digests, equal runs."""
        return self._hash.hexdigest()

    @property
    def last_steps(self) -> tuple[Step, ...]:
        return tuple(self._last_steps)

    def set_latency_ms(self, latency_ms: Sequence[Sequence[float]]) -> None:
        self._fates.latency_ms = latency_ms

    def finish(self) -> Violation | None:
        """Run to the scenario's end; the first violation ends it early."""
        self.run_until(self._scenario.end_ms)
        if self.violation is None:
            for checker in self._checkers:
                if wrong := checker.at_end(self):
                    self._violated(checker.name, wrong)
                    break
        return self.violation

    def run_until(self, time_ms: float) -> None:
        """Let everything happen up to and including `time_ms`, unless an invariant breaks first."""
        while self.violation is None and self._next(time_ms):
            pass
        if self.violation is None:
            self.now_ms = max(self.now_ms, time_ms)

    def _due(self, priority: int, sequence: int, site: int, what: Any) -> None:
        if priority == FAULT:
            self._fault(*what)
        elif self._paused_until_ms[site] > self.now_ms:
            heappush(self._queue, (self._paused_until_ms[site], priority, sequence, site, what))
        else:
            super()._due(priority, sequence, site, what)

    def _step(self, priority: int, sequence: int, site: int, event: Event) -> None:
        machine = self._machines[site]
        assert machine is not None
        try:
            effects = tuple(machine.handle(event, self.now_ms))
            torn = len(effects) > self._crash_after.get(site, len(effects))
            if torn:
                effects = effects[: self._crash_after.pop(site)]
            for effect in effects:
                self._carry_out(site, effect)
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

    def _carry_out(self, site: int, effect: Effect) -> None:
        if self._encode is not None:
            hash(effect)
        super()._carry_out(site, effect)

    def _delays_ms(self, sender: int, receiver: int) -> Sequence[float]:
        return self._fates.delays_ms(sender, receiver, self.now_ms)

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
        super()._down(site)
        self._record(Step(self.now_ms, FAULT, self._next_sequence(), site, Crashed(), ()))

    def _restart(self, crash: Crash) -> None:
        self._crash_after.pop(crash.site, None)
        if self._machines[crash.site] is None:
            self._start(crash.site)
