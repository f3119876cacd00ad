"""Leases through fault schedules, drawn and systematic: what must hold does, and planted bugs are found."""

from __future__ import annotations

from typing import Any

import pytest

from lab.faults.exploration import Exploration, Subject, explore
from lab.faults.leases.invariants import lease_checkers
from lab.faults.leases.world import lease_scenarios, lease_world
from lab.faults.scenario import Request, Scenario
from lab.faults.systematic import stalls_at, with_every_fault
from lab.overlay_faults.planted import LEASE_BUGS, NEEDS_A_STALL
from mooring.algorithms.overlay.leases.adaptation_messages import LinkMeasured
from mooring.algorithms.overlay.leases.lease_client import Seeker
from mooring.algorithms.overlay.leases.lease_site import ApplyPlan, LeaseSite
from mooring.algorithms.overlay.leases.lock_manager import Keeper

LEASES = Subject(lease_world(), lease_checkers)
LENGTHS_MS = (5.0, 700.0, 4000.0)
"""Of faults: shorter than a hop, longer than a retry, longer than any lock lasts."""
UNTIL_MS = 2500.0
"""When faults begin at the latest: by then the leases are over."""


def test_schedules_of_faults_break_no_invariant() -> None:
    found = explore(LEASES, lease_scenarios(), range(40))
    assert found.finding is None, str(found.finding)
    assert found.steps > 20_000


def test_a_site_that_crashes_remembers_what_its_links_take() -> None:
    """Found by a schedule: after a crash it promised latencies as they had been in the beginning."""
    assert LEASES.run(lease_scenarios()(13_418)).violation is None


@pytest.mark.soak
def test_a_thousand_schedules() -> None:
    found = explore(LEASES, lease_scenarios(), range(1000, 2000))
    assert found.finding is None, str(found.finding)


def contested() -> Scenario:
    """Two sites want shared operators elsewhere at about the same time, a third what the others do not touch;
    and a link becomes slow. The mover is the last of six."""
    latency_ms = tuple(tuple(20.0 * (a != b) for b in range(6)) for a in range(6))
    link = [Request(1400.0, x, LinkMeasured(y, 80.0)) for x, y in ((0, 1), (1, 0))]
    requests = (
        Request(1010.0, 0, ApplyPlan(0, ((0, 3), (1, 4)))),
        Request(1015.0, 2, ApplyPlan(1, ((1, 0),))),
        Request(1020.0, 4, ApplyPlan(3, ((5, 1),))),
        *link,
    )
    return Scenario(0, latency_ms, 15_000.0, requests=requests)


def one_lease() -> Scenario:
    """One plan with two moves, whatever else there is to happen being switched off by ending early."""
    latency_ms = tuple(tuple(20.0 * (a != b) for b in range(6)) for a in range(6))
    return Scenario(0, latency_ms, 15_000.0, requests=(Request(10.0, 0, ApplyPlan(0, ((0, 3), (1, 4)))),))


@pytest.mark.parametrize(("scenario", "every"), [(one_lease(), 61), (contested(), 97)])
def test_a_fault_at_any_step_breaks_no_invariant(scenario: Scenario, every: int) -> None:
    """A part of all steps and faults; `python -m lab.benchmarks overlay_faults` runs every one."""
    tried = 0
    for faulty in with_every_fault(LEASES, scenario, LENGTHS_MS, UNTIL_MS, every):
        violation = LEASES.run(faulty).violation
        assert violation is None, f"{faulty.describe()}\n{violation}"
        tried += 1
    assert tried >= 20


def planted(kind: type[Keeper] | type[Seeker]) -> Subject:
    class Buggy(LeaseSite):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            part: Any = self.keeper if issubclass(kind, Keeper) else self.seeker
            part.__class__ = kind

    return Subject(lease_world(Buggy), lease_checkers)


def hunted(bug: type[Keeper] | type[Seeker], schedules: int, most_shrinking_runs: int) -> Exploration:
    """Through drawn schedules or, where it needs one, through a stall at every step."""
    subject = planted(bug)
    if bug not in NEEDS_A_STALL:
        return explore(subject, lease_scenarios(), range(schedules), most_shrinking_runs)
    stalled = list(with_every_fault(subject, contested(), LENGTHS_MS, UNTIL_MS, at=stalls_at))
    return explore(subject, stalled.__getitem__, range(len(stalled)), most_shrinking_runs)


@pytest.mark.parametrize(("bug", "invariant"), LEASE_BUGS)
def test_planted_bugs_are_found_and_made_small(bug: type[Keeper] | type[Seeker], invariant: str) -> None:
    found = hunted(bug, schedules=300, most_shrinking_runs=25).finding
    assert found is not None
    assert found.violation.checker == invariant
    assert len(found.shrunken.faults) + len(found.shrunken.requests) < 20
