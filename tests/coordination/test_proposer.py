"""A proposer has one proposal open, repeats it until it is answered, and lets nothing else change it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import msgspec
import pytest

from mooring.contracts.site_machine import Send
from mooring.coordination.move_messages import (
    Accepted,
    Answer,
    Done,
    Failed,
    FragmentMove,
    Inquiry,
    Lease,
    MovePlan,
    Over,
    Promise,
    ProposalId,
    Proposed,
    Refused,
    StartedAt,
    ToMover,
    Whereabouts,
    mover_of,
)
from mooring.coordination.proposer import TRANSITIONS, Proposer, Stage

PLAN = MovePlan((FragmentMove(7, 1, 2, 4),), (StartedAt(8, 0, 1),))
MOVER = mover_of(3)


def proposer(stage: Stage = Stage.IDLE) -> tuple[Proposer, ProposalId]:
    made = Proposer(1, 3)
    made.start(5, None)
    name = made.next_id()
    if stage is not Stage.IDLE:
        made.propose(name, PLAN, Lease((2,)), Promise(1.5))
    if stage is Stage.ACCEPTED:
        made.answered(Accepted(name))
    return made, name


ANSWERS: dict[type[Answer], Callable[[ProposalId], Answer]] = {
    Accepted: lambda name: Accepted(name),
    Refused: lambda name: Refused(name, "no"),
    Done: lambda name: Done(name, ()),
    Failed: lambda name: Failed(name, "lost", ()),
    Over: lambda name: Over(name),
}


@pytest.mark.parametrize(("stage", "kind"), list(product(Stage, ANSWERS)))
def test_answers_change_a_proposal_as_the_table_says_and_not_otherwise(
    stage: Stage, kind: type[Answer]
) -> None:
    site, name = proposer(stage)
    ending = site.answered(ANSWERS[kind](name))
    assert site.stage is TRANSITIONS.get((stage, kind), stage)
    assert (site.open is None) == (site.stage is Stage.IDLE)
    assert (ending is not None) == (stage is not Stage.IDLE and kind is not Accepted)


@pytest.mark.parametrize("stage", Stage)
def test_answers_to_other_proposals_change_nothing(stage: Stage) -> None:
    site, (number, incarnation, count) = proposer(stage)
    before = site.open
    for other in ((number, incarnation, count + 1), (number, incarnation - 1, count), (2, 5, 1)):
        assert site.answered(Done(other, ())) is None
    assert (site.open, site.stage) == (before, stage)


def test_it_is_said_again_until_it_is_answered_and_after_that_only_asked_about() -> None:
    site, name = proposer(Stage.OPEN)
    assert site.repeat() == (Send(MOVER, site.open),)
    site.answered(Accepted(name))
    assert site.repeat() == (Send(MOVER, Inquiry(name)),)
    site.answered(Done(name, ()))
    assert site.repeat() == ()


def test_the_next_incarnation_goes_on_with_what_was_open_and_its_ids_are_newer() -> None:
    site, name = proposer(Stage.OPEN)
    again = Proposer(1, 3)
    again.start(6, site.open)
    assert again.repeat() == (Send(MOVER, site.open),)
    assert again.next_id() > name
    with pytest.raises(ValueError, match="is open"):
        again.propose(again.next_id(), PLAN, Lease(), Promise(0.0))


@pytest.mark.parametrize(
    "message",
    [
        Proposed((1, 0, 1), PLAN, Lease((2,)), Promise(2.0, ((1, 0.5),), ((0, 12.0),))),
        Inquiry((1, 0, 1)),
        Done((1, 0, 1), (StartedAt(7, 2, 5),)),
        Failed((1, 0, 1), "the site is lost", (StartedAt(7, 1, 6),)),
        Whereabouts((StartedAt(7, 2, 5),)),
    ],
)
def test_messages_are_frozen_data_that_survives_a_wire(message: msgspec.Struct) -> None:
    assert hash(message) == hash(msgspec.structs.replace(message))
    kind = type(message)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=kind) == message
    if isinstance(message, ToMover):
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=ToMover) == message
