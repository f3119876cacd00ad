"""The local placement optimiser (section 3.2) as a protocol: every site moves its operators to where they
belong.

A site measures the others in turn and keeps its coordinate by Vivaldi. Every few rounds it reconsiders each
operator it runs: springs between the neighbours' coordinates say where it should be; if that place moved, the
sites near it are probed (how far are you from its neighbours, have you room?), and if the best saves enough,
the operator goes there.

Moves are atomic per group of queries (queries that share operators are one group). The group's coordinator
grants one move at a time; the operator is stopped, sent with its state under the next epoch, and runs again
where it is accepted, or here if it is refused. While it is on its way it runs nowhere, and its data waits in
its channels. Once sent, only the target's answer decides: if the target is gone, the move waits for it.
Duplicates and old messages are harmless because a site fences every epoch that it refused or let go.

Operators are reconsidered one by one. Two that would only gain by moving together stay where they are;
planning anew from the running placement finds such moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from mooring.errors import InputError
from mooring.network.coordinate import Coordinate
from mooring.network.vivaldi import VivaldiClient, VivaldiParams
from mooring.placement.relaxation.migration import MigrationParams
from mooring.protocols.optimiser_messages import (
    Accepted,
    Announce,
    AskMove,
    Attempt,
    Durable,
    Fed,
    Feed,
    Grant,
    Granted,
    Hosted,
    Leaving,
    Location,
    Measured,
    Ping,
    Pong,
    Probe,
    Probed,
    Refused,
    Release,
    Released,
    Running,
    Settled,
    Stopped,
    Transfer,
    Whereabouts,
)
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
from mooring.protocols.review import Neighbourhood, Review


@dataclass(frozen=True)
class OptimiserParams:
    period_ms: float = 50.0
    """Time between two rounds of a site; each measures one other site, and repeats what was not answered."""
    rounds_per_review: int = 20
    """Rounds between two reviews of the operators that run here."""
    patience: int = 4
    """Reviews after which probes and requests that were not answered are given up: at least the time of four
    messages, or no move over a long link would ever be agreed on."""
    candidates: int = 5
    """Sites probed per operator."""
    rate_weight: float = 0.3
    """Weight of a measured rate against what was known before."""
    load_ms: float = 0.0
    """Milliseconds of the load axis per unit of load (section 3.1.1)."""
    migration: MigrationParams = field(default_factory=MigrationParams)
    vivaldi: VivaldiParams = field(default_factory=lambda: VivaldiParams(dimensions=2))

    def __post_init__(self) -> None:
        if not 0.0 < self.period_ms < float("inf") or self.rounds_per_review < 1 or self.candidates < 1:
            raise InputError(f"found {self}, expected positive numbers", field="optimiser")


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
        self.site, self.params = site, params
        self.durable = Durable(hosted=tuple(initial))
        self.capacity_cores = capacity_cores
        self.vivaldi = VivaldiClient(generator, params.vivaldi)
        self.peers: dict[int, tuple[Coordinate, float]] = {}
        """Site -> coordinate and spare cores, as it last said."""
        self.where: dict[int, Location] = {place.operator: place for place in whereabouts}
        self.migrations = 0
        """Moves away from here that were accepted."""
        self._sites, self._generator = sites, generator
        self._reviews: dict[int, Review] = {}
        self._looked_up: dict[int, tuple[Coordinate, int]] = {}
        """Operator -> its place when sites were last probed for it, and how many reviews ago."""
        self._incarnation, self._attempts, self._round = 0, 0, 0
        self._next_round_ms: float | None = None
        self._to_visit: list[int] = []

    # What a checker and a user may ask.

    @property
    def running(self) -> tuple[Hosted, ...]:
        return self.durable.hosted

    @property
    def spare_cores(self) -> float:
        used = sum(hosted.cores for hosted in self.durable.hosted)
        return self.capacity_cores - used - sum(leaving.hosted.cores for leaving in self.durable.leaving)

    def next_timer(self) -> float | None:
        return self._next_round_ms

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        match event:
            case Started(incarnation=incarnation, durable=durable):
                return self._start(incarnation, durable, now_ms)
            case TimerDue():
                self._next_round_ms = now_ms + self.params.period_ms
                self._round += 1
                return (*self._ping(now_ms), *self._repeat(), *self._review_all())
            case Received(sender=sender, message=message):
                return self._receive(sender, message, now_ms)
            case Asked(request=request):
                return self._asked(request)

    def _start(self, incarnation: int, durable: Data, now_ms: float) -> Sequence[Effect]:
        self._incarnation = incarnation
        self._next_round_ms = now_ms + self._generator.random() * self.params.period_ms
        if isinstance(durable, Durable):
            self.durable = durable
        outputs = [Output(Running(hosted.operator, hosted.epoch)) for hosted in self.durable.hosted]
        return (Persist(self.durable), *outputs)

    # Measuring, and repeating what was not answered.

    def _ping(self, now_ms: float) -> Sequence[Effect]:
        if not self._to_visit:
            others = [peer for peer in range(self._sites) if peer != self.site]
            self._to_visit = [others[i] for i in self._generator.permutation(len(others)).tolist()]
        return (Send(self._to_visit.pop(), Ping(now_ms)),) if self._to_visit else ()

    def _repeat(self) -> Sequence[Effect]:
        effects: list[Effect] = [
            Send(leaving.target, Transfer(leaving.hosted)) for leaving in self.durable.leaving
        ]
        effects += [
            Send(settled.coordinator, Release(settled.operator, settled.attempt))
            for settled in self.durable.settled
        ]
        if (grant := self.durable.grant) is not None:
            effects.append(Send(grant.holder, Granted(grant.operator, grant.attempt)))
        return effects

    # Reconsidering operators.

    def _review_all(self) -> Sequence[Effect]:
        if self._round % self.params.rounds_per_review:
            return ()
        for operator, review in list(self._reviews.items()):
            if self._round - review.began >= self.params.patience * self.params.rounds_per_review:
                del self._reviews[operator]
        effects: list[Effect] = []
        announced: dict[int, list[Location]] = {}
        for hosted in self.durable.hosted:
            announced.setdefault(hosted.coordinator, []).append(
                Location(hosted.operator, self.site, hosted.epoch)
            )
            if hosted.movable and hosted.operator not in self._reviews:
                effects += self._review(hosted)
        effects += [Send(to, Announce(tuple(places))) for to, places in announced.items()]
        return effects

    def _review(self, hosted: Hosted) -> Sequence[Effect]:
        ends = tuple(self._end(link.operator, link.site) for link in hosted.links)
        known = {**{peer: at for peer, (at, _) in self.peers.items()}, self.site: self.vivaldi.coordinate}
        if not ends or any(end not in known for end in ends) or len(known) < 2:
            return ()
        rates = tuple(link.rate for link in hosted.links)
        spare = {**{peer: cores for peer, (_, cores) in self.peers.items()}, self.site: self.spare_cores}
        around = Neighbourhood(known, spare, self.params.load_ms)
        place = around.wanted(ends, rates, self._generator)
        before, reviews = self._looked_up.get(hosted.operator, (None, 0))
        moved_ms = float("inf") if before is None else place.latency_ms(before)
        if before is not None and not self.params.migration.looks_up(moved_ms, reviews + 1):
            self._looked_up[hosted.operator] = (before, reviews + 1)
            return ()
        self._looked_up[hosted.operator] = (place, 0)
        found = [*around.near(place, self.params.candidates + 1), *ends]
        targets = [target for target in dict.fromkeys(found) if target != self.site]
        self._attempts += 1
        attempt = (self.site, self._incarnation, self._attempts)
        self._reviews[hosted.operator] = Review(attempt, self._round, ends, rates, len(targets))
        return [Send(target, Probe(hosted.operator, attempt, ends)) for target in targets]

    def _end(self, operator: int, site: int) -> int:
        """Where a neighbour is; -1 where not known."""
        if operator < 0:
            return site
        place = self.where.get(operator)
        return self.site if self._hosted(operator) is not None else -1 if place is None else place.site

    def _probed(self, sender: int, message: Probed) -> Sequence[Effect]:
        review = self._reviews.get(message.operator)
        hosted = self._hosted(message.operator)
        if review is None or hosted is None or review.attempt != message.attempt or review.target is not None:
            return ()
        review.heard += 1
        if message.spare_cores >= hosted.cores and min(message.latency_ms, default=-1.0) >= 0.0:
            review.answers[sender] = review.usage(message.latency_ms)
        if review.heard < review.asked:
            return ()
        if not review.answers:
            del self._reviews[message.operator]
            return ()
        own = self._latencies(review.ends)
        target = min(review.answers, key=lambda site: (review.answers[site], site))
        if min(own) < 0.0 or not self.params.migration.worth_it(review.usage(own), review.answers[target]):
            del self._reviews[message.operator]
            return ()
        review.target = target
        return (Send(hosted.coordinator, AskMove(hosted.operator, review.attempt)),)

    def _latencies(self, ends: Sequence[int]) -> tuple[float, ...]:
        """As measured from here; zero to this site itself, -1 where nothing is known."""
        found = [0.0 if end == self.site else self.vivaldi.latency_ms(end) for end in ends]
        return tuple(-1.0 if ms is None else ms for ms in found)

    # Messages.

    def _receive(self, sender: int, message: Data, now_ms: float) -> Sequence[Effect]:
        match message:
            case Ping(sent_ms=sent_ms):
                return (Send(sender, Pong(sent_ms, self.vivaldi.coordinate, self.spare_cores)),)
            case Pong(sent_ms=sent_ms, coordinate=coordinate, spare_cores=spare):
                self.vivaldi.observe(sender, (now_ms - sent_ms) / 2.0, coordinate)
                limit = self.params.vivaldi.largest_latency_ms
                if coordinate.unusable(self.params.vivaldi.dimensions, limit) is None:
                    self.peers[sender] = (coordinate, spare)
            case Probe(operator=operator, attempt=attempt, ends=ends):
                return (Send(sender, Probed(operator, attempt, self._latencies(ends), self.spare_cores)),)
            case Probed():
                return self._probed(sender, message)
            case AskMove(operator=operator, attempt=attempt):
                return self._grant(sender, operator, attempt)
            case Granted(operator=operator, attempt=attempt):
                return self._granted(sender, operator, attempt)
            case Release(operator=operator, attempt=attempt):
                return self._release(sender, operator, attempt)
            case Released(operator=operator, attempt=attempt):
                return self._released(operator, attempt)
            case Transfer(hosted=hosted):
                return self._take(sender, hosted)
            case Accepted(operator=operator, epoch=epoch):
                return self._gone(operator, epoch)
            case Refused(operator=operator, epoch=epoch):
                return self._stays(operator, epoch)
            case Announce(locations=locations):
                self._learn(locations)
                return (Send(sender, Whereabouts(tuple(self.where[k] for k in sorted(self.where)))),)
            case Whereabouts(locations=locations):
                self._learn(locations)
        return ()

    def _learn(self, locations: Sequence[Location]) -> None:
        for place in locations:
            known = self.where.get(place.operator)
            if known is None or place.epoch > known.epoch:
                self.where[place.operator] = place

    # The coordinator's part: one move at a time.

    def _grant(self, sender: int, operator: int, attempt: Attempt) -> Sequence[Effect]:
        if self.durable.grant is not None:
            return ()  # busy: the one who asks will ask again at its next review
        self.durable = msgspec.structs.replace(self.durable, grant=Grant(operator, sender, attempt))
        return (Persist(self.durable), Send(sender, Granted(operator, attempt)))

    def _release(self, sender: int, operator: int, attempt: Attempt) -> Sequence[Effect]:
        if self.durable.grant == Grant(operator, sender, attempt):
            self.durable = msgspec.structs.replace(self.durable, grant=None)
            return (Persist(self.durable), Send(sender, Released(operator, attempt)))
        return (Send(sender, Released(operator, attempt)),)

    # The part of the site that lets go.

    def _granted(self, sender: int, operator: int, attempt: Attempt) -> Sequence[Effect]:
        if any(leaving.attempt == attempt for leaving in self.durable.leaving):
            return ()
        if any(settled.attempt == attempt for settled in self.durable.settled):
            return (Send(sender, Release(operator, attempt)),)
        review, hosted = self._reviews.get(operator), self._hosted(operator)
        if review is None or hosted is None or review.attempt != attempt or review.target is None:
            return (Send(sender, Release(operator, attempt)),)
        del self._reviews[operator]
        leaving = Leaving(msgspec.structs.replace(hosted, epoch=hosted.epoch + 1), review.target, attempt)
        self.durable = msgspec.structs.replace(
            self.durable,
            hosted=tuple(h for h in self.durable.hosted if h.operator != operator),
            leaving=(*self.durable.leaving, leaving),
        )
        return (
            Persist(self.durable),
            Output(Stopped(operator, hosted.epoch)),
            Send(leaving.target, Transfer(leaving.hosted)),
        )

    def _gone(self, operator: int, epoch: int) -> Sequence[Effect]:
        leaving = self._leaving(operator, epoch)
        if leaving is None:
            return ()
        self.migrations += 1
        self._looked_up.pop(operator, None)
        self._learn([Location(operator, leaving.target, epoch)])
        self.durable = self._without(leaving)
        return (Persist(self.durable), Send(leaving.hosted.coordinator, Release(operator, leaving.attempt)))

    def _stays(self, operator: int, epoch: int) -> Sequence[Effect]:
        """Refused: it runs here again, under an epoch that the target has not fenced."""
        leaving = self._leaving(operator, epoch)
        if leaving is None:
            return ()
        back = msgspec.structs.replace(leaving.hosted, epoch=epoch + 1)
        durable = self._without(leaving)
        self.durable = msgspec.structs.replace(durable, hosted=(*durable.hosted, back))
        return (
            Persist(self.durable),
            Output(Running(operator, back.epoch)),
            Send(back.coordinator, Release(operator, leaving.attempt)),
        )

    def _released(self, operator: int, attempt: Attempt) -> Sequence[Effect]:
        left = tuple(s for s in self.durable.settled if (s.operator, s.attempt) != (operator, attempt))
        if len(left) == len(self.durable.settled):
            return ()
        self.durable = msgspec.structs.replace(self.durable, settled=left)
        return (Persist(self.durable),)

    def _leaving(self, operator: int, epoch: int) -> Leaving | None:
        found = (leaving for leaving in self.durable.leaving if leaving.hosted.operator == operator)
        return next((leaving for leaving in found if leaving.hosted.epoch == epoch), None)

    def _without(self, leaving: Leaving) -> Durable:
        operator = leaving.hosted.operator
        settled = Settled(operator, leaving.hosted.coordinator, leaving.attempt)
        return msgspec.structs.replace(
            self.durable,
            leaving=tuple(other for other in self.durable.leaving if other != leaving),
            settled=(*self.durable.settled, settled),
            fences=self._fenced(operator, leaving.hosted.epoch),
        )

    # The part of the site that takes over.

    def _take(self, sender: int, hosted: Hosted) -> Sequence[Effect]:
        operator, epoch = hosted.operator, hosted.epoch
        mine = self._hosted(operator)
        if mine is not None:
            return (Send(sender, Accepted(operator, epoch)),) if mine.epoch >= epoch else ()
        if epoch <= dict(self.durable.fences).get(operator, -1):
            # Refused before; or taken and since passed on, and then nobody waits for this answer any more,
            # because
            # the next move was granted only after this one had been settled.
            return (Send(sender, Refused(operator, epoch)),)
        fences = self._fenced(operator, epoch)
        if self.spare_cores < hosted.cores:
            self.durable = msgspec.structs.replace(self.durable, fences=fences)
            return (Persist(self.durable), Send(sender, Refused(operator, epoch)))
        self._learn([Location(operator, self.site, epoch)])
        self.durable = msgspec.structs.replace(
            self.durable, hosted=(*self.durable.hosted, hosted), fences=fences
        )
        return (
            Persist(self.durable),
            Output(Running(operator, epoch)),
            Send(sender, Accepted(operator, epoch)),
        )

    def _fenced(self, operator: int, epoch: int) -> tuple[tuple[int, int], ...]:
        fences = dict(self.durable.fences)
        fences[operator] = max(epoch, fences.get(operator, -1))
        return tuple(sorted(fences.items()))

    # What this site's own engine says.

    def _asked(self, request: Any) -> Sequence[Effect]:
        if isinstance(request, dict):  # from a scenario that was written down
            request = msgspec.convert(request, Feed | Measured)
        match request:
            case Feed(operator=operator, amount=amount):
                hosted = self._hosted(operator)
                if hosted is None:
                    return ()  # it waits in its channel until the operator runs somewhere
                self._put(msgspec.structs.replace(hosted, state=hosted.state + amount))
                return (Persist(self.durable), Output(Fed(operator, amount)))
            case Measured(operator=operator, rates=rates):
                hosted = self._hosted(operator)
                if hosted is None or len(rates) != len(hosted.links) or not all(_is_rate(r) for r in rates):
                    return ()
                weight = self.params.rate_weight
                links = tuple(
                    msgspec.structs.replace(link, rate=link.rate + weight * (rate - link.rate))
                    for link, rate in zip(hosted.links, rates, strict=True)
                )
                self._put(msgspec.structs.replace(hosted, links=links))
                return (Persist(self.durable),)
        return ()

    def _hosted(self, operator: int) -> Hosted | None:
        return next((h for h in self.durable.hosted if h.operator == operator), None)

    def _put(self, changed: Hosted) -> None:
        same = changed.operator
        hosted = tuple(changed if h.operator == same else h for h in self.durable.hosted)
        self.durable = msgspec.structs.replace(self.durable, hosted=hosted)


def _is_rate(rate: float) -> bool:
    return 0.0 <= rate < float("inf")


Layout = Callable[[int], tuple[Sequence[Sequence[Hosted]], Sequence[float]]]
"""From the number of sites: the operators that each runs at first, and the cores each has."""


def optimiser_machines(layout: Layout, params: OptimiserParams | None = None) -> MakeMachine:
    chosen = params or OptimiserParams()

    def make(site: int, sites: int, generator: np.random.Generator) -> Optimiser:
        hosted, cores = layout(sites)
        places = [
            Location(each.operator, home, each.epoch) for home, own in enumerate(hosted) for each in own
        ]
        return Optimiser(site, sites, generator, chosen, hosted[site], cores[site], places)

    return make
