"""Runs one state machine with a real clock and a disk, and keeps the promises of `contracts/site_machine.py`.

A machine that raises is treated like one that crashed: a new incarnation begins from what was persisted,
which is what every protocol is tested to survive. So is a machine whose state cannot be written, because the
disk is full or broken: its memory is ahead of the disk, and after a restart it would lack what it had sent.
Nothing that follows from that state is sent, and the next incarnation begins once the disk takes its number.

Messages are judged before they get here (`coordination/claims.py`). Should one make a machine fail all the
same, its sender is not listened to for a second, and then for twice as long each time: one member cannot keep
the others' machines down.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mooring.agents.bounded_log import BoundedLog
from mooring.agents.durable_state import DurableState
from mooring.agents.trace_file import TraceFile, TraceLine
from mooring.contracts.hosted_protocol import HostedProtocol
from mooring.contracts.site_machine import (
    Asked,
    Data,
    Effect,
    Event,
    Output,
    Persist,
    Received,
    Send,
    SiteMachine,
    Started,
    TimerDue,
)


class AgentClock:
    """The wall clock's time when the process began, and from there on never backwards."""

    def __init__(self) -> None:
        self._ahead_ms = time.time() * 1000.0 - time.monotonic() * 1000.0

    def now_ms(self) -> float:
        return self._ahead_ms + time.monotonic() * 1000.0


LONGEST_SILENCE_S = 600.0
"""For which a member is not listened to whose messages make a machine fail."""
RESTART_S = 1.0
"""Before a machine that raised, or could not write its state, begins anew, and between two tries. Meanwhile
it receives nothing, as if its site were down."""


@dataclass(frozen=True)
class HostParts:
    """What the machines of one agent share."""

    site: int
    sites: int
    seed: int
    clock: AgentClock
    state: DurableState
    trace: TraceFile
    counts: Counter[str]
    log: BoundedLog
    send: Callable[[str, int, Data], None]
    """Protocol, receiver, message."""
    put_out: Callable[[HostedProtocol, Data], None]


class MachineHost:
    def __init__(self, protocol: HostedProtocol, parts: HostParts) -> None:
        self.protocol = protocol
        self._parts = parts
        self._machine: SiteMachine | None = None
        self._incarnation = self._number = 0
        self._timer: asyncio.TimerHandle | None = None
        self._blamed: dict[int, tuple[float, float]] = {}
        """Member -> for how many seconds it is not listened to, and until when in milliseconds."""

    def start(self, incarnation: int) -> None:
        parts = self._parts
        self._incarnation, self._number = incarnation, 0
        generator = np.random.default_rng([parts.seed, parts.site, incarnation])
        self._machine = self.protocol.make(parts.site, parts.sites, generator)
        self._step(Started(incarnation, parts.state.of(self.protocol.name)))

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._machine = None

    def received(self, sender: int, message: Data) -> None:
        if sender in self._blamed and self._parts.clock.now_ms() < self._blamed[sender][1]:
            self._parts.counts["dropped: its messages made a machine fail"] += 1
            return
        self._step(Received(sender, message))

    def asked(self, request: Data) -> None:
        self._step(Asked(request))

    def _step(self, event: Event) -> None:
        if self._machine is None:
            return
        parts, now_ms = self._parts, self._parts.clock.now_ms()
        try:
            effects = tuple(self._machine.handle(event, now_ms))
            due_ms = self._machine.next_timer()
            took_ms = parts.clock.now_ms() - now_ms
            self._number += 1
            parts.trace.write(
                TraceLine(
                    now_ms,
                    self.protocol.name,
                    parts.sites,
                    parts.seed,
                    parts.site,
                    self._incarnation,
                    self._number,
                    event,
                    effects,
                    took_ms,
                )
            )
            self._carry_out(effects)
        except _NotWritten as failure:
            self._fell_silent(failure)
        except Exception as error:
            self._failed(event, error)
        else:
            self._wake_at(due_ms)

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        """In their order. What is sent leaves the process only after this, so it is never ahead of the
        trace or the disk.
        """
        for effect in effects:
            match effect:
                case Persist(state=state):
                    try:
                        self._parts.state.persist(self.protocol.name, state)
                    except OSError as error:
                        raise _NotWritten from error
                case Send(to=to, message=message):
                    self._parts.send(self.protocol.name, to, message)
                case Output(value=value):
                    self._parts.put_out(self.protocol, value)

    def _wake_at(self, due_ms: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due_ms is not None:
            wait_s = max(0.0, (due_ms - self._parts.clock.now_ms()) / 1000.0)
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._woken, due_ms)

    def _woken(self, due_ms: float) -> None:
        if self._parts.clock.now_ms() < due_ms:  # the loop's clock is coarser than ours
            self._wake_at(due_ms)
        else:
            self._step(TimerDue())

    def _failed(self, event: Event, error: Exception) -> None:
        self._parts.counts["machine failed"] += 1
        said = f"{self.protocol.name} failed at {type(event).__name__} and restarts"
        if isinstance(event, Received) and event.sender not in (self._parts.site, self._parts.sites):
            said += f"; messages of member {event.sender} are dropped for {self._blame(event.sender):g} s"
        self._parts.log.failure(said, error)
        self._begin_later()

    def _blame(self, member: int) -> float:
        before_s, _ = self._blamed.get(member, (RESTART_S / 2.0, 0.0))
        silence_s = min(2.0 * before_s, LONGEST_SILENCE_S)
        self._blamed[member] = silence_s, self._parts.clock.now_ms() + 1e3 * silence_s
        return silence_s

    def _fell_silent(self, failure: _NotWritten) -> None:
        self._parts.counts["state not written"] += 1
        said = f"{self.protocol.name} sends nothing until its state can be written"
        self._parts.log.line(f"{said}: {failure.__cause__}")
        self._begin_later()

    def _begin_later(self) -> None:
        self.stop()
        self._timer = asyncio.get_running_loop().call_later(RESTART_S, self._begin_anew)

    def _begin_anew(self) -> None:
        try:
            incarnation = self._parts.state.begin()
        except OSError as error:
            self._fell_silent(_caused_by(error))
            return
        self.start(incarnation)


class _NotWritten(Exception):
    """A state that the disk did not take; the cause says why."""


def _caused_by(error: OSError) -> _NotWritten:
    failure = _NotWritten()
    failure.__cause__ = error
    return failure
