"""Leases of shared queries under faults: random schedules, and every kind of fault at every step.

    python -m lab.benchmarks overlay_faults       # or overlay_faults:drawn, systematic, planted, reaction

Drawn: 10,000 random schedules of crashes (of sites and of the mover), pauses, partitions, losses, duplicates
and delays, in every fourth of which a site is gone for good; links become slow and plans are asked for.
Systematic: one lease, and three that contend while a link becomes slow; each run again with one fault at each
of its steps: crashes before it and after any of its effects, pauses, cuts both ways and one way (each short,
long, and longer than locks last), losses, duplicates, delays, and stalls: the site stands still after the
step, and so does what it has sent. After each step every invariant is checked.
Planted: bugs on purpose, the schedules until each is found, and what is left of the one that shows it.
Reaction: from the moment a link becomes slow until the lease is proposed to the mover, in round trips of the
longest link, over virtual time and without faults; the moves themselves are the mover's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from multiprocessing import Pool

import numpy as np

from lab.benchmarks._record import Measurement, carry_out, chosen_parts, prose_of
from lab.faults.checkers import Step, WorldView
from lab.faults.exploration import Subject, explore, find_small
from lab.faults.harness import Harness
from lab.faults.leases.invariants import lease_checkers
from lab.faults.leases.world import QUICK, lease_scenarios, lease_world, ring_ms
from lab.faults.scenario import Request, Scenario
from lab.faults.systematic import with_every_fault
from lab.overlay_faults.planted import LEASE_BUGS, NEEDS_A_STALL
from mooring.algorithms.overlay.leases.adaptation_messages import LinkMeasured
from mooring.cli.output.result_table import ResultTable
from mooring.contracts.site_machine import Send
from mooring.coordination.move_messages import Proposed
from tests.lab.faults.leases.test_invariants import (
    LENGTHS_MS,
    UNTIL_MS,
    contested,
    hunted,
    one_lease,
)

FIRST_SEED, SCHEDULES = 10_000, 10_000
"""Beyond those of the tests."""
CHUNK, WORKERS = 100, 3
SITES, LINK_MS = 7, 20.0
LEASES = Subject(lease_world(), lease_checkers)


def measure(words: Sequence[str]) -> Iterator[ResultTable | str]:
    parts = {"drawn": drawn, "systematic": systematic, "planted": planted_bugs, "reaction": reaction}
    for part in chosen_parts(words, parts):
        yield from parts[part]()


def explored(seeds: range) -> tuple[int, int, float, str]:
    """Schedules, steps, CPU seconds, and the finding if there is one."""
    start = time.process_time()
    found = explore(LEASES, lease_scenarios(), seeds)
    finding = "" if found.finding is None else str(found.finding)
    return found.scenarios, found.steps, time.process_time() - start, finding


def drawn() -> Iterator[ResultTable | str]:
    chunks = [range(at, at + CHUNK) for at in range(FIRST_SEED, FIRST_SEED + SCHEDULES, CHUNK)]
    with Pool(WORKERS) as pool:
        found = pool.map(explored, chunks, chunksize=1)
    schedules, steps, cpu_s, findings = zip(*found, strict=True)
    broken = [finding for finding in findings if finding]
    row: dict[str, str | float] = {
        "schedules": sum(schedules),
        "steps": sum(steps),
        "broken": len(broken),
        "cpu_s": sum(cpu_s),
    }
    yield ResultTable.of("Drawn schedules", [row])
    yield from broken


def tried(faulty: Scenario) -> tuple[int, str]:
    harness = LEASES.run(faulty)
    if harness.violation is None:
        return harness.steps, ""
    return harness.steps, str(find_small(LEASES, faulty, harness.violation))


def systematic() -> Iterator[ResultTable | str]:
    rows: list[dict[str, str | float]] = []
    findings: list[str] = []
    with Pool(WORKERS) as pool:
        for name, scenario in (("one lease", one_lease()), ("three that contend", contested())):
            every = list(with_every_fault(LEASES, scenario, LENGTHS_MS, UNTIL_MS))
            found = pool.map(tried, every, chunksize=50)
            broken = [finding for _, finding in found if finding]
            steps = sum(each for each, _ in found)
            rows.append({"scenario": name, "runs": len(found), "steps": steps, "broken": len(broken)})
            findings += broken[:1]
    yield ResultTable.of("Every fault at every step", rows)
    yield from findings


def planted_bugs() -> Iterator[ResultTable]:
    rows: list[dict[str, str | float]] = []
    for bug, _ in LEASE_BUGS:
        found = hunted(bug, schedules=500, most_shrinking_runs=200)
        by = "a stall at each step" if bug in NEEDS_A_STALL else "drawn"
        if found.finding is None:
            rows.append({"bug": bug.__name__, "by": by, "schedules": found.scenarios, "broken": "nothing"})
            continue
        drawn_, small = found.finding.drawn, found.finding.shrunken
        rows.append(
            {
                "bug": bug.__name__,
                "by": by,
                "schedules": found.scenarios,
                "broken": found.finding.violation.checker,
                "faults_and_requests": len(drawn_.faults) + len(drawn_.requests),
                "shrunken_to": len(small.faults) + len(small.requests),
            }
        )
    yield ResultTable.of("Planted bugs", rows)


class _FirstProposal:
    name = "hears the first proposal"

    def __init__(self) -> None:
        self.at_ms: float | None = None

    def after_step(self, step: Step, world: WorldView) -> str | None:
        proposed = any(isinstance(e, Send) and isinstance(e.message, Proposed) for e in step.effects)
        if proposed and self.at_ms is None:
            self.at_ms = step.time_ms
        return None

    def at_end(self, world: WorldView) -> str | None:
        return None


def reaction() -> Iterator[ResultTable]:
    """Every link between two sites in turn becomes 80 ms slower; some break a limit, and have a plan."""
    latency_ms = tuple(tuple(LINK_MS * (a != b) for b in range(SITES + 1)) for a in range(SITES + 1))
    quiet = lease_world(params=replace(QUICK, review_ms=1e9))
    taken: list[float] = []
    broken_ms = 6.0 * QUICK.report_ms
    for a in range(SITES):
        for b in range(a):
            ms = ring_ms(a, b, SITES) + 80.0
            slow = tuple(Request(broken_ms, x, LinkMeasured(y, ms)) for x, y in ((a, b), (b, a)))
            heard = _FirstProposal()
            harness = Harness(Scenario(0, latency_ms, 2.0 * broken_ms, requests=slow), quiet, [heard])
            harness.run_until(2.0 * broken_ms)
            if heard.at_ms is not None:
                taken.append((heard.at_ms - broken_ms) / (2.0 * LINK_MS))
    yield ResultTable.of(
        "Reaction to a slow link",
        [
            {
                "links": SITES * (SITES - 1) // 2,
                "leases_proposed": len(taken),
                "least_round_trips": min(taken),
                "median_round_trips": float(np.median(taken)),
                "most_round_trips": max(taken),
            }
        ],
    )


OVERLAY_FAULTS = Measurement(
    "overlay_faults", "Leases of shared queries under faults", prose_of(__doc__), measure
)

if __name__ == "__main__":
    carry_out(OVERLAY_FAULTS, sys.argv[1:])
