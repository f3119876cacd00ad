"""Traces of agents, held against the invariants that the harness checks.

The machines are built anew and handed every event that their agents recorded, in the order of time. They must
answer with the very effects that were recorded, and the checkers look at them after every step as they do in
virtual time. For traces of one machine: clocks of several do not order what happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from lab.faults.checkers import Checker, Crashed, Step, Violation
from mooring.agents.trace_file import TraceLine
from mooring.contracts.hosted_protocol import HostedProtocol
from mooring.contracts.site_machine import Effect, Event, Persist, SiteMachine, Started
from mooring.virtual_time.event_loop import FAULT, TIMER


class _RawLine(msgspec.Struct):
    """A trace line before the protocol's types are put on what it holds."""

    time_ms: float
    protocol: str
    sites: int
    seed: int
    site: int
    incarnation: int
    number: int
    event: dict[str, Any]
    effects: list[dict[str, Any]]


def read_trace(path: Path, protocol: HostedProtocol) -> list[TraceLine]:
    """Of one agent; a line that a kill cut short is left out."""
    lines: list[TraceLine] = []
    older = path.with_name(path.name + ".1")
    for file in (older, path):
        for text in file.read_bytes().splitlines() if file.is_file() else ():
            try:
                raw = msgspec.json.decode(text, type=_RawLine)
            except msgspec.DecodeError:
                continue
            if raw.protocol == protocol.name:
                lines.append(_typed(raw, protocol))
    return lines


def _typed(raw: _RawLine, protocol: HostedProtocol) -> TraceLine:
    types = {
        "durable": protocol.durable | None,
        "state": protocol.durable,
        "message": protocol.messages,
        "request": protocol.requests,
        "value": protocol.outputs,
    }
    for part in (raw.event, *raw.effects):
        for field, kind in types.items():
            if field in part and kind is not None:
                part[field] = msgspec.convert(part[field], kind)
    event: Event = msgspec.convert(raw.event, Event)
    effects = tuple(msgspec.convert(effect, Effect) for effect in raw.effects)
    return TraceLine(
        raw.time_ms,
        raw.protocol,
        raw.sites,
        raw.seed,
        raw.site,
        raw.incarnation,
        raw.number,
        event,
        effects,
    )


class TraceReplay:
    """One replay; what it shows to checkers is the world as it was at each step."""

    def __init__(self, protocol: HostedProtocol, traces: Sequence[Sequence[TraceLine]]) -> None:
        self.now_ms = 0.0
        self.steps = 0
        self._protocol = protocol
        self._lines = sorted(
            (line for trace in traces for line in _ends_marked(trace)), key=lambda line: line[0].time_ms
        )
        self.sites = self._lines[0][0].sites if self._lines else 0
        self._machines: list[SiteMachine | None] = [None] * self.sites

    def machine(self, site: int) -> Any:
        return self._machines[site]

    def check(self, checkers: Sequence[Checker]) -> Violation | None:
        """The first violation of any of them, of the last step's end too; None if all holds."""
        for line, ended, effects in self._lines:
            self.now_ms = line.time_ms
            self.steps += 1
            if wrong := self._repeat(line):
                return Violation("machines answer as they did", line.time_ms, wrong)
            steps = [self._step(line, line.event, effects)]
            if ended:
                self._machines[line.site] = None
                steps.append(self._step(line, Crashed(), ()))
            for step in steps:
                for checker in checkers:
                    if said := checker.after_step(step, self):
                        return Violation(checker.name, line.time_ms, said)
        for checker in checkers:
            if said := checker.at_end(self):
                return Violation(checker.name, self.now_ms, said)
        return None

    def _repeat(self, line: TraceLine) -> str | None:
        if isinstance(line.event, Started):
            generator = np.random.default_rng([line.seed, line.site, line.incarnation])
            self._machines[line.site] = self._protocol.make(line.site, line.sites, generator)
        machine = self._machines[line.site]
        if machine is None:
            return f"site {line.site} handled {line.event} without having been started"
        effects = tuple(machine.handle(line.event, line.time_ms))
        machine.next_timer()
        if effects == line.effects:
            return None
        return f"site {line.site}, {line.event}: recorded {line.effects}, repeated {effects}"

    def _step(self, line: TraceLine, event: Event | Crashed, effects: tuple[Effect, ...]) -> Step:
        priority = FAULT if isinstance(event, Started | Crashed) else TIMER
        return Step(line.time_ms, priority, self.steps, line.site, event, effects)


def _ends_marked(trace: Sequence[TraceLine]) -> list[tuple[TraceLine, bool, tuple[Effect, ...]]]:
    """Each line with whether its incarnation ended there, and the effects that were carried out."""
    marked = []
    following: list[Event | None] = [line.event for line in trace[1:]]
    for line, after in zip(trace, [*following, None], strict=False):
        ended = isinstance(after, Started)
        effects = _carried_out(line.effects, after.durable) if isinstance(after, Started) else line.effects
        marked.append((line, ended, effects))
    return marked


def _carried_out(effects: tuple[Effect, ...], came_back: object) -> tuple[Effect, ...]:
    """Of the last step before a kill: none from the first `Persist` on that the disk knows nothing of."""
    kept = [i for i, effect in enumerate(effects) if isinstance(effect, Persist)]
    reached = [i for i in kept if isinstance(e := effects[i], Persist) and e.state == came_back]
    if not kept or (reached and reached[-1] == kept[-1]):
        return effects
    return effects[: kept[kept.index(reached[-1]) + 1] if reached else kept[0]]
