"""Leases over a run as it is: engines, a fence, recovery. Every operator runs exactly once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mooring.protocols.leases.lease_site import LeaseSite, LeaseStart
from mooring.protocols.leases.transitions import LeaseStage
from mooring.protocols.moving import Proposed
from mooring.simulator.harness.checkers import Checker, Step, WorldView
from mooring.simulator.harness.leases.world import (
    OPERATORS,
    QUICK,
    SETTLE_MS,
    USABLE_CORES,
    lease_scenarios,
    ring_ms,
    ring_plans,
    shared_queries,
)
from mooring.simulator.harness.moving_invariants import AnsweredOnce, RunsOnce, machines_of, runner_of
from mooring.simulator.harness.runner_model import RunSubject


class HeldWhileItMoves:
    """Whoever keeps a lock for a list that is being carried out keeps it to the end; and none lasts."""

    name = "locks last as long as the move"

    def __init__(self) -> None:
        self._since: dict[object, float] = {}

    def after_step(self, step: Step, world: WorldView) -> str | None:
        runner = runner_of(world)
        on: tuple[Proposed, ...] = () if runner is None else runner.mover.memory.accepted
        for machine in machines_of(world):
            ids = {key[0] for key in machine.keeper.locks}
            for id_ in ids:
                self._since.setdefault((machine.site, id_), step.time_ms)
            for going in on:
                if machine.site in going.lease.holders and going.id not in ids:
                    return f"site {machine.site} keeps no lock for {going.id}, which is being carried out"
        return None

    def at_end(self, world: WorldView) -> str | None:
        for machine in machines_of(world):
            for id_, *_ in machine.keeper.locks:
                since = self._since[machine.site, id_]
                if world.now_ms - since > SETTLE_MS / 2:
                    return f"site {machine.site} has kept a lock for {id_} since {since:.0f} ms"
            waits = machine.seeker.stage is not LeaseStage.NONE
            if waits and world.now_ms - machine.seeker.since_ms > SETTLE_MS / 2:
                return f"site {machine.site} has sought a lease since {machine.seeker.since_ms:.0f} ms"
        return None


def site(number: int, sites: int, generator: np.random.Generator) -> LeaseSite:
    """It is told by the runner where things are, and knows of no replicas: a run starts none."""
    far = {other: ring_ms(number, other, sites) for other in range(sites)}
    plans = ring_plans(sites)
    start = LeaseStart(shared_queries(sites), (), USABLE_CORES, 1000.0, far, QUICK, plans_for=plans)
    return LeaseSite(number, sites, generator, start)


def checkers() -> Sequence[Checker]:
    return (RunsOnce(), AnsweredOnce(), HeldWhileItMoves())


RUN = RunSubject(
    site,
    checkers,
    homes=lambda sites: [operator % sites for operator in range(OPERATORS)],
    judge=lambda proposed: "it is the third" if proposed.id[2] % 3 == 0 else None,
)


def test_every_operator_runs_exactly_once_whatever_fails() -> None:
    moves = 0
    for seed in range(20):
        harness = RUN.run(lease_scenarios()(seed))
        assert harness.violation is None, f"seed {seed}: {harness.violation}"
        moves += sum(harness.machine(harness.sites - 1).ground.epochs)
    assert moves > 20
