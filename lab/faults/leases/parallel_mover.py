"""A mover that keeps to the contract of `moving.py` and makes things hard for leases.

It carries out as many plans at once as it is asked for, moves from nowhere and to nowhere among them, and
judges nothing but whether a plan was made from how things are: that plans do not get into each other's way is
for leases to see to. It refuses some for no reason, and some fail halfway and are undone. All it knows is
durable; it goes on after a crash where it was. Engines and fences are not modelled here.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from mooring.contracts.site_machine import Data, Effect, Event, Persist, Received, Send, Started, TimerDue
from mooring.coordination.move_messages import (
    Accepted,
    Answer,
    Done,
    Failed,
    FragmentMove,
    Inquiry,
    LookUp,
    Over,
    ProposalId,
    Proposed,
    Refused,
    StartedAt,
    Whereabouts,
)

STEP_MS, SLOWEST = 60.0, 40.0
"""For a fragment to stop here and start there, and by which factor it may take longer."""
REFUSED_SHARE, FAILED_SHARE = 0.1, 0.1
"""Of plans, and of steps."""


class Work(msgspec.Struct, frozen=True):
    """A plan under way."""

    proposed: Proposed
    made: tuple[FragmentMove, ...] = ()
    """Moves that are made, and not undone."""
    undoing: bool = False


class ParallelMemory(msgspec.Struct, frozen=True):
    places: tuple[StartedAt, ...]
    answers: tuple[Answer, ...] = ()
    """To the newest proposal of each site."""
    work: tuple[Work, ...] = ()


class ParallelMover:
    def __init__(
        self,
        sites: int,
        generator: np.random.Generator,
        places: Sequence[StartedAt],
        refused_share: float = REFUSED_SHARE,
        failed_share: float = FAILED_SHARE,
    ) -> None:
        self._sites, self._generator = sites, generator
        self._refused_share, self._failed_share = refused_share, failed_share
        self.memory = ParallelMemory(tuple(places))
        self._next_ms: float | None = None

    def next_timer(self) -> float | None:
        return self._next_ms

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        match event:
            case Started(durable=durable):
                self.memory = durable if isinstance(durable, ParallelMemory) else self.memory
                self._next_ms = self._step_ms(now_ms) if self.memory.work else None
            case Received(sender=sender, message=message):
                return self._receive(sender, message, now_ms)
            case TimerDue():
                return self._work(now_ms)
        return ()

    def _step_ms(self, now_ms: float) -> float:
        return now_ms + STEP_MS * float(SLOWEST ** self._generator.random())

    def _receive(self, sender: int, message: Data, now_ms: float) -> Sequence[Effect]:
        match message:
            case LookUp():
                return (Send(sender, Whereabouts(self.memory.places, whole=True)),)
            case Inquiry(id=id_) | Proposed(id=id_) if (known := self._answer_to(id_)) is not None:
                return (Send(sender, known),)
            case Inquiry(id=id_):
                never = Refused(id_, "it was asked about before it was heard of")
                self._remember(never)
                return (Persist(self.memory), Send(sender, never))
            case Proposed():
                return self._judge(message, now_ms)
        return ()

    def _judge(self, proposed: Proposed, now_ms: float) -> Sequence[Effect]:
        where = {place.fragment: place for place in self.memory.places}
        seen = [StartedAt(move.fragment, move.from_site, move.epoch) for move in proposed.plan.moves]
        stale = [place for place in (*seen, *proposed.plan.made_from) if where.get(place.fragment) != place]
        answer: Answer = Accepted(proposed.id)
        if stale or self._generator.random() < self._refused_share:
            answer = Refused(proposed.id, f"made from {stale[0]}" if stale else "the guards say no")
        else:
            work = (*self.memory.work, Work(proposed))
            self.memory = msgspec.structs.replace(self.memory, work=work)
            self._next_ms = self._step_ms(now_ms) if self._next_ms is None else self._next_ms
        self._remember(answer)
        return (Persist(self.memory), *_told(proposed, answer))

    def _work(self, now_ms: float) -> Sequence[Effect]:
        """One step of every plan under way."""
        where = {place.fragment: place for place in self.memory.places}
        left: list[Work] = []
        effects: list[Effect] = []
        for work in self.memory.work:
            after = self._stepped(work, where)
            if isinstance(after, Work):
                left.append(after)
            else:
                self._remember(after)
                effects += _told(work.proposed, after)
        places = tuple(where.values())
        if places != self.memory.places:
            effects += [Send(site, Whereabouts(places)) for site in range(self._sites)]
        self.memory = msgspec.structs.replace(self.memory, places=places, work=tuple(left))
        self._next_ms = self._step_ms(now_ms) if left else None
        return (Persist(self.memory), *effects)

    def _stepped(self, work: Work, where: dict[int, StartedAt]) -> Work | Answer:
        """Moves in their order, or backwards after a failure; the answer once nothing is left to do."""
        moves, made = work.proposed.plan.moves, work.made
        fails = len(made) < len(moves) and self._generator.random() < self._failed_share
        if work.undoing or fails:
            if not made:
                places = tuple(where[move.fragment] for move in moves)
                return Failed(work.proposed.id, "a fragment did not start", places)
            _put(where, made[-1].fragment, made[-1].from_site)
            return Work(work.proposed, made[:-1], undoing=True)
        if len(made) == len(moves):
            return Done(work.proposed.id, tuple(where[move.fragment] for move in moves))
        move = moves[len(made)]
        _put(where, move.fragment, move.to_site)
        return Work(work.proposed, (*made, move))

    def _answer_to(self, id_: ProposalId) -> Answer | None:
        newest = next((known for known in self.memory.answers if known.id[0] == id_[0]), None)
        if newest is None or newest.id < id_:
            return None
        return newest if newest.id == id_ else Over(id_)

    def _remember(self, answer: Answer) -> None:
        others = tuple(known for known in self.memory.answers if known.id[0] != answer.id[0])
        self.memory = msgspec.structs.replace(self.memory, answers=(*others, answer))


def _put(where: dict[int, StartedAt], fragment: int, site: int) -> None:
    where[fragment] = StartedAt(fragment, site, where[fragment].epoch + 1)


def _told(proposed: Proposed, answer: Answer) -> list[Effect]:
    return [Send(site, answer) for site in sorted({proposed.id[0], *proposed.lease.holders})]
