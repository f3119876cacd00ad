"""Speed of one feasible set evaluation, as a ratio to the bare matrix product it cannot do without.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m lab.benchmarks feasible_set    # one thread
    python -m lab.benchmarks feasible_set    # the product may use all cores

Least and median milliseconds over interleaved runs; on a busy machine the least is what to read. The
evaluation is `FeasibleSet.ratio` as callers use it, standard error included, along directions drawn before.
The second table holds the sampled ratio of random placements against the exact one, which is in reach for few
streams: `off` is the mean distance over 20 placements, `standard_error` the mean of what the samples
themselves state.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from lab.benchmarks._record import Measurement, carry_out, prose_of
from lab.oracles.exact_volume import exact_ratio
from mooring.cli.output.result_table import ResultTable
from mooring.model.load.feasible.directions import Directions
from mooring.model.load.feasible.feasible_set import FeasibleSet
from mooring.model.load.model import LoadModel

SITES, STREAMS, OPERATORS, POINTS, RUNS = 10, 5, 200, 2**16, 300
ACCURACY_POINTS = 2**14  # as plans are judged by


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


def random_set(streams: int, rng: np.random.Generator) -> FeasibleSet:
    """Of a random placement of operators that each read one stream."""
    coefficients = np.zeros((OPERATORS, streams))
    coefficients[np.arange(OPERATORS), np.arange(OPERATORS) % streams] = rng.uniform(0.1, 1.0, OPERATORS)
    model = LoadModel.from_coefficients(coefficients, np.ones(SITES))
    return FeasibleSet.of(model, rng.integers(SITES, size=OPERATORS))


def measure(words: Sequence[str]) -> Iterator[ResultTable]:
    yield _speed()
    yield ResultTable.of("Sampled against exact", [_accuracy(streams) for streams in (2, 3, 4, 5, 6)])


def _accuracy(streams: int) -> dict[str, float]:
    rng = np.random.default_rng(streams)
    directions = Directions.draw(streams, ACCURACY_POINTS, 0)
    sets = [random_set(streams, rng) for _ in range(20)]
    exact = np.array([exact_ratio(each.weights) for each in sets])
    sampled = [each.ratio(directions=directions) for each in sets]
    return {
        "streams": streams,
        "exact": float(exact.mean()),
        "off": float(np.abs(exact - [each.value for each in sampled]).mean()),
        "standard_error": float(np.mean([each.standard_error for each in sampled])),
    }


def _speed() -> ResultTable:
    rng = np.random.default_rng(0)
    feasible = random_set(STREAMS, rng)
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
    return ResultTable.of(
        f"{SITES} sites, {STREAMS} streams, {POINTS:,} directions, {rows.dtype}, "
        f"threads: {os.environ.get('OPENBLAS_NUM_THREADS', 'all')}",
        [
            {"call": name, **own, "least_to_product": own["least_ms"] / product["least_ms"]}
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
