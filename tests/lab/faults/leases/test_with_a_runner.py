"""Leases over a run as it is: engines, a fence, recovery. Every operator runs exactly once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lab.faults.checkers import Checker
from lab.faults.leases.invariants import HeldWhileItMoves
from lab.faults.leases.world import (
    OPERATORS,
    QUICK,
    USABLE_CORES,
    lease_scenarios,
    ring_ms,
    ring_plans,
    shared_queries,
)
from lab.faults.moving_invariants import AnsweredOnce, RunsOnce
from lab.faults.runner_model import RunSubject
from mooring.algorithms.overlay.leases.lease_site import LeaseSite, LeaseStart


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
