"""The local placement optimiser (section 3.2) as a protocol: every site moves its operators to where they
belong.

A site measures the others in turn and keeps its coordinate by Vivaldi (`known_sites.py`). Every few rounds
it reconsiders each operator it runs (`reviews.py`), and where another site is better by enough, the operator
goes there (`operator_moves.py`, with the tables of all transitions).

Operators are reconsidered one by one. Two that would only gain by moving together stay where they are;
planning anew from the running placement finds such moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from mooring.protocols.known_sites import KnownSites
from mooring.protocols.operator_moves import Hosting, MoveMessage, OperatorMoves, operator_of
from mooring.protocols.optimiser_messages import (
    Announce,
    Durable,
    Fed,
    Feed,
    GroupLocations,
    Hosted,
    Location,
    MeasuredFlows,
    Ping,
    Pong,
    Probe,
    Probed,
    Running,
)
from mooring.protocols.optimiser_params import OptimiserParams
from mooring.protocols.protocol import (
    Asked,
    Data,
    Effect,
    Event,
    MakeMachine,
    Output,
    Persist,
    Received,
    Send,
    Started,
    TimerDue,
)
from mooring.protocols.reviews import Reviews


class Optimiser:
    """The state machine of one site."""

    def __init__(
        self,
        site: int,
        sites: int,
        generator: np.random.Generator,
        params: OptimiserParams,
        initial: Sequence[Hosted],
        capacity_cores: float,
        whereabouts: Sequence[Location],
    ) -> None:
        self.site, self._params, self._generator = site, params, generator
        self._known = KnownSites(site, sites, generator, params.vivaldi, params.load_ms)
        self._reviews = Reviews(site, generator, params, self._known)
        self.moves = OperatorMoves(site, capacity_cores, initial, whereabouts, self._reviews.chosen)
        self._round = 0
        self._next_round_ms: float | None = None

    # What a checker and a user may ask.

    @property
    def durable(self) -> Durable:
        return self.moves.durable

    @property
    def running(self) -> tuple[Hosted, ...]:
        return self.durable.hosted

    @property
    def capacity_cores(self) -> float:
        return self.moves.capacity_cores

    def next_timer(self) -> float | None:
        return self._next_round_ms

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        match event:
            case Started(incarnation=incarnation, durable=durable):
                return self._start(incarnation, durable, now_ms)
            case TimerDue():
                self._next_round_ms = now_ms + self._params.period_ms
                self._round += 1
                return (*self._measure(now_ms), *self.moves.repeat(), *self._review_all())
            case Received(sender=sender, message=message):
                return self._receive(sender, message, now_ms)
            case Asked(request=request):
                return self._asked(request)

    def _start(self, incarnation: int, durable: Data, now_ms: float) -> Sequence[Effect]:
        self._reviews.start(incarnation)
        self._next_round_ms = now_ms + self._generator.random() * self._params.period_ms
        if isinstance(durable, Durable):
            self.moves.durable = durable
        outputs = [Output(Running(hosted.operator, hosted.epoch)) for hosted in self.durable.hosted]
        return (Persist(self.durable), *outputs)

    def _measure(self, now_ms: float) -> Sequence[Effect]:
        peer = self._known.next_to_measure()
        return () if peer is None else (Send(peer, Ping(now_ms)),)

    def _review_all(self) -> Sequence[Effect]:
        if self._round % self._params.rounds_per_review:
            return ()
        self._reviews.give_up(self._round)
        effects: list[Effect] = []
        announced: dict[int, list[Location]] = {}
        for hosted in self.durable.hosted:
            announced.setdefault(hosted.coordinator, []).append(
                Location(hosted.operator, self.site, hosted.epoch)
            )
            effects += self._reviews.begin(hosted, self.moves, self._round)
        effects += [Send(to, Announce(tuple(places))) for to, places in announced.items()]
        return effects

    # Messages.

    def _receive(self, sender: int, message: Data, now_ms: float) -> Sequence[Effect]:
        around, moves = self._known, self.moves
        match message:
            case Ping(sent_ms=sent_ms):
                return (Send(sender, Pong(sent_ms, around.coordinate, moves.spare_cores)),)
            case Pong(sent_ms=sent_ms, coordinate=coordinate, spare_cores=spare):
                around.learn(sender, (now_ms - sent_ms) / 2.0, coordinate, spare)
            case Probe(operator=operator, attempt=attempt, ends=ends):
                answer = Probed(operator, attempt, around.latencies_ms(ends), moves.spare_cores)
                return (Send(sender, answer),)
            case Probed(operator=operator):
                return self._reviews.answered(sender, message, moves.hosted(operator))
            case Announce(locations=locations):
                moves.learn(locations)
                return (Send(sender, GroupLocations(tuple(moves.where[k] for k in sorted(moves.where)))),)
            case GroupLocations(locations=locations):
                moves.learn(locations)
            case _ if isinstance(message, MoveMessage):
                return self._move(sender, message)
        return ()

    def _move(self, sender: int, message: MoveMessage) -> Sequence[Effect]:
        operator = operator_of(message)
        before = self.moves.stage(operator)
        effects = self.moves.receive(sender, message)
        match before, self.moves.stage(operator):
            case Hosting.HERE, Hosting.LEAVING:
                self._reviews.close(operator)
            case Hosting.LEAVING, Hosting.AWAY:
                self._reviews.forget(operator)
        return effects

    # What this site's own engine says.

    def _asked(self, request: Any) -> Sequence[Effect]:
        if isinstance(request, dict):  # from a scenario that was written down
            request = msgspec.convert(request, Feed | MeasuredFlows)
        match request:
            case Feed(operator=operator, amount=amount):
                hosted = self.moves.hosted(operator)
                if hosted is None:
                    return ()  # it waits in its channel until the operator runs somewhere
                self.moves.change(msgspec.structs.replace(hosted, state=hosted.state + amount))
                return (Persist(self.durable), Output(Fed(operator, amount)))
            case MeasuredFlows(operator=operator, rates=rates):
                hosted = self.moves.hosted(operator)
                if hosted is None or len(rates) != len(hosted.links) or not all(_is_rate(r) for r in rates):
                    return ()
                weight = self._params.rate_weight
                links = tuple(
                    msgspec.structs.replace(link, rate=link.rate + weight * (rate - link.rate))
                    for link, rate in zip(hosted.links, rates, strict=True)
                )
                self.moves.change(msgspec.structs.replace(hosted, links=links))
                return (Persist(self.durable),)
        return ()


def _is_rate(rate: float) -> bool:
    return 0.0 <= rate < float("inf")


FirstHosts = Callable[[int], tuple[Sequence[Sequence[Hosted]], Sequence[float]]]
"""From the number of sites: the operators that each runs at first, and the cores each has."""


def optimiser_machines(layout: FirstHosts, params: OptimiserParams | None = None) -> MakeMachine:
    chosen = params or OptimiserParams()

    def make(site: int, sites: int, generator: np.random.Generator) -> Optimiser:
        hosted, cores = layout(sites)
        places = [
            Location(each.operator, home, each.epoch) for home, own in enumerate(hosted) for each in own
        ]
        return Optimiser(site, sites, generator, chosen, hosted[site], cores[site], places)

    return make
