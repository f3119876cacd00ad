"""Speed of one feasible set evaluation, as a ratio to the bare matrix product it cannot do without.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m benchmarks feasible_set    # one thread
    python -m benchmarks feasible_set    # the product may use all cores

Least and median milliseconds over interleaved runs. The evaluation is `FeasibleSet.ratio` as callers use it,
standard error included, along directions drawn before.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks._record import Measurement, carry_out, prose_of
from mooring.experiments.result_table import ResultTable
from mooring.load.feasible.directions import Directions
from mooring.load.feasible.feasible_set import FeasibleSet
from mooring.load.model import LoadModel

SITES, STREAMS, OPERATORS, POINTS, RUNS = 10, 5, 200, 2**16, 300


def interleaved(calls: dict[str, Callable[[], object]], runs: int) -> dict[str, dict[str, float]]:
    """Time every call in turn, so that a noisy moment hits them all alike."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(runs):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(1000 * (time.perf_counter() - start))
    return {name: {"least_ms": min(t), "median_ms": float(np.median(t))} for name, t in times.items()}


def measure(words: Sequence[str]) -> Iterator[ResultTable]:
    rng = np.random.default_rng(0)
    coefficients = np.zeros((OPERATORS, STREAMS))
    coefficients[np.arange(OPERATORS), np.arange(OPERATORS) % STREAMS] = rng.uniform(0.1, 1.0, OPERATORS)
    model = LoadModel.from_coefficients(coefficients, np.ones(SITES))
    feasible = FeasibleSet.of(model, rng.integers(SITES, size=OPERATORS))
    directions = Directions.draw(STREAMS, POINTS, 0)
    rows = np.ascontiguousarray(directions.values.T)
    weights = feasible.weights
    timings = interleaved(
        {
            "the matrix product alone": lambda: rows @ weights.T,
            "an evaluation": lambda: feasible.ratio(directions=directions),
            "drawing the directions": lambda: Directions.draw(STREAMS, POINTS, 0),
        },
        RUNS,
    )
    product = timings["the matrix product alone"]
    yield ResultTable.of(
        f"{SITES} sites, {STREAMS} streams, {POINTS:,} directions, {rows.dtype}, "
        f"threads: {os.environ.get('OPENBLAS_NUM_THREADS', 'all')}",
        [
            {"call": name, **own, "median_to_product": own["median_ms"] / product["median_ms"]}
            for name, own in timings.items()
        ],
    )


FEASIBLE_SET = Measurement(
    "feasible_set",
    "Speed of one feasible set evaluation, beside the bare matrix product it cannot do without",
    prose_of(__doc__),
    measure,
)

if __name__ == "__main__":
    carry_out(FEASIBLE_SET, sys.argv[1:])
