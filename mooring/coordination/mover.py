"""The mover: judges the proposals of all sites, and hands those that it accepts to its host.

It is a machine like those of the sites, so that it can be tested with them, and crashed. It stops and starts
nothing either: what it accepts goes to its host (`CarryOut`), which has journal, fence and engine, reports
every start of a fragment to the mover, and at last that the list has ended (`CarriedOut`).

The host decides when to judge those that wait, and how: it hands in its `Verdicts`. What mends a violation is
first, then the largest promise. What is accepted is carried out as one list; two of which one concerns what
the other moves are not. What comes meanwhile is refused: it was made without knowing of it.

Sites receive where fragments are. Where the protocol says which fragments belong together, a site receives
those at it, those that belong to them, and those that have just left it; otherwise of all.

What becomes of a proposal is in the table below. `WAITING` is not durable: after a crash the mover receives
the proposal again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from enum import Enum

import msgspec

from mooring.contracts.site_machine import (
    Asked,
    Data,
    Effect,
    Event,
    Output,
    Persist,
    Received,
    Send,
    Started,
)
from mooring.coordination.move_messages import (
    NOWHERE,
    Accepted,
    Answer,
    Done,
    Ending,
    Failed,
    Inquiry,
    LookUp,
    MovePlan,
    Over,
    ProposalId,
    Proposed,
    Refused,
    StartedAt,
    Whereabouts,
)

MOST_UNHEARD = 64
"""Ids per site that it may have refused by inquiries that arrive before the proposals. What it holds for
further ones it keeps until some of these are over."""
MOST_STATES = 1000
"""That a site may name to get what has changed since; by an older one it gets everything."""
Belonging = Mapping[int, Sequence[int]]
BUSY = "another list of moves is being carried out"


# Between the mover and its host.


class CarryOut(msgspec.Struct, frozen=True, tag=True):
    """Make the moves of these plans, one after the other. Said again after a crash: the host then goes on,
    or says that it has ended.
    """

    proposals: tuple[Proposed, ...]


class CarriedOut(msgspec.Struct, frozen=True, tag=True):
    """The list has ended, one way or the other; what it started was told before."""

    why: str = ""
    """Why not all of it was done, if that is known."""


class Verdicts(msgspec.Struct, frozen=True, tag=True):
    """What the host has decided of proposals that wait. What it says nothing of goes on waiting."""

    reasons: tuple[tuple[ProposalId, str | None], ...]
    """Why a proposal is refused, as a whole; None if it is to be carried out."""


class MoverMemory(msgspec.Struct, frozen=True, tag=True):
    """What survives a crash."""

    accepted: tuple[Proposed, ...] = ()
    """What is being carried out."""
    answers: tuple[Answer, ...] = ()
    """To the newest proposal of each site, in the sites' order."""
    unheard: tuple[tuple[int, ProposalId], ...] = ()
    """Ids whose inquiry arrived before the proposal, and the site that sent it: refused, should the proposals
    arrive after all. Each stands for itself alone: one site cannot use up the ids of another."""


class Seen(Enum):
    """A proposal as the mover knows it."""

    UNKNOWN = "unknown"
    WAITING = "waiting"
    ACCEPTED = "accepted"
    ENDED = "ended"


TRANSITIONS: Mapping[tuple[Seen, type], frozenset[Seen]] = {
    (Seen.UNKNOWN, Proposed): frozenset({Seen.WAITING, Seen.ENDED}),  # ended: not from how things are
    (Seen.UNKNOWN, Inquiry): frozenset({Seen.ENDED, Seen.UNKNOWN}),  # refused for good, if there is room
    (Seen.WAITING, Proposed): frozenset({Seen.WAITING}),
    (Seen.WAITING, Inquiry): frozenset({Seen.WAITING}),
    (Seen.WAITING, Verdicts): frozenset({Seen.ACCEPTED, Seen.ENDED}),
    (Seen.WAITING, Started): frozenset({Seen.UNKNOWN}),
    (Seen.ACCEPTED, Proposed): frozenset({Seen.ACCEPTED}),
    (Seen.ACCEPTED, Inquiry): frozenset({Seen.ACCEPTED}),
    (Seen.ACCEPTED, CarriedOut): frozenset({Seen.ENDED}),
    (Seen.ENDED, Proposed): frozenset({Seen.ENDED}),
    (Seen.ENDED, Inquiry): frozenset({Seen.ENDED}),
}
"""What an event makes of a proposal: before -> what it may be after. Anything else leaves it as it is, and so
does every event while an older proposal of the same site is being carried out."""


class MoverMachine:
    def __init__(self, sites: int, belonging: Belonging | None = None) -> None:
        """`belonging`: per fragment, those whose places matter where it runs; None: all do everywhere."""
        self.memory = MoverMemory()
        self.belonging = belonging
        self._state, self._version = 0, 0
        self._versions: dict[int, int] = {}
        """State -> after how many changes it was so; of the last ones."""
        self._changed: dict[int, int] = {}
        """Fragment -> with which change its place came."""
        self.where: dict[int, StartedAt] = {}
        self._whole = False
        """Whether the host has told of everything that runs. A site that took a part of it for the whole
        would promise the room of what it was not told of."""
        self.waiting: dict[int, Proposed] = {}
        """By site: a site has one open at a time."""
        self._sites = sites

    def next_timer(self) -> float | None:
        return None

    def seen(self, id: ProposalId) -> Seen:
        known = self._answer_to(id)
        if known is None:
            return Seen.WAITING if self._waits(id) else Seen.UNKNOWN
        return Seen.ACCEPTED if isinstance(known, Accepted) else Seen.ENDED

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        match event:
            case Started(durable=durable):
                if isinstance(durable, MoverMemory):
                    self.memory = durable
                going = self.memory.accepted
                return (Output(CarryOut(going)),) if going else ()
            case Received(sender=sender, message=message):
                return self._receive(sender, message)
            case Asked(request=request):
                return self._told(request)
        return ()

    # From the sites.

    def _receive(self, sender: int, message: Data) -> Sequence[Effect]:
        match message:
            case Proposed():
                return self._proposed(sender, message)
            case Inquiry(id=id):
                return self._asked_about(sender, id)
            case LookUp(known=known) if self.where:
                return (Send(sender, self._news(sender, known)),)
        return ()

    def _proposed(self, sender: int, proposed: Proposed) -> Sequence[Effect]:
        known = self._answer_to(proposed.id)
        if known is not None:
            return (Send(sender, known),)
        other = self.waiting.get(sender)
        if sender != proposed.id[0] or self._has_one_under_way(sender) or (other and other.id > proposed.id):
            return ()  # no site that keeps to the contract has two open
        if not all(0 <= holder < self._sites for holder in proposed.lease.holders):
            return ()
        if (stale := self._stale(proposed.plan)) is not None:
            self.waiting.pop(sender, None)
            return self._end(proposed, Refused(proposed.id, stale))
        self.waiting[sender] = proposed
        return ()

    def _asked_about(self, sender: int, id: ProposalId) -> Sequence[Effect]:
        known = self._answer_to(id)
        if known is not None:
            return (Send(sender, known),)
        if self._waits(id) or self._has_one_under_way(id[0]):
            return ()  # it is asked again, and then there will be an answer
        if sender == id[0]:  # its own word for its own ids: of all of them up to this one
            refusal = Refused(id, never_heard(sender))
            self._remember(refusal)
            return (Persist(self.memory), Send(sender, refusal))
        if sum(asker == sender for asker, _ in self.memory.unheard) >= MOST_UNHEARD:
            return ()
        unheard = (*self.memory.unheard, (sender, id))
        self.memory = msgspec.structs.replace(self.memory, unheard=unheard)
        return (Persist(self.memory), Send(sender, Refused(id, never_heard(sender))))

    def _waits(self, id: ProposalId) -> bool:
        return id[0] in self.waiting and self.waiting[id[0]].id == id

    def _has_one_under_way(self, site: int) -> bool:
        return any(going.id[0] == site for going in self.memory.accepted)

    # Judging.

    def _judged(self, reasons: Mapping[ProposalId, str | None]) -> Sequence[Effect]:
        """Answer those that wait and were judged."""
        effects: list[Effect] = []
        busy, taken = bool(self.memory.accepted), list[Proposed]()
        for proposed in self.by_promise():
            if proposed.id not in reasons:
                continue
            del self.waiting[proposed.id[0]]
            reason = BUSY if busy else self._stale(proposed.plan) or self.meets(proposed, taken)
            reason = reason or reasons[proposed.id]
            if reason is None:
                taken.append(proposed)
            else:
                effects += self._end(proposed, Refused(proposed.id, reason))
        if not taken:
            return effects
        for proposed in taken:
            self._remember(Accepted(proposed.id))
        self.memory = msgspec.structs.replace(self.memory, accepted=tuple(taken))
        told = [each for proposed in taken for each in self._tell(proposed, Accepted(proposed.id))]
        return [*effects, Persist(self.memory), *told, Output(CarryOut(tuple(taken)))]

    @staticmethod
    def meets(proposed: Proposed, taken: Sequence[Proposed]) -> str | None:
        """Whether one of those that are to be carried out moves what this plan moves or was made from, or
        the other way round.
        """
        moved, known = _concerns(proposed.plan)
        for other in taken:
            others, others_known = _concerns(other.plan)
            if others & (moved | known) or moved & others_known:
                return f"it concerns what {other.id} moves"
        return None

    def by_promise(self) -> list[Proposed]:
        """What waits to be judged, in the order in which that is done: what mends something first."""
        return sorted(
            self.waiting.values(), key=lambda each: (not each.violation, -each.promise.tuples_saved, each.id)
        )

    def _stale(self, plan: MovePlan) -> str | None:
        """What a plan was made from that is not so, in words."""
        if not plan.moves or len({move.fragment for move in plan.moves}) < len(plan.moves):
            return "a proposal must move at least one fragment, and each once"
        starts = [StartedAt(move.fragment, move.from_site, move.epoch) for move in plan.moves]
        for seen in (*starts, *plan.made_from):
            if (now := self.where.get(seen.fragment)) != seen:
                return f"it assumes {_in_words(seen)}, but now it is {_in_words(now)}"
        if wrong := [m for m in plan.moves if m.to_site == m.from_site or not 0 <= m.to_site < self._sites]:
            return f"fragment {wrong[0].fragment} cannot go to site {wrong[0].to_site}"
        return None

    # From the host.

    def _told(self, request: Data) -> Sequence[Effect]:
        match request:
            case Whereabouts(places=places, whole=whole):
                self._whole |= whole
                return self._learn(places)
            case Verdicts(reasons=reasons):
                return self._judged(dict(reasons))
            case CarriedOut(why=why):
                return self._carried_out(why)
        return ()

    def _learn(self, places: Sequence[StartedAt]) -> Sequence[Effect]:
        before = dict(self.where)
        new = [place for place in places if place.newer_than(self.where.get(place.fragment))]
        if not new:
            return []
        self._version += 1
        for place in new:
            if (old := self.where.get(place.fragment)) is not None:
                self._state ^= _name_of(old)
            self._state ^= _name_of(place)
            self.where[place.fragment] = place
            self._changed[place.fragment] = self._version
        self._versions[self._state] = self._version
        if len(self._versions) > MOST_STATES:
            del self._versions[next(iter(self._versions))]
        if self.belonging is None:
            return [Send(site, Whereabouts(tuple(new))) for site in range(self._sites)]
        told: dict[int, dict[int, StartedAt]] = {}
        for place in new:
            others = self.belonging.get(place.fragment, ())
            known = [self.where[other] for other in others if other in self.where]
            old = before.get(place.fragment)
            ends = {place.site, NOWHERE if old is None else old.site, *(each.site for each in known)}
            for site in ends - {NOWHERE}:
                told.setdefault(site, {})[place.fragment] = place
            if place.site != NOWHERE:
                told[place.site] |= {each.fragment: each for each in known}
        return [Send(site, Whereabouts(_ordered(told[site]))) for site in sorted(told)]

    def concerns(self, fragment: int, site: int) -> bool:
        """Whether the site is to know where the fragment is."""
        if self.belonging is None:
            return True
        around = (fragment, *self.belonging.get(fragment, ()))
        return any(other in self.where and self.where[other].site == site for other in around)

    def belong(self, belonging: Belonging | None) -> None:
        """Other fragments belong together from now on: sites receive them when they ask again."""
        self.belonging = belonging
        self._versions.clear()

    def _news(self, site: int, known: int) -> Whereabouts:
        """For a site that was told everything of a state."""
        since = self._versions.get(known)
        if since is not None:
            concerned = {f: self.where[f] for f, version in self._changed.items() if version > since}
        elif self.belonging is not None and known == 0:
            concerned = {f: place for f, place in self.where.items() if place.site == site}
        else:
            concerned = self.where
        for fragment in [f for f, place in concerned.items() if place.site == site]:
            for other in () if self.belonging is None else self.belonging.get(fragment, ()):
                if other in self.where:
                    concerned[other] = self.where[other]
        self._versions[self._state] = self._version
        return Whereabouts(_ordered(concerned), self._whole, self._state, 0 if since is None else known)

    def _carried_out(self, why: str) -> Sequence[Effect]:
        going = self.memory.accepted
        endings = [self._ending_of(each, why) for each in going]
        for ending in endings:
            self._remember(ending)
        self.memory = msgspec.structs.replace(self.memory, accepted=())
        told = [
            effect for each, ending in zip(going, endings, strict=True) for effect in self._tell(each, ending)
        ]
        return [Persist(self.memory), *told] if going else []

    def _ending_of(self, going: Proposed, why: str) -> Ending:
        moves = going.plan.moves
        places = tuple(self.where[m.fragment] for m in moves if m.fragment in self.where)
        if [place.site for place in places] == [move.to_site for move in moves]:
            return Done(going.id, places)
        return Failed(going.id, why or "not every fragment reached its site", places)

    # Answers.

    def _answer_to(self, id: ProposalId) -> Answer | None:
        newest = next((known for known in self.memory.answers if known.id[0] == id[0]), None)
        if newest is None or newest.id < id:
            asker = next((asker for asker, asked in self.memory.unheard if asked == id), None)
            return None if asker is None else Refused(id, never_heard(asker))
        return newest if newest.id == id else Over(id)

    def _end(self, proposed: Proposed, ending: Ending) -> Sequence[Effect]:
        self._remember(ending)
        return (Persist(self.memory), *self._tell(proposed, ending))

    def _remember(self, answer: Answer) -> None:
        others = (known for known in self.memory.answers if known.id[0] != answer.id[0])
        answers = tuple(sorted((*others, answer), key=lambda known: known.id[0]))
        over = answer.id
        unheard = tuple(each for each in self.memory.unheard if each[1][0] != over[0] or each[1] > over)
        self.memory = msgspec.structs.replace(self.memory, answers=answers, unheard=unheard)

    @staticmethod
    def _tell(proposed: Proposed, answer: Answer) -> Sequence[Effect]:
        to = dict.fromkeys((proposed.id[0], *proposed.lease.holders))
        return [Send(site, answer) for site in to]


def _ordered(places: Mapping[int, StartedAt]) -> tuple[StartedAt, ...]:
    return tuple(places[fragment] for fragment in sorted(places))


def _name_of(place: StartedAt) -> int:
    """States are told apart by these together, whatever order places came in."""
    told = f"{place.fragment} {place.site} {place.epoch}".encode()
    return int.from_bytes(hashlib.blake2b(told, digest_size=7).digest(), "big")


def never_heard(asker: int) -> str:
    return f"unknown proposal (site {asker} requested its state)"


def _concerns(plan: MovePlan) -> tuple[set[int], set[int]]:
    return {move.fragment for move in plan.moves}, {place.fragment for place in plan.made_from}


def _in_words(place: StartedAt | None) -> str:
    if place is None:
        return "not known where"
    return f"fragment {place.fragment} at site {place.site} under epoch {place.epoch}"
