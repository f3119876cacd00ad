"""Anti-entropy gossip: every site receives every site's newest value, although messages are lost, doubled and
delayed.

Each site owns one value, and numbers its versions. In every round a site sends one peer the versions it has
(`KnownVersions`). The peer answers with what is newer at its end and requests what is older (`Reply`), and
the first one sends that back (`Entries`): push and pull in three messages. Merging keeps the higher version,
so it does not matter in what order, or how often, messages arrive. An owner that receives a newer version of
its own value than it published publishes the value again, under a still newer version. So the owner always
has the last word.

Peers are visited in shuffled rounds instead of independent draws: on a network that delivers, every site
has exchanged with every other within 2 (n - 1) rounds, so convergence has a bound and not only an
expectation. Only the owner's own entry is durable; the rest is learnt again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec
import numpy as np

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
from mooring.errors import InputError

MOST_AHEAD = 1 << 32
"""Versions that a site can have missed: a publication a second for a century. What is said to be further
ahead is not taken, or the numbers would run out."""

Value = TypeVar("Value", covariant=True)
"""What sites publish: the protocol does not look at it, but a wire has to know its type."""


class Entry(msgspec.Struct, Generic[Value], frozen=True):
    owner: int
    version: int
    value: Value


class KnownVersions(msgspec.Struct, frozen=True, tag=True):
    """The version known of each owner, by its number; 0 where nothing is known."""

    versions: tuple[int, ...]


class Reply(msgspec.Struct, Generic[Value], frozen=True, tag=True):
    newer: tuple[Entry[Value], ...]
    wanted: tuple[int, ...]
    """Owners of whom the summary knew more than the answering site."""


class Entries(msgspec.Struct, Generic[Value], frozen=True, tag=True):
    entries: tuple[Entry[Value], ...]


@dataclass(frozen=True)
class GossipParams:
    period_ms: float = 100.0
    """Time between two rounds of a site; convergence takes up to 2 (n - 1) of them."""

    def __post_init__(self) -> None:
        if not 0 < self.period_ms < float("inf"):
            raise InputError(f"is {self.period_ms}, expected a positive number", field="period_ms")

    def convergence_ms(self, sites: int, largest_latency_ms: float) -> float:
        """Within this time of a healthy network everyone knows everything: 2 (n - 1) rounds, and three
        messages.
        """
        return 2 * (sites - 1) * self.period_ms + 3 * largest_latency_ms


DEFAULT_PARAMS = GossipParams()


class Gossip:
    """The state machine of one site."""

    def __init__(
        self, site: int, sites: int, generator: np.random.Generator, params: GossipParams = DEFAULT_PARAMS
    ) -> None:
        self.site = site
        self.entries: dict[int, Entry[Data]] = {}
        self._sites = sites
        self._generator = generator
        self._period_ms = params.period_ms
        self._to_visit: list[int] = []
        self._next_round_ms: float | None = None

    def next_timer(self) -> float | None:
        return self._next_round_ms

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        match event:
            case Started(durable=durable):
                # A random phase keeps the sites' rounds apart.
                self._next_round_ms = now_ms + self._generator.random() * self._period_ms
                if isinstance(durable, Entry):
                    self.entries[self.site] = durable
                return ()
            case TimerDue():
                self._next_round_ms = now_ms + self._period_ms
                return self._round()
            case Received(sender=sender, message=message):
                return self._answer(sender, message)
            case Asked(request=value):
                return self.publish(value)

    def publish(self, value: Data) -> Sequence[Effect]:
        """A new version of this site's own value; durable first, or a restart would give its number away
        again.
        """
        known = self.entries.get(self.site)
        entry = Entry(self.site, known.version + 1 if known else 1, value)
        self.entries[self.site] = entry
        return (Persist(entry),)

    def merge(self, entries: Iterable[Entry[Data]]) -> Sequence[Effect]:
        """Of owners that there are: nobody fills a site's memory with others."""
        effects: list[Effect] = []
        for entry in entries:
            known = self.entries.get(entry.owner)
            before = known.version if known else 0
            if not before < entry.version <= before + MOST_AHEAD or not 0 <= entry.owner < self._sites:
                continue
            if entry.owner == self.site and known is not None and entry.value != known.value:
                entry = Entry(self.site, entry.version + 1, known.value)
                effects.append(Persist(entry))
            self.entries[entry.owner] = entry
        return tuple(effects)

    def _round(self) -> Sequence[Effect]:
        if not self._to_visit:
            peers = [peer for peer in range(self._sites) if peer != self.site]
            self._to_visit = [peers[i] for i in self._generator.permutation(len(peers)).tolist()]
        return (Send(self._to_visit.pop(), KnownVersions(self._versions())),) if self._to_visit else ()

    def _answer(self, sender: int, message: Data) -> Sequence[Effect]:
        match message:
            case KnownVersions(versions=theirs) if len(theirs) == self._sites:
                mine = self._versions()
                newer = tuple(self.entries[i] for i in range(self._sites) if mine[i] > theirs[i])
                wanted = tuple(i for i in range(self._sites) if mine[i] < theirs[i])
                return (Send(sender, Reply(newer, wanted)),) if newer or wanted else ()
            case Reply(newer=newer, wanted=wanted):
                merged = self.merge(newer)
                owners = dict.fromkeys(wanted)  # each once, or the answer would be larger than any question
                known = tuple(self.entries[owner] for owner in owners if owner in self.entries)
                return (*merged, Send(sender, Entries(known))) if known else merged
            case Entries(entries=entries):
                return self.merge(entries)
        return ()

    def _versions(self) -> tuple[int, ...]:
        entries = self.entries
        return tuple(entries[i].version if i in entries else 0 for i in range(self._sites))


def gossip_machines(params: GossipParams = DEFAULT_PARAMS) -> MakeMachine:
    return lambda site, sites, generator: Gossip(site, sites, generator, params)
