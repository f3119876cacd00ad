"""The survey of the network by its sites: round trips, network coordinates, and the figures of all sites at
every site.

In every round a site measures one other in turn: `EchoAsked` goes there, `Echoed` comes back with the peer's
coordinate, and half of the time between is a sample of the latency. A low percentile of the last samples
moves the coordinate by Vivaldi. Every few rounds a site publishes its coordinate and what it measured, and
gossip carries that to all: any one site has the figures of the whole network.

Durable is a site's own published figures, the coordinate with them: a site that restarts keeps its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from mooring.contracts.site_machine import (
    Asked,
    Effect,
    Event,
    MakeMachine,
    Output,
    Received,
    Send,
    Started,
    TimerDue,
)
from mooring.coordination.gossip import Entry, Gossip, GossipParams
from mooring.errors import InputError
from mooring.model.network.coordinate import Coordinate
from mooring.model.network.vivaldi import VivaldiClient, VivaldiParams

MOST_AWAITED = 8
"""Echoes of one peer: where there are few sites, a slow one is asked again before its answer is there."""


class EchoAsked(msgspec.Struct, frozen=True, tag=True):
    sent_ms: float


class Echoed(msgspec.Struct, frozen=True, tag=True):
    sent_ms: float
    coordinate: Coordinate


class SiteFigures(msgspec.Struct, frozen=True):
    """What one site publishes."""

    coordinate: Coordinate
    latency_ms: tuple[tuple[int, float], ...]
    """Other site -> latency to it, half of a round trip, as measured from here; those that answered only."""


class NetworkFigures(msgspec.Struct, frozen=True, tag=True):
    """Put out for this site's own user: the newest figures received from every site, by its number."""

    sites: tuple[tuple[int, SiteFigures], ...]


@dataclass(frozen=True)
class SurveyParams:
    period_ms: float = 2000.0
    """Time between two rounds of a site; each measures one other site."""
    rounds_per_publication: int = 5
    """Rounds between two publications of a site's figures: ten seconds. Each is a file written."""
    vivaldi: VivaldiParams = field(default_factory=lambda: VivaldiParams(dimensions=2))
    gossip: GossipParams = field(default_factory=lambda: GossipParams(period_ms=5000.0))

    def __post_init__(self) -> None:
        if not 0.0 < self.period_ms < float("inf") or self.rounds_per_publication < 1:
            raise InputError(f"found {self}, expected positive numbers", field="survey")


class Survey:
    """The state machine of one site."""

    def __init__(self, site: int, sites: int, generator: np.random.Generator, params: SurveyParams) -> None:
        self.site = site
        self._sites, self._generator, self._params = sites, generator, params
        self._vivaldi = VivaldiClient(generator, params.vivaldi)
        self._gossip = Gossip(site, sites, generator, params.gossip)
        self._to_visit: list[int] = []
        self._awaited: dict[int, tuple[float, ...]] = {}
        """Peer -> when its last echoes were sent; an answer to anything else is doubled or made up."""
        self._round = 0
        self._next_round_ms: float | None = None

    # What a checker and a user may ask.

    @property
    def entries(self) -> Mapping[int, Entry[object]]:
        return self._gossip.entries

    @property
    def coordinate(self) -> Coordinate:
        return self._vivaldi.coordinate

    def next_timer(self) -> float | None:
        due = [at_ms for at_ms in (self._next_round_ms, self._gossip.next_timer()) if at_ms is not None]
        return min(due, default=None)

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        match event:
            case Started(durable=durable):
                self._next_round_ms = now_ms + self._generator.random() * self._params.period_ms
                if isinstance(durable, Entry) and isinstance(durable.value, SiteFigures):
                    self._vivaldi.resume(durable.value.coordinate)
                return self._gossip.handle(event, now_ms)
            case TimerDue():
                return (*self._gossip_round(event, now_ms), *self._own_round(now_ms))
            case Received(sender=sender, message=EchoAsked(sent_ms=sent_ms)):
                return (Send(sender, Echoed(sent_ms, self.coordinate)),)
            case Received(sender=sender, message=Echoed(sent_ms=sent_ms, coordinate=theirs)):
                awaited = self._awaited.get(sender, ())
                if sent_ms in awaited:
                    self._awaited[sender] = awaited[awaited.index(sent_ms) + 1 :]
                    self._vivaldi.observe(sender, (now_ms - sent_ms) / 2.0, theirs)
                return ()
            case Received():
                return self._gossip.handle(event, now_ms)
            case Asked():
                return ()

    def _gossip_round(self, event: Event, now_ms: float) -> Sequence[Effect]:
        due_ms = self._gossip.next_timer()
        return self._gossip.handle(event, now_ms) if due_ms is not None and due_ms <= now_ms else ()

    def _own_round(self, now_ms: float) -> Sequence[Effect]:
        if self._next_round_ms is None or self._next_round_ms > now_ms:
            return ()
        self._next_round_ms = now_ms + self._params.period_ms
        self._round += 1
        effects: list[Effect] = []
        if self._round % self._params.rounds_per_publication == 0:
            effects += [*self._gossip.publish(self._figures()), Output(self._network())]
        if not self._to_visit:
            others = [peer for peer in range(self._sites) if peer != self.site]
            self._to_visit = [others[i] for i in self._generator.permutation(len(others)).tolist()]
        if self._to_visit:
            peer = self._to_visit.pop()
            self._awaited[peer] = (*self._awaited.get(peer, ()), now_ms)[-MOST_AWAITED:]
            effects.append(Send(peer, EchoAsked(now_ms)))
        return effects

    def _figures(self) -> SiteFigures:
        measured = ((peer, self._vivaldi.latency_ms(peer)) for peer in range(self._sites))
        return SiteFigures(self.coordinate, tuple((peer, ms) for peer, ms in measured if ms is not None))

    def _network(self) -> NetworkFigures:
        entries = sorted(self._gossip.entries.items())
        return NetworkFigures(
            tuple((site, entry.value) for site, entry in entries if isinstance(entry.value, SiteFigures))
        )


def survey_machines(params: SurveyParams | None = None) -> MakeMachine:
    chosen = params or SurveyParams()
    return lambda site, sites, generator: Survey(site, sites, generator, chosen)
