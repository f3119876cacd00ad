"""How long planning by latency takes, by the number of queries.

    python -m lab.benchmarks ants_times

The queries and sites of `ants_figure2b`: 2 to 5 tasks each, on 100 sites, which have four times the cores for
300 queries. *Descent* is the paper's centralised peer, which knows everything, from a good start and from a
random one; the paper's took hours beyond 150 tasks. Seconds are of CPU, once everything is compiled.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence

import numpy as np

from lab.benchmarks._record import Measurement, carry_out, prose_of
from lab.experiments.ants.mixed_queries import drawn_queries
from mooring.algorithms.ants.descent import Descent
from mooring.algorithms.ants.policy import Ants
from mooring.cli.output.result_table import ResultTable
from mooring.contracts.policy import Context, Policy

SITES, QUERIES = 100, (10, 30, 100, 300)
POLICIES: dict[str, Policy] = {
    "ants": Ants(),
    "ants, descent": Ants(descent=5),
    "descent": Descent(),
    "descent, random start": Descent(start="random"),
}


def measure(words: Sequence[str]) -> Iterator[ResultTable | str]:
    seconds(QUERIES[0])
    rows = [seconds(count) for count in QUERIES]
    yield ResultTable.of("CPU seconds, by queries", rows)
    few, many = (1e3 * float(row["ants"]) / float(row["tasks"]) for row in (rows[1], rows[-1]))
    yield f"Ants take {few:.2f} ms per task for {QUERIES[1]} queries, {many:.2f} ms for {QUERIES[-1]}."


def seconds(queries: int) -> dict[str, str | float]:
    capacities = (1.0, 2.0, 4.0) if queries <= 100 else (4.0, 8.0, 16.0)
    problem = drawn_queries(
        np.random.default_rng([0, queries]), SITES, queries, capacities=capacities
    ).problem
    row: dict[str, str | float] = {"queries": queries, "tasks": len(problem.fragments)}
    for name, policy in POLICIES.items():
        context = Context.of(problem, 0)
        start = time.process_time()
        policy.place(problem, context)
        row[name] = time.process_time() - start
    return row


ANTS_TIMES = Measurement(
    "ants_times",
    "How long planning by latency takes",
    prose_of(__doc__),
    measure,
)

if __name__ == "__main__":
    carry_out(ANTS_TIMES, sys.argv[1:])
