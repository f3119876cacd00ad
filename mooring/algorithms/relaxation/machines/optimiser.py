"""The local placement optimiser (section 3.2) as a protocol: every site proposes where its fragments belong.

A site measures the others in turn and keeps its coordinate by Vivaldi (`known_sites.py`). Every few rounds it
reconsiders each fragment that runs there (`reviews.py`). Where another site is better by enough and keeps
room for it (`residence.py`), the move is proposed to the mover (`coordination/move_messages.py`,
`proposer.py`), which alone decides; a move that was made arrives as whereabouts. A site that has become too
full lets something go as well, wherever there is room.

Fragments are reconsidered one by one. Two that would only gain by moving together stay where they are; a new
plan from the running placement finds such moves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from mooring.algorithms.relaxation.machines.known_sites import KnownSites
from mooring.algorithms.relaxation.machines.messages import (
    AskFragments,
    FragmentSpec,
    HoldRoom,
    KnownFragments,
    MeasuredCapacity,
    MeasuredFlows,
    OptimiserMemory,
    Ping,
    Pong,
    Probe,
    Probed,
    RoomHeld,
    ToldToSite,
)
from mooring.algorithms.relaxation.machines.params import OptimiserParams
from mooring.algorithms.relaxation.machines.residence import Residence
from mooring.algorithms.relaxation.machines.reviews import Reviews
from mooring.contracts.site_machine import (
    Asked,
    Data,
    Effect,
    Event,
    MakeMachine,
    Persist,
    Received,
    Send,
    Started,
    TimerDue,
)
from mooring.coordination.move_messages import (
    Answer,
    Done,
    Ending,
    Failed,
    Inquiry,
    Over,
    ProposalId,
    StartedAt,
    StatedLatencies,
    Whereabouts,
    mover_of,
)
from mooring.coordination.proposer import Proposer

MOST_HELD = 8
"""Proposals of one site that room is kept for. A site has one open, and those before it end soon."""


class Optimiser:
    """The state machine of one site."""

    def __init__(
        self,
        site: int,
        sites: int,
        generator: np.random.Generator,
        params: OptimiserParams,
        specs: Sequence[FragmentSpec],
        capacity_cores: float,
    ) -> None:
        self.site, self._params, self._generator = site, params, generator
        self._mover = mover_of(sites)
        self.residence = Residence(site, capacity_cores, specs, params.fill)
        self.proposer = Proposer(site, sites)
        self._known = KnownSites(site, sites, generator, params.vivaldi, params.load_ms)
        self._reviews = Reviews(generator, params, self._known, self.residence, self.proposer.next_id)
        self._briefed = bool(specs)
        """Whether it was told what runs here, if anything does."""
        self._rates: dict[int, tuple[float, ...]] = {}
        """Measured, per fragment that runs here and link of it."""
        self._heard: dict[ProposalId, int] = {}
        """Round in which something was last heard of what room is kept for."""
        self._round = 0
        self._next_round_ms: float | None = None

    @property
    def durable(self) -> OptimiserMemory:
        held = self.residence.held
        return OptimiserMemory(tuple(held[id] for id in sorted(held)), self.proposer.open)

    def rates(self, fragment: int) -> tuple[float, ...]:
        """Bytes per second on the links of a fragment: measured here, or as stated."""
        stated = tuple(link.rate for link in self.residence.specs[fragment].links)
        return self._rates.get(fragment, stated)

    def next_timer(self) -> float | None:
        return self._next_round_ms

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        match event:
            case Started(incarnation=incarnation, durable=durable):
                return self._start(incarnation, durable, now_ms)
            case TimerDue():
                self._next_round_ms = now_ms + self._params.period_ms
                self._round += 1
                return (*self._measure(now_ms), *self._review_all())
            case Received(sender=sender, message=message):
                return self._receive(sender, message, now_ms)
            case Asked(request=request):
                return self._asked(request)

    def _start(self, incarnation: int, durable: Data, now_ms: float) -> Sequence[Effect]:
        kept = durable if isinstance(durable, OptimiserMemory) else OptimiserMemory()
        self._reviews.start(incarnation)
        self.proposer.start(incarnation, kept.open)
        self.residence.held = {room.id: room for room in kept.held}
        self._next_round_ms = now_ms + self._generator.random() * self._params.period_ms
        return (
            Send(self._mover, self.residence.look_up()),
            *self._ask_for_fragments(),
            *self.proposer.repeat(),
        )

    def _ask_for_fragments(self) -> Sequence[Effect]:
        knows = self._briefed and not self.residence.unknown
        return () if knows else (Send(self._mover, AskFragments()),)

    def _measure(self, now_ms: float) -> Sequence[Effect]:
        peer = self._known.next_to_measure() if self._briefed else None
        return () if peer is None else (Send(peer, Ping(now_ms)),)

    def _review_all(self) -> Sequence[Effect]:
        if self._round % self._params.rounds_per_review:
            return ()
        self._reviews.give_up(self._round)
        free = self.proposer.open is None
        effects = [*self.proposer.repeat(), *self._ask_about_held_room()]
        effects += self._reviews.conclude_overdue(self._round, free=free)
        if self._round % (self._params.patience * self._params.rounds_per_review) == 0:
            effects.append(Send(self._mover, self.residence.look_up()))  # what it told may have been lost
            effects += self._ask_for_fragments()
        self._reviews.watch_room()
        for spec in self.residence.running:
            effects += self._reviews.begin(spec, self.rates(spec.fragment), self._round)
        return effects

    def _ask_about_held_room(self) -> Sequence[Effect]:
        """Room is kept until the mover says what became of the proposal, however long that takes."""
        effects: list[Effect] = []
        for id in sorted(self.residence.held):
            since = self._round - self._heard.setdefault(id, self._round)
            if since >= self._params.patience * self._params.rounds_per_review:
                effects.append(Send(self._mover, Inquiry(id)))
        return effects

    # Messages.

    def _receive(self, sender: int, message: Data, now_ms: float) -> Sequence[Effect]:
        around, residence = self._known, self.residence
        match message:
            case Ping(sent_ms=sent_ms):
                return (Send(sender, Pong(sent_ms, around.coordinate, residence.spare_cores)),)
            case Pong(sent_ms=sent_ms, coordinate=coordinate, spare_cores=spare):
                around.learn(sender, (now_ms - sent_ms) / 2.0, coordinate, spare)
            case Probe(fragment=fragment, attempt=attempt, ends=ends):
                latency_ms, spare = around.latencies_ms(ends), residence.spare_cores
                return (Send(sender, Probed(fragment, attempt, latency_ms, spare, residence.used_cores)),)
            case Probed():
                return self._reviews.probed(sender, message, free=self.proposer.open is None)
            case HoldRoom():
                return self._hold_room(sender, message)
            case RoomHeld():
                return self._propose(sender, message)
            case _ if sender == self._mover:
                return self._from_mover(message)
        return ()

    def _hold_room(self, sender: int, asked: HoldRoom) -> Sequence[Effect]:
        id = asked.id
        crowded = sum(held[0] == sender for held in self.residence.held) >= MOST_HELD and (
            id not in self.residence.held
        )
        if crowded or id[0] != sender or not self.residence.hold(id, asked.fragment, asked.cores):
            return (Send(sender, RoomHeld(id, False)),)
        self._heard[id] = self._round
        return (Persist(self.durable), Send(sender, RoomHeld(id, True)))

    def _propose(self, sender: int, message: RoomHeld) -> Sequence[Effect]:
        if self.proposer.open is not None:
            return ()
        proposal = self._reviews.room_held(sender, message)
        if proposal is None:
            return ()
        sending = self.proposer.propose(message.id, *proposal)
        return (Persist(self.durable), *sending)

    def _from_mover(self, message: Data) -> Sequence[Effect]:
        match message:
            case Whereabouts():
                self._forget(self.residence.heard(message))
            case KnownFragments() | MeasuredCapacity() | StatedLatencies():
                self._told(message)
            case _ if isinstance(message, Answer):
                return self._answered(message)
        return ()

    def _learn(self, places: Sequence[StartedAt]) -> None:
        self._forget(self.residence.learn(places))

    def _forget(self, fragments: Sequence[int]) -> None:
        """What was found out about fragments that left, came, or were started anew."""
        for fragment in fragments:
            self._reviews.forget(fragment)
            self._rates.pop(fragment, None)
            self.residence.measured_cores.pop(fragment, None)

    def _forget_rewired(self, specs: Sequence[FragmentSpec]) -> None:
        """Of a fragment that has other neighbours by now, what was measured at its links means nothing."""
        for spec in specs:
            known = self.residence.specs.get(spec.fragment)
            if known is not None and _ends(known) != _ends(spec):
                self._rates.pop(spec.fragment, None)
                self._reviews.forget(spec.fragment)

    def _answered(self, answer: Answer) -> Sequence[Effect]:
        self._heard[answer.id] = self._round
        before = self.durable
        self.proposer.answered(answer)
        if isinstance(answer, Done | Failed):
            self._learn(answer.places)
        if isinstance(answer, Ending):
            self.residence.let_go(answer.id)
            del self._heard[answer.id]
        if isinstance(answer, Over):  # whatever has come here for it was told long ago, or not at all
            self.residence.informed = False
        asked = () if self.residence.informed else (Send(self._mover, self.residence.look_up()),)
        return (*((Persist(self.durable),) if self.durable != before else ()), *asked)

    # What this site's own engine says.

    def _asked(self, request: Any) -> Sequence[Effect]:
        if isinstance(request, Mapping):  # from a scenario that was written down
            request = msgspec.convert(request, ToldToSite)
        if isinstance(request, ToldToSite):
            self._told(request)
        return ()

    def _told(self, what: ToldToSite) -> None:
        match what:
            case KnownFragments(specs=specs):
                self._briefed = True
                self._forget_rewired(specs)
                self.residence.take(specs)
            case MeasuredCapacity(cores=cores):
                self.residence.capacity_cores = cores
            case StatedLatencies(latency_ms=latency_ms):
                self._known.state(latency_ms)
            case MeasuredFlows():
                self._measured(what)

    def _measured(self, measured: MeasuredFlows) -> None:
        fragment, rates = measured.fragment, measured.rates
        if not self.residence.runs(fragment) or fragment not in self.residence.specs:
            return
        before = self.rates(fragment)
        if len(rates) == len(before) and all(0.0 <= rate < float("inf") for rate in rates):
            weight = self._params.rate_weight if fragment in self._rates else 1.0
            pairs = zip(before, rates, strict=True)
            self._rates[fragment] = tuple(known + weight * (seen - known) for known, seen in pairs)
            if measured.cores is not None:
                self.residence.measured_cores[fragment] = measured.cores


def _ends(spec: FragmentSpec) -> list[tuple[int, int]]:
    return [(link.fragment, link.site) for link in spec.links]


Layout = Callable[[int], tuple[Sequence[FragmentSpec], Sequence[float]]]
"""From the number of sites: the fragments that there are, and the cores that each site has."""


def optimiser_machines(layout: Layout, params: OptimiserParams | None = None) -> MakeMachine:
    """Machines of the sites; the mover is for their host to add."""
    chosen = params or OptimiserParams()

    def make(site: int, sites: int, generator: np.random.Generator) -> Optimiser:
        specs, cores = layout(sites)
        return Optimiser(site, sites, generator, chosen, specs, cores[site])

    return make
