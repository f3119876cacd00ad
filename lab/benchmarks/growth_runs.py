"""How CPU and memory of simulations, chunk plans and events grow.

    python -m lab.benchmarks growth_runs
    python -m lab.benchmarks growth_runs:simulate,chunks     # some parts

Each row is a process of its own. Simulations print a page; CPU seconds include the first use of compiled
code. Rounds of events alternate between the sizes, and the best of each counts: neighbours on the machine
can only take away cache and memory bandwidth.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from math import log

from lab.benchmarks._record import Measurement, carry_out, chosen_parts, prose_of
from lab.benchmarks.growth import in_a_process
from mooring.cli.output.result_table import ResultTable, Value

SIMULATIONS = (("none", (400, 1_600), 300.0), ("overlay", (100, 400), 60.0))
"""Deciders, sites, and virtual seconds."""
EVENT_SITES = (10, 1_000, 5_000)
EVENT_ROUNDS = 3
CHUNK_SITES, CHUNK_STEPS, CHUNK_BUDGET_S = 300, 50, 5.0


def _simulations() -> ResultTable:
    rows: list[dict[str, Value]] = []
    for decider, sizes, virtual_s in SIMULATIONS:
        found = [in_a_process(f"simulate:{decider}", str(sites), str(virtual_s)) for sites in sizes]
        for sites, used in zip(sizes, found, strict=True):
            rows.append({"decider": decider, "sites": sites, "virtual_s": virtual_s, **used})
        if all("cpu_s" in used for used in found):
            before, last = found[-2:]
            grew = log(last["cpu_s"] / before["cpu_s"]) / log(sizes[-1] / sizes[-2])
            rows.append({"decider": f"{decider}: exponent", "sites": None, "virtual_s": None, "cpu_s": grew})
    return ResultTable.of("simulate --adapt DECIDER --alone", rows)


def _events() -> ResultTable:
    rounds = [
        [in_a_process("events", str(sites))["million_per_cpu_s"] for sites in EVENT_SITES]
        for _ in range(EVENT_ROUNDS)
    ]
    best = [max(column) for column in zip(*rounds, strict=True)]
    return ResultTable.of(
        "Events of the simulator, the same load on more sites",
        [
            {"sites": sites, "million_events_per_CPU_s": speed, f"to_{EVENT_SITES[0]}_sites": speed / best[0]}
            for sites, speed in zip(EVENT_SITES, best, strict=True)
        ],
    )


def _chunks() -> ResultTable:
    few = in_a_process("chunks", str(CHUNK_SITES), str(CHUNK_STEPS))
    budget = in_a_process("chunks", str(CHUNK_SITES), "1000000", str(CHUNK_BUDGET_S))
    return ResultTable.of(
        f"Chunks on {CHUNK_SITES} sites, up to four per site",
        [{"limit": f"{CHUNK_STEPS} steps", **few}, {"limit": f"{CHUNK_BUDGET_S:g} s", **budget}],
    )


PARTS: dict[str, Callable[[], ResultTable]] = {"simulate": _simulations, "chunks": _chunks, "events": _events}


def measure(words: Sequence[str]) -> Iterator[ResultTable]:
    for name in chosen_parts(words, list(PARTS)):
        yield PARTS[name]()


GROWTH_RUNS = Measurement(
    "growth_runs",
    "How CPU and memory of simulations, chunk plans and events grow",
    prose_of(__doc__),
    measure,
)

if __name__ == "__main__":
    carry_out(GROWTH_RUNS, sys.argv[1:])
