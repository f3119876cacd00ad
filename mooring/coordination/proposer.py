"""The proposer's part of the contract in `moving.py`: one open proposal of a site, until it is answered.

    stage      event                  becomes
    IDLE       propose                OPEN        kept, then sent
    OPEN       Accepted               ACCEPTED
    OPEN       Refused, Done, ...     IDLE
    ACCEPTED   Done, Failed, Over     IDLE
    ACCEPTED   Refused                IDLE        never sent, but who has lost his memory may say it

An answer to another proposal than the open one changes nothing. A machine owns a `Proposer`, keeps `open` in
its durable state, and calls `repeat` from its timer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from mooring.contracts.site_machine import Effect, Send
from mooring.coordination.move_messages import (
    Accepted,
    Answer,
    Done,
    Ending,
    Failed,
    Inquiry,
    Lease,
    MovePlan,
    Over,
    Promise,
    ProposalId,
    Proposed,
    Refused,
    mover_of,
)


class Stage(Enum):
    IDLE = "idle"
    OPEN = "open"
    ACCEPTED = "accepted"


TRANSITIONS: Mapping[tuple[Stage, type[Proposed] | type[Answer]], Stage] = {
    (Stage.IDLE, Proposed): Stage.OPEN,
    (Stage.OPEN, Accepted): Stage.ACCEPTED,
    **{(Stage.OPEN, ending): Stage.IDLE for ending in (Refused, Done, Failed, Over)},
    **{(Stage.ACCEPTED, ending): Stage.IDLE for ending in (Refused, Done, Failed, Over)},
}
"""What becomes of a proposal; what is not in the table changes nothing."""


class Proposer:
    """Of one site. `open` is what its machine has to make durable."""

    def __init__(self, site: int, sites: int) -> None:
        self._site, self._mover = site, mover_of(sites)
        self._incarnation, self._number = 0, 0
        self.open: Proposed | None = None
        self.stage = Stage.IDLE

    def start(self, incarnation: int, kept: Proposed | None) -> None:
        """A new incarnation, with the proposal that was open when the last one ended."""
        self._incarnation, self._number = incarnation, 0
        self.open = kept
        self.stage = Stage.IDLE if kept is None else Stage.OPEN

    def next_id(self) -> ProposalId:
        """A new id, under which others can be asked to hold what a plan needs before it is put out."""
        self._number += 1
        return (self._site, self._incarnation, self._number)

    def propose(
        self, id: ProposalId, plan: MovePlan, lease: Lease, promise: Promise, violation: bool = False
    ) -> Sequence[Effect]:
        """Returns what sends it; the caller makes `open` durable before that."""
        if self.open is not None:
            raise ValueError(f"{self.open.id} is open, {id} has to wait")
        self.open, self.stage = Proposed(id, plan, lease, promise, violation), Stage.OPEN
        return (Send(self._mover, self.open),)

    def repeat(self) -> Sequence[Effect]:
        """Say again what was not answered; of what was accepted only the id."""
        if self.open is None:
            return ()
        again = Inquiry(self.open.id) if self.stage is Stage.ACCEPTED else self.open
        return (Send(self._mover, again),)

    def answered(self, answer: Answer) -> Ending | None:
        """Takes an answer; returns it if it is the one that ends the open proposal."""
        if self.open is None or answer.id != self.open.id:
            return None
        self.stage = TRANSITIONS.get((self.stage, type(answer)), self.stage)
        if isinstance(answer, Accepted):
            return None
        self.open = None
        return answer
