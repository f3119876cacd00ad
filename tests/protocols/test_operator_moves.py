"""An operator's stages at a site, and a coordinator's grants, change as the tables say and not otherwise."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.placement.relaxation.migration import MigrationParams
from mooring.protocols.operator_moves import (
    COORDINATOR,
    OPERATOR,
    Desk,
    Hosting,
    MoveMessage,
    OperatorMoves,
    operator_of,
)
from mooring.protocols.optimiser import optimiser_machines
from mooring.protocols.optimiser_messages import (
    Granted,
    Hosted,
    Leaving,
    Release,
    Transfer,
    TransferAccepted,
    TransferRefused,
)
from mooring.protocols.optimiser_params import OptimiserParams
from mooring.protocols.protocol import Persist, Received, Send, Started
from mooring.simulator.harness.checkers import Step, WorldView
from mooring.simulator.harness.exploration import Subject
from mooring.simulator.harness.optimiser_invariants import CHAIN, GROUPS, chain_layout, optimiser_scenarios

PARAMS = OptimiserParams(
    period_ms=40.0,
    rounds_per_review=8,
    migration=MigrationParams(displacement_ms=1.0, least_saving=0.05, look_again=4),
)
Change = tuple[Any, type, Any]
"""Stage before, message, stage after."""


class Transitions:
    """Compares every site after a step with what it was before; collects the rows it saw in `seen`."""

    name = "operators and grants change as the tables say"

    def __init__(self, seen: set[Change]) -> None:
        self._seen = seen
        self._stages: dict[tuple[int, int], Hosting] = {}
        self._desks: dict[int, Desk] = {}

    def after_step(self, step: Step, world: WorldView) -> str | None:
        machine = world.machine(step.site)
        if machine is None:  # it crashed, and comes back with what it had persisted
            return None
        after = {(step.site, k): machine.moves.stage(k) for k in range(GROUPS * CHAIN)}
        changed = {
            k: (self._stages.get(k), stage) for k, stage in after.items() if stage != self._stages.get(k)
        }
        desk_before, desk = self._desks.get(step.site), machine.moves.desk
        self._stages |= after
        self._desks[step.site] = desk
        if isinstance(step.event, Started):
            return None
        message = step.event.message if isinstance(step.event, Received) else None
        if isinstance(message, MoveMessage):
            operator, kind = operator_of(message), type(message)
            before, now = changed.pop((step.site, operator), (after[step.site, operator],) * 2)
            if (before, kind) in OPERATOR:
                self._seen.add((before, kind, now))
            elif before != now:
                return f"{kind.__name__} made {before} {now}"
            if (desk_before, kind) in COORDINATOR:
                self._seen.add((desk_before, kind, desk))
                desk_before = desk
        return f"{step.event} made {changed}, {desk}" if changed or desk != desk_before else None

    def at_end(self, world: WorldView) -> str | None:
        return None


RARE: set[Change] = {
    (Hosting.HERE, Granted, Hosting.HERE),
    (Hosting.LEAVING, Transfer, Hosting.LEAVING),
}
"""Rows that take several unlucky messages in one order; each has a test of its own below."""


def test_random_faults_lead_through_all_other_rows_of_the_tables_and_through_nothing_else() -> None:
    seen: set[Change] = set()
    subject = Subject(optimiser_machines(chain_layout, PARAMS), lambda: (Transitions(seen),))
    for seed in range(30):
        violation = subject.run(optimiser_scenarios()(seed)).violation
        assert violation is None, f"seed {seed}: {violation}"
    tables = {
        (before, kind, after)
        for table in (OPERATOR, COORDINATOR)
        for (before, kind), afters in table.items()
        for after in afters
    }
    assert seen | RARE == tables


def full_site(chosen: int | None = None) -> OperatorMoves:
    """Runs operator 7 and wants to send it to site `chosen`."""
    return OperatorMoves(1, 1.0, [Hosted(7, 0, 0, 1.0, ())], [], lambda operator, attempt: chosen)


def test_a_grant_for_a_move_that_was_given_up_is_handed_back() -> None:
    site = full_site(chosen=None)
    assert site.receive(0, Granted(7, (1, 0, 1))) == (Send(0, Release(7, (1, 0, 1))),)
    assert site.stage(7) is Hosting.HERE


def test_an_old_transfer_of_an_operator_that_is_leaving_is_refused() -> None:
    site, guest = full_site(chosen=2), Hosted(3, 4, 0, 0.5, ())
    site.durable = msgspec.structs.replace(site.durable, hosted=())
    assert Send(0, TransferAccepted(3, 4)) in site.receive(0, Transfer(guest))
    assert Send(2, Transfer(msgspec.structs.replace(guest, epoch=5))) in site.receive(
        0, Granted(3, (1, 0, 1))
    )
    assert site.receive(0, Transfer(guest)) == (Send(0, TransferRefused(3, 4)),)
    assert site.stage(3) is Hosting.LEAVING


def test_a_full_site_refuses_and_refuses_the_same_transfer_forever() -> None:
    site, guest = full_site(), Hosted(3, 4, 0, 0.5, ())
    effects = site.receive(2, Transfer(guest))
    assert isinstance(effects[0], Persist)
    assert effects[-1] == Send(2, TransferRefused(3, 4))
    site.durable = msgspec.structs.replace(site.durable, hosted=())
    assert site.receive(2, Transfer(guest)) == (Send(2, TransferRefused(3, 4)),)
    assert Send(2, TransferAccepted(3, 6)) in site.receive(
        2, Transfer(msgspec.structs.replace(guest, epoch=6))
    )


def test_a_site_that_crashed_in_the_middle_of_a_move_sends_it_again() -> None:
    site, guest = full_site(), Hosted(3, 4, 0, 0.5, ())
    site.durable = msgspec.structs.replace(site.durable, leaving=(Leaving(guest, 2, (1, 0, 1)),))
    assert Send(2, Transfer(guest)) in site.repeat()
