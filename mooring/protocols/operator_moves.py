"""How operators move between sites: every transition of the optimisers' protocol.

Moves are atomic per group of queries (queries that share operators are one group). The group's coordinator
grants one move at a time; the operator is stopped, sent with its state under the next epoch, and runs again
where it is accepted, or here if it is refused. While it is on its way it runs nowhere, and its data waits in
its channels. Once sent, only the target's answer decides: if the target is gone, the move waits for it.
Duplicates and old messages are harmless because a site fences every epoch that it refused or let go.

A site runs operators and coordinates groups; the two tables below say what becomes of each under every
message. What is in neither changes nothing and is not answered. Besides, a site keeps a move that is over
(`Settled`) until the coordinator has said `Released`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum

import msgspec

from mooring.protocols.optimiser_messages import (
    AskMove,
    Attempt,
    Durable,
    Grant,
    Granted,
    Hosted,
    Leaving,
    Location,
    Release,
    Released,
    Running,
    Settled,
    Stopped,
    Transfer,
    TransferAccepted,
    TransferRefused,
)
from mooring.protocols.protocol import Effect, Output, Persist, Send

MoveMessage = AskMove | Granted | Release | Released | Transfer | TransferAccepted | TransferRefused


def operator_of(message: MoveMessage) -> int:
    return message.hosted.operator if isinstance(message, Transfer) else message.operator


class Hosting(Enum):
    """Of one operator, as one site knows it."""

    AWAY = "away"
    HERE = "here"
    LEAVING = "leaving"
    """Stopped here and sent; the target has not answered."""


class Desk(Enum):
    """Of one coordinator."""

    FREE = "free"
    GRANTED = "granted"


OPERATOR: Mapping[tuple[Hosting, type[MoveMessage]], frozenset[Hosting]] = {
    (Hosting.HERE, Granted): frozenset({Hosting.LEAVING, Hosting.HERE}),  # it goes, or no longer wants to
    (Hosting.LEAVING, Granted): frozenset({Hosting.LEAVING}),  # a duplicate
    (Hosting.AWAY, Granted): frozenset({Hosting.AWAY}),  # late: given back
    (Hosting.LEAVING, TransferAccepted): frozenset({Hosting.AWAY}),
    (Hosting.LEAVING, TransferRefused): frozenset({Hosting.HERE}),
    (Hosting.AWAY, Transfer): frozenset({Hosting.HERE, Hosting.AWAY}),  # taken; no room, or an old epoch
    (Hosting.HERE, Transfer): frozenset({Hosting.HERE}),  # a duplicate: accepted again
    (Hosting.LEAVING, Transfer): frozenset({Hosting.LEAVING}),  # an old epoch
}
"""What a site that runs operators makes of a message: stage before -> stages that it may lead to."""

COORDINATOR: Mapping[tuple[Desk, type[MoveMessage]], frozenset[Desk]] = {
    (Desk.FREE, AskMove): frozenset({Desk.GRANTED}),  # while granted, it is not answered and asked again
    (Desk.GRANTED, Release): frozenset({Desk.FREE, Desk.GRANTED}),  # of this grant, or of an older one
    (Desk.FREE, Release): frozenset({Desk.FREE}),  # a duplicate: confirmed again
}
"""What a coordinator makes of a message."""

Chosen = Callable[[int, Attempt], int | None]
"""The site that was chosen for an operator in an attempt to move it; None if the attempt was given up."""


class OperatorMoves:
    """The operators of one site, where all others are as far as it knows, and the moves between them."""

    def __init__(
        self,
        site: int,
        capacity_cores: float,
        initial: Sequence[Hosted],
        whereabouts: Sequence[Location],
        chosen: Chosen,
    ) -> None:
        self.site, self.capacity_cores = site, capacity_cores
        self.durable = Durable(hosted=tuple(initial))
        self.where: dict[int, Location] = {place.operator: place for place in whereabouts}
        self._chosen = chosen

    def stage(self, operator: int) -> Hosting:
        if any(leaving.hosted.operator == operator for leaving in self.durable.leaving):
            return Hosting.LEAVING
        return Hosting.AWAY if self.hosted(operator) is None else Hosting.HERE

    @property
    def desk(self) -> Desk:
        return Desk.FREE if self.durable.grant is None else Desk.GRANTED

    @property
    def spare_cores(self) -> float:
        used = sum(hosted.cores for hosted in self.durable.hosted)
        return self.capacity_cores - used - sum(leaving.hosted.cores for leaving in self.durable.leaving)

    def hosted(self, operator: int) -> Hosted | None:
        return next((hosted for hosted in self.durable.hosted if hosted.operator == operator), None)

    def site_of(self, operator: int) -> int:
        """-1 where not known."""
        if self.hosted(operator) is not None:
            return self.site
        place = self.where.get(operator)
        return -1 if place is None else place.site

    def learn(self, locations: Sequence[Location]) -> None:
        for place in locations:
            known = self.where.get(place.operator)
            if known is None or place.epoch > known.epoch:
                self.where[place.operator] = place

    def change(self, changed: Hosted) -> None:
        """Replace what is kept of an operator that runs here."""
        same = changed.operator
        hosted = tuple(changed if other.operator == same else other for other in self.durable.hosted)
        self.durable = msgspec.structs.replace(self.durable, hosted=hosted)

    def repeat(self) -> Sequence[Effect]:
        """Whatever waits for an answer, said again."""
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

    def receive(self, sender: int, message: MoveMessage) -> Sequence[Effect]:
        operator, kind = operator_of(message), type(message)
        known = (self.stage(operator), kind) in OPERATOR or (self.desk, kind) in COORDINATOR
        if not known and kind is not Released:
            return ()
        match message:
            case AskMove(attempt=attempt):
                return self._grant(sender, operator, attempt)
            case Granted(attempt=attempt):
                return self._let_go(sender, operator, attempt)
            case Transfer(hosted=hosted):
                return self._take(sender, hosted)
            case TransferAccepted(epoch=epoch):
                return self._gone(operator, epoch)
            case TransferRefused(epoch=epoch):
                return self._stays(operator, epoch)
            case Release(attempt=attempt):
                return self._release(sender, operator, attempt)
            case Released(attempt=attempt):
                return self._forget(operator, attempt)

    # The coordinator's part.

    def _grant(self, sender: int, operator: int, attempt: Attempt) -> Sequence[Effect]:
        self.durable = msgspec.structs.replace(self.durable, grant=Grant(operator, sender, attempt))
        return (Persist(self.durable), Send(sender, Granted(operator, attempt)))

    def _release(self, sender: int, operator: int, attempt: Attempt) -> Sequence[Effect]:
        if self.durable.grant == Grant(operator, sender, attempt):
            self.durable = msgspec.structs.replace(self.durable, grant=None)
            return (Persist(self.durable), Send(sender, Released(operator, attempt)))
        return (Send(sender, Released(operator, attempt)),)

    # The part of the site that lets go.

    def _let_go(self, coordinator: int, operator: int, attempt: Attempt) -> Sequence[Effect]:
        if any(leaving.attempt == attempt for leaving in self.durable.leaving):
            return ()
        settled = any(settled.attempt == attempt for settled in self.durable.settled)
        hosted, target = self.hosted(operator), self._chosen(operator, attempt)
        if settled or hosted is None or target is None:
            return (Send(coordinator, Release(operator, attempt)),)
        leaving = Leaving(msgspec.structs.replace(hosted, epoch=hosted.epoch + 1), target, attempt)
        self.durable = msgspec.structs.replace(
            self.durable,
            hosted=tuple(other for other in self.durable.hosted if other.operator != operator),
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
        self.learn([Location(operator, leaving.target, epoch)])
        self.durable = self._settled(leaving)
        return (Persist(self.durable), Send(leaving.hosted.coordinator, Release(operator, leaving.attempt)))

    def _stays(self, operator: int, epoch: int) -> Sequence[Effect]:
        """Refused: it runs here again, under an epoch that the target has not fenced."""
        leaving = self._leaving(operator, epoch)
        if leaving is None:
            return ()
        back = msgspec.structs.replace(leaving.hosted, epoch=epoch + 1)
        durable = self._settled(leaving)
        self.durable = msgspec.structs.replace(durable, hosted=(*durable.hosted, back))
        return (
            Persist(self.durable),
            Output(Running(operator, back.epoch)),
            Send(back.coordinator, Release(operator, leaving.attempt)),
        )

    def _forget(self, operator: int, attempt: Attempt) -> Sequence[Effect]:
        left = tuple(s for s in self.durable.settled if (s.operator, s.attempt) != (operator, attempt))
        if len(left) == len(self.durable.settled):
            return ()
        self.durable = msgspec.structs.replace(self.durable, settled=left)
        return (Persist(self.durable),)

    def _leaving(self, operator: int, epoch: int) -> Leaving | None:
        found = (leaving for leaving in self.durable.leaving if leaving.hosted.operator == operator)
        return next((leaving for leaving in found if leaving.hosted.epoch == epoch), None)

    def _settled(self, leaving: Leaving) -> Durable:
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
        mine = self.hosted(operator)
        if mine is not None:
            return (Send(sender, TransferAccepted(operator, epoch)),) if mine.epoch >= epoch else ()
        if epoch <= dict(self.durable.fences).get(operator, -1):
            # Refused before; or taken and since passed on, and then nobody waits for this answer any more,
            # because the next move was granted only after this one had been settled.
            return (Send(sender, TransferRefused(operator, epoch)),)
        fences = self._fenced(operator, epoch)
        if self.spare_cores < hosted.cores:
            self.durable = msgspec.structs.replace(self.durable, fences=fences)
            return (Persist(self.durable), Send(sender, TransferRefused(operator, epoch)))
        self.learn([Location(operator, self.site, epoch)])
        self.durable = msgspec.structs.replace(
            self.durable, hosted=(*self.durable.hosted, hosted), fences=fences
        )
        return (
            Persist(self.durable),
            Output(Running(operator, epoch)),
            Send(sender, TransferAccepted(operator, epoch)),
        )

    def _fenced(self, operator: int, epoch: int) -> tuple[tuple[int, int], ...]:
        fences = dict(self.durable.fences)
        fences[operator] = max(epoch, fences.get(operator, -1))
        return tuple(sorted(fences.items()))
