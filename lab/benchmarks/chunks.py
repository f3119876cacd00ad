"""How fast chunks are simulated and balanced.

    python -m lab.benchmarks chunks

CPU time of this process, the median of several rounds. An execution is one chunk of one frame at one site:
sent, queued, processed and gathered. The plan has 20 operators of 16 chunks on 12 unlike sites. Beside it,
the same frames through a bare loop over the standard library's heap, with neither ports nor external load.
"""

from __future__ import annotations

import heapq
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from lab.benchmarks._record import Measurement, carry_out, prose_of
from lab.experiments.chunks.plans import drawn_problem
from mooring.arrays import Ints
from mooring.chunks.assignment.balancing import Balancer, Scope
from mooring.chunks.model import ChunkProblem
from mooring.chunks.partitioning import Partitioning
from mooring.chunks.search.evaluation import Assignment, ChunkEvaluator
from mooring.chunks.timing.arrays import WorkArrays, WorkTables
from mooring.chunks.timing.latency_bound import latency_bound
from mooring.chunks.timing.simulate import FrameSimulation
from mooring.cli.output.result_table import ResultTable

ROUNDS = 7
FRAMES = 1000
PARTITIONING = Partitioning((4, 4))


def median_s(call: Callable[[], object], calls: int = 1) -> float:
    """CPU seconds of one call; the first, which compiles, does not count."""
    call()
    found = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(calls):
            call()
        found.append((time.process_time() - start) / calls)
    return statistics.median(found)


def heap_loop(problem: ChunkProblem, work: WorkArrays, site_of: Ints, frames: int) -> float:
    """As tersely as Python allows; returns when the last chunk is done."""
    cycles, sites, first = work.cycles[0].tolist(), site_of.tolist(), work.first.tolist()
    speeds = [site.cycles_per_s for site in problem.sites]
    readers, tiers = problem.readers, problem.tiers
    inputs = [sum(name in problem.operator_index for name in each.inputs) for each in problem.operators]
    missing = [{} for _ in inputs]  # type: list[dict[int, int]]
    left = [{} for _ in inputs]  # type: list[dict[int, int]]
    queues: list[list[tuple[int, int, int]]] = [[] for _ in speeds]
    busy = [False] * len(speeds)
    events: list[tuple[float, int, int, int]] = []  # time, kind, operator or chunk, frame
    for frame in range(frames):
        for operator, count in enumerate(inputs):
            if not count:
                heapq.heappush(events, (frame / problem.frames_per_s, 0, operator, frame))
    now = 0.0
    while events:
        now, kind, what, frame = heapq.heappop(events)
        if kind == 0:
            left[what][frame] = first[what + 1] - first[what]
            touched = set()
            for chunk in range(first[what], first[what + 1]):
                heapq.heappush(queues[sites[chunk]], (frame, tiers[what], chunk))
                touched.add(sites[chunk])
        else:
            operator = int(work.operator[what])
            busy[sites[what]] = False
            touched = {sites[what]}
            left[operator][frame] -= 1
            if not left[operator][frame]:
                for reader in readers[operator]:
                    missing[reader][frame] = missing[reader].get(frame, inputs[reader]) - 1
                    if not missing[reader][frame]:
                        heapq.heappush(events, (now, 0, reader, frame))
        for site in touched:
            if queues[site] and not busy[site]:
                frame, _, chunk = heapq.heappop(queues[site])
                busy[site] = True
                heapq.heappush(events, (now + cycles[chunk] / speeds[site], 1, chunk, frame))
    return now


def measure(words: Sequence[str]) -> Iterator[ResultTable]:
    problem = drawn_problem("complex", "unlike", 0.6, np.random.default_rng(0))
    partitionings = [PARTITIONING] * len(problem.operators)
    work, simulation = WorkTables(problem, 1).of(partitionings), FrameSimulation(problem)
    balancer = Balancer.of(problem, Scope.LOCAL)
    site_of = balancer.round_robin(work.first)
    balancer.settle(work.cycles[0], work.first, site_of)
    executions = FRAMES * len(work.operator)
    seconds = {
        "assigned": median_s(lambda: simulation.assigned(work, site_of, FRAMES)) / executions,
        "earliest finish": median_s(lambda: simulation.earliest_finish(work, FRAMES)) / executions,
        "heapq loop": median_s(lambda: heap_loop(problem, work, site_of, FRAMES // 20)) / (executions / 20),
    }
    yield ResultTable.of(
        "Chunk executions simulated",
        [
            {"by": name, "million_per_CPU_s": 1e-6 / each, "to_heapq": seconds["heapq loop"] / each}
            for name, each in seconds.items()
        ],
    )
    yield ResultTable.of("Planning, 20 operators of 16 chunks on 12 sites", list(_planning(problem, work)))


def _planning(problem: ChunkProblem, work: WorkArrays) -> Iterator[dict[str, str | float]]:
    start = np.random.default_rng(1).integers(0, len(problem.sites), len(work.operator))
    for scope in Scope:
        balancer = Balancer.of(problem, scope)

        def one_round(balancer: Balancer = balancer) -> None:
            balancer.round(work.cycles[0], work.first, start.copy())

        def settled(balancer: Balancer = balancer) -> None:
            balancer.settle(work.cycles[0], work.first, start.copy())

        yield {"what": f"one round of balancing, {scope}", "CPU_us": 1e6 * median_s(one_round, 200)}
        yield {"what": f"balanced from a random start, {scope}", "CPU_us": 1e6 * median_s(settled, 20)}
    evaluator = ChunkEvaluator(problem, Assignment.TIERED)
    partitionings = [PARTITIONING] * len(problem.operators)
    yield {
        "what": "a candidate of a search: balanced, 12 frames simulated",
        "CPU_us": 1e6 * median_s(lambda: evaluator.latency_ms(partitionings), 20),
    }
    yield {
        "what": "the latency bound over 12 frames, at most 16 chunks",
        "CPU_us": 1e6 * median_s(lambda: latency_bound(problem, 16, 12)),
    }


CHUNKS = Measurement("chunks", "How fast chunks are simulated and balanced", prose_of(__doc__), measure)

if __name__ == "__main__":
    carry_out(CHUNKS, sys.argv[1:])
