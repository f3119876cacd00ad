"""A member that says well-typed nonsense, among others that are honest, in virtual time.

Each machine stands behind the door that an agent has: what comes in is decoded and judged. The liar hosts an
honest machine, changes what that says, and sends messages of its own making, of every type of the protocol.
"""

from __future__ import annotations

import typing
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from lab.faults.harness import Harness
from lab.faults.leases.world import shared_queries
from lab.faults.optimiser_invariants import CAPACITY, chain_homes, chain_layout
from lab.faults.runner_model import JudgedMover
from lab.faults.running_ants_invariants import OFTEN, QUICK, full_homes, running_colony
from lab.faults.scenario import Request, Scenario
from mooring.agents.survey_agents import hosted_survey
from mooring.agents.transport.frames import FrameError
from mooring.agents.transport.wire import Envelope, decode, judged
from mooring.algorithms.ants.hosted import hosted_ants
from mooring.algorithms.ants.machines.running_messages import AskColony
from mooring.algorithms.overlay.hosted import hosted_overlays
from mooring.algorithms.overlay.leases.adaptation_messages import QueryMeasured
from mooring.algorithms.overlay.leases.lease_messages import AskOperators, KnownOperators
from mooring.algorithms.relaxation.hosted import hosted_optimisers
from mooring.algorithms.relaxation.machines.messages import AskFragments, KnownFragments, MeasuredCapacity
from mooring.algorithms.relaxation.machines.params import OptimiserParams
from mooring.contracts.hosted_protocol import HostedProtocol
from mooring.contracts.site_machine import (
    Asked,
    Data,
    Effect,
    Event,
    Output,
    Received,
    Send,
    SiteMachine,
    Started,
    TimerDue,
)
from mooring.coordination.gossip import GossipParams
from mooring.coordination.move_messages import StartedAt, Whereabouts
from mooring.coordination.mover import CarriedOut, CarryOut
from mooring.coordination.survey import SurveyParams

SITES, LIAR = 5, 2
OTHERS = [member for member in range(SITES + 1) if member != LIAR]
LIES = 150
"""Times in a run that it sends lies of its own making."""
_encode = msgspec.msgpack.Encoder().encode
ODD: tuple[Any, ...] = (
    *(0, 1, -1, -2, 3, SITES, SITES + 1, 1 << 31, (1 << 31) - 2, 1 << 62, -(1 << 62), (1 << 63) - 1),
    *(0.0, 1.0, -1.0, 0.5, 1e-320, 1e300, -1e300, 1e308, float("inf"), -float("inf"), float("nan")),
)


@dataclass(frozen=True)
class Subject:
    """A protocol, and how the mover's host answers what its machines ask for at first."""

    hosted: HostedProtocol
    homes: Sequence[int]
    knowledge: Callable[[int, Data], Sequence[Data]]


def subjects() -> dict[str, Subject]:
    def fragments(site: int, asked: Data) -> Sequence[Data]:
        known = KnownFragments(tuple(chain_layout(SITES)[0])), MeasuredCapacity(CAPACITY)
        return known if isinstance(asked, AskFragments) else ()

    def colony(site: int, asked: Data) -> Sequence[Data]:
        return (running_colony(SITES)[site],) if isinstance(asked, AskColony) else ()

    def operators(site: int, asked: Data) -> Sequence[Data]:
        known = KnownOperators(0, 1, tuple(shared_queries(SITES)), 1.9, 1000.0, 0.0)
        return (known,) if isinstance(asked, AskOperators) else ()

    quick = OptimiserParams(period_ms=100.0)
    return {
        "survey": Subject(hosted_survey(SurveyParams(100.0, gossip=GossipParams(100.0))), (), lambda *_: ()),
        "relaxation": Subject(hosted_optimisers(quick), chain_homes(SITES), fragments),
        "ants": Subject(hosted_ants(QUICK, OFTEN), full_homes(SITES), colony),
        "overlay": Subject(hosted_overlays(), [n % SITES for n in range(6)], operators),
    }


@dataclass
class Door:
    """Of one member; `open` lets everything in that has the right types."""

    hosted: HostedProtocol
    receiver: int
    open: bool
    refused: Counter[str] = field(default_factory=Counter)
    names: Counter[str] = field(default_factory=Counter)

    def admitted(self, sender: int, message: Data) -> Data:
        """None: refused."""
        envelope = Envelope(0, "message", self.hosted.name, msgspec.Raw(_encode(message)))
        if sender == self.receiver:
            return message
        self.names[type(message).__name__] += 1
        try:
            if self.open:
                return decode(self.hosted, envelope)
            return judged(self.hosted, envelope, sender, self.receiver, SITES)
        except FrameError as error:
            self.refused[str(error)] += 1
            return None


class Behind:
    """A machine behind its door. With the door open, what it raises is kept and it begins anew."""

    def __init__(self, make: Callable[[], SiteMachine], door: Door, raised: Counter[str]) -> None:
        self._make, self.door, self._raised = make, door, raised
        self.machine = make()
        self._incarnation = 0

    def next_timer(self) -> float | None:
        return self.machine.next_timer()

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        if isinstance(event, Received):
            message = self.door.admitted(event.sender, event.message)
            if message is None:
                return ()
            event = Received(event.sender, message)
        if not self.door.open:
            return self.machine.handle(event, now_ms)
        try:
            return self.machine.handle(event, now_ms)
        except Exception as error:
            at = error.__traceback__
            while at is not None and at.tb_next is not None:
                at = at.tb_next
            code = at.tb_frame.f_code  # type: ignore[union-attr]
            self._raised[f"{code.co_name}:{at.tb_lineno} {type(error).__name__}"] += 1  # type: ignore[union-attr]
            self._incarnation += 1
            self.machine = self._make()
            return self.machine.handle(Started(self._incarnation, None), now_ms)


class MoverHost:
    """The mover, and a runner that makes every accepted move at once."""

    def __init__(self, subject: Subject, door: Door) -> None:
        self.mover = JudgedMover(SITES, lambda _: None, 200.0)
        self.door, self._subject = door, subject
        self._places = {n: StartedAt(n, site, 1) for n, site in enumerate(subject.homes)}

    def next_timer(self) -> float | None:
        return self.mover.next_timer()

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        if isinstance(event, Received):
            message = self.door.admitted(event.sender, event.message)
            if message is None:
                return ()
            if known := self._subject.knowledge(event.sender, message):
                return [Send(event.sender, each) for each in known]
            event = Received(event.sender, message)
        effects = list(self.mover.handle(event, now_ms))
        if isinstance(event, Started):
            told = Whereabouts(tuple(self._places.values()), whole=True)
            effects += self.mover.handle(Asked(told), now_ms)
        for effect in list(effects):
            if isinstance(effect, Output) and isinstance(effect.value, CarryOut):
                for move in (move for each in effect.value.proposals for move in each.plan.moves):
                    epoch = self._places[move.fragment].epoch + 1
                    self._places[move.fragment] = StartedAt(move.fragment, move.to_site, epoch)
                told = Whereabouts(tuple(self._places.values()))
                effects += [
                    *self.mover.handle(Asked(told), now_ms),
                    *self.mover.handle(Asked(CarriedOut()), now_ms),
                ]
        return [effect for effect in effects if not isinstance(effect, Output)]


class Liar:
    def __init__(
        self, machine: Behind, hosted: HostedProtocol, generator: np.random.Generator, every_ms: float
    ) -> None:
        self.honest, self._generator, self._every_ms = machine, generator, every_ms
        self._types = typing.get_args(hosted.messages)
        self._next_ms = 0.0
        self._said: list[Data] = []

    def next_timer(self) -> float | None:
        return min(self._next_ms, self.honest.next_timer() or self._next_ms)

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        due_ms = self.honest.next_timer()
        effects: list[Effect] = []
        if not isinstance(event, TimerDue) or (due_ms is not None and due_ms <= now_ms):
            effects += self.honest.handle(event, now_ms)
        if isinstance(event, Received):
            self._said.append(event.message)
        lies: list[Send] = []
        for effect in effects:
            if isinstance(effect, Send) and effect.to != LIAR:
                self._said = [*self._said[-60:], effect.message]
                if self._generator.random() < 0.7:
                    lies.append(Send(effect.to, self._changed(effect.message)))
        if now_ms >= self._next_ms:
            self._next_ms = now_ms + self._every_ms
            for _ in range(3):
                to = OTHERS[int(self._generator.integers(len(OTHERS)))]
                own = self._types[int(self._generator.integers(len(self._types)))]
                lies.append(Send(to, self._made(own)))
                if self._said:
                    heard = self._said[int(self._generator.integers(len(self._said)))]
                    lies.append(Send(to, self._changed(heard)))
        return [*effects, *(lie for lie in lies if _can_be_sent(lie.message))]

    def _odd(self, kind: type) -> Any:
        fitting = [each for each in ODD if type(each) is kind]
        if kind is int and self._generator.random() < 0.6:
            return int(self._generator.integers(SITES + 1))
        return fitting[int(self._generator.integers(len(fitting)))]

    def _changed(self, value: Any) -> Any:
        """With something in it that is otherwise; often one leaf alone."""
        if isinstance(value, msgspec.Struct):
            names = value.__struct_fields__
            if not names:
                return value
            name = names[int(self._generator.integers(len(names)))]
            return msgspec.structs.replace(value, **{name: self._changed(getattr(value, name))})
        if isinstance(value, tuple):
            if not value or self._generator.random() < 0.25:
                drawn = int(self._generator.integers(4))
                return ((), value + value, value[1:], value[::-1])[drawn]
            k = int(self._generator.integers(len(value)))
            return (*value[:k], self._changed(value[k]), *value[k + 1 :])
        if isinstance(value, bool):
            return not value
        return self._odd(type(value)) if isinstance(value, int | float) else value

    def _made(self, kind: Any, depth: int = 0) -> Any:
        """A value of a type."""
        origin, args = typing.get_origin(kind), typing.get_args(kind)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            hints = msgspec.structs.fields(kind)
            return kind(**{each.name: self._made(each.type, depth + 1) for each in hints})
        if origin is tuple:
            if len(args) == 2 and args[1] is Ellipsis:
                many = int(self._generator.integers(4)) if depth < 4 else 0
                return tuple(self._made(args[0], depth + 1) for _ in range(many))
            return tuple(self._made(each, depth + 1) for each in args)
        if origin is typing.Literal:
            return args[0]
        if isinstance(origin, type) and issubclass(origin, msgspec.Struct):
            hints = msgspec.structs.fields(kind)
            return origin(**{each.name: self._made(each.type, depth + 1) for each in hints})
        if args:
            return self._made(args[int(self._generator.integers(len(args)))], depth)
        if kind is bool:
            return bool(self._generator.integers(2))
        if kind in (int, float):
            return self._odd(kind)
        return "" if kind is str else None


def _can_be_sent(message: Data) -> bool:
    try:
        _encode(message)
    except (OverflowError, TypeError):
        return False
    return True


@dataclass
class Told:
    harness: Harness
    doors: list[Door]
    raised: Counter[str]


def run(name: str, seed: int, end_ms: float, *, lies: bool, open_doors: bool = False) -> Told:
    """`open_doors`: nothing is judged, and what machines raise is counted."""
    subject = subjects()[name]
    doors: dict[int, Door] = {}
    raised: Counter[str] = Counter()

    def make(site: int, peers: int, generator: np.random.Generator) -> Any:
        door = doors.setdefault(site, Door(subject.hosted, site, open_doors))
        if site == SITES:
            return MoverHost(subject, door)
        machine = Behind(lambda: subject.hosted.make(site, SITES, generator), door, raised)
        return (
            Liar(machine, subject.hosted, np.random.default_rng(seed), end_ms / LIES)
            if lies and site == LIAR
            else machine
        )

    latency_ms = tuple(tuple(3.0 * abs(a - b) for b in range(SITES + 1)) for a in range(SITES + 1))
    late = [Request(end_ms * k / 8.0, 1, QueryMeasured(0, 300.0)) for k in range(2, 8)]
    asked = tuple(late) if name == "overlay" else ()
    harness = Harness(Scenario(seed, latency_ms, end_ms, requests=asked), make, recorded=False)
    harness.finish()
    return Told(harness, [doors[site] for site in sorted(doors)], raised)
