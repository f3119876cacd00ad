"""The decentralised protocols under random faults, and operators that move while tuples flow.

    python -m lab.benchmarks protocols            # or protocols:campaign, protocols:adaptive

Campaign: so many random schedules of crashes, pauses, partitions and noise, after each step of which every
invariant is checked. A broken one is printed with its smallest schedule. Optimisers run together with the
mover, which crashes too; engines and whole sites are lost, and moves made by hand.

Adaptive: two operators that begin at the wrong end of a line of six sites. The optimisers of all sites move
them while the data-plane simulator carries the tuples, with a quiet control plane and with a troubled one
(a crash, a partition, a third of the messages lost and a third doubled). Usage is bytes in flight.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import Pool

import numpy as np

from lab.benchmarks._record import Measurement, carry_out, chosen_parts, prose_of
from lab.faults.adaptive_run import AdaptiveRun
from lab.faults.exploration import Subject, explore
from lab.faults.faults import Crash, Fault, Noise, Partition
from lab.faults.gossip_invariants import gossip_checkers, gossip_scenarios
from lab.faults.optimiser_invariants import (
    chain_belonging,
    chain_homes,
    chain_layout,
    optimiser_checkers,
    optimiser_scenarios,
    some_refused,
)
from lab.faults.runner_model import RunSubject
from lab.faults.scenario import Scenario
from mooring.algorithms.relaxation.machines.optimiser import optimiser_machines
from mooring.algorithms.relaxation.machines.params import OptimiserParams
from mooring.algorithms.relaxation.migration import MigrationParams
from mooring.cli.output.result_table import ResultTable
from mooring.coordination.gossip import GossipParams, gossip_machines
from mooring.model.placement.network_metrics import network_metrics
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem
from mooring.simulator.data_plane.arrivals import Replay

SCHEDULES = {"gossip": 5_000, "optimisers": 10_000}
FIRST_SEED = 10_000
"""Beyond those of the tests."""
CHUNK, WORKERS = 100, 2
GOSSIP = GossipParams(period_ms=100.0)
OPTIMISER = OptimiserParams(
    period_ms=40.0,
    rounds_per_review=8,
    patience=2,
    migration=MigrationParams(displacement_ms=1.0, least_saving=0.05, look_again=4),
)
SUBJECTS: dict[str, tuple[Subject, Callable[[int], Scenario]]] = {
    "gossip": (Subject(gossip_machines(GOSSIP), gossip_checkers), gossip_scenarios(GOSSIP)),
    "optimisers": (
        RunSubject(
            optimiser_machines(chain_layout, OPTIMISER),
            optimiser_checkers,
            homes=chain_homes,
            judge=some_refused,
            belonging=chain_belonging,
        ),
        optimiser_scenarios(),
    ),
}
RATE, SECONDS = 200, 60
TROUBLE: tuple[Fault, ...] = (
    Crash(3_000.0, 5, 4_000.0),
    Noise(1_000.0, 15_000.0, loss=0.33, duplicate=0.33, jitter_ms=200.0),
    Partition(8_000.0, 12_000.0, (0, 1)),
)


def measure(words: Sequence[str]) -> Iterator[ResultTable | str]:
    parts = {"campaign": campaign, "adaptive": adaptive}
    for part in chosen_parts(words, parts):
        yield from parts[part]()


def explored(chunk: tuple[str, range]) -> tuple[int, int, float, str]:
    """Schedules, steps, CPU seconds, and the finding if there is one."""
    name, seeds = chunk
    subject, draw = SUBJECTS[name]
    start = time.process_time()
    found = explore(subject, draw, seeds)
    finding = "" if found.finding is None else str(found.finding)
    return found.scenarios, found.steps, time.process_time() - start, finding


def campaign() -> Iterator[ResultTable | str]:
    rows: list[dict[str, str | float]] = []
    findings: list[str] = []
    with Pool(WORKERS) as pool:
        for name, count in SCHEDULES.items():
            firsts = range(FIRST_SEED, FIRST_SEED + count, CHUNK)
            found = pool.map(explored, [(name, range(at, at + CHUNK)) for at in firsts], chunksize=1)
            schedules, steps, cpu_s, said = zip(*found, strict=True)
            broken = [finding for finding in said if finding]
            rows.append(
                {
                    "protocol": name,
                    "schedules": sum(schedules),
                    "steps": sum(steps),
                    "steps_per_cpu_s": sum(steps) / sum(cpu_s),
                    "broken": len(broken),
                }
            )
            findings += broken
    yield ResultTable.of("Campaign", rows)
    yield from findings


def adaptive() -> Iterator[ResultTable]:
    problem = line_of_sites()
    start = Placement.from_dict(problem, {"merge": "n5", "parse": "n4"})
    params = OptimiserParams(migration=MigrationParams(displacement_ms=2.0, least_saving=0.05))
    rows: list[dict[str, str | float]] = []
    troubles: dict[str, tuple[Fault, ...]] = {"quiet": (), "troubled": TROUBLE}
    for name, faults in troubles.items():
        tuples = Replay(np.arange(RATE * SECONDS // 2) / RATE)  # the rest of the time is for what is late
        run = AdaptiveRun(start, [tuples, tuples], horizon_s=SECONDS, params=params, faults=faults)
        run.run(SECONDS)
        rows.append(
            {
                "control_plane": name,
                "moves": len(run.migrations),
                "last_move_s": max(move.at_s for move in run.migrations),
                "longest_pause_s": max(move.pause_s for move in run.migrations),
                "usage_before": usage(start),
                "usage_after": usage(Placement.from_dict(problem, dict(run.engine.homes()))),
                "tuples_lost": 2 * RATE * SECONDS // 2 - run.engine.simulation.latency().tuples,
            }
        )
    yield ResultTable.of("Adaptive", rows)


def usage(placement: Placement) -> float:
    found = network_metrics(placement).network_usage
    assert isinstance(found, float)
    return found


def line_of_sites() -> Problem:
    names = [f"n{i}" for i in range(6)]
    latency_ms = {a: {b: 15.0 * (i - j) for j, b in enumerate(names[:i])} for i, a in enumerate(names) if i}
    stream = {"rate": RATE, "bytes": 100}
    return Problem.from_dict(
        {
            "sites": {name: {"capacity": 2} for name in names},
            "latency_ms": latency_ms,
            "streams": {"x": {"site": "n0", **stream}, "y": {"site": "n1", **stream}},
            "operators": {
                "merge": {"inputs": ["x", "y"], "kind": "union", "cost_us": 100, "bytes": 20},
                "parse": {"inputs": ["merge"], "cost_us": 100, "bytes": 10, "state_bytes": 1e5},
            },
            "queries": {"q": {"reads": "parse", "site": "n5"}},
        }
    )


PROTOCOLS = Measurement(
    "protocols",
    "Decentralised protocols under random faults, and operators that move while tuples flow",
    prose_of(__doc__),
    measure,
)

if __name__ == "__main__":
    carry_out(PROTOCOLS, sys.argv[1:])
