"""Speed of one feasible set evaluation, as a ratio to the bare matrix product it cannot do without.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/feasible_set.py    # one thread
    python benchmarks/feasible_set.py    # the product may use all cores

Prints JSON: least and median milliseconds over interleaved runs, and their ratios. The evaluation is
`FeasibleSet.ratio` as callers use it, standard error included, along directions drawn before.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable

import numpy as np

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


def main() -> None:
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
            "matrix_product": lambda: rows @ weights.T,
            "evaluation": lambda: feasible.ratio(directions=directions),
            "drawing_directions": lambda: Directions.draw(STREAMS, POINTS, 0),
        },
        RUNS,
    )
    report = {
        "sites": SITES,
        "streams": STREAMS,
        "directions": POINTS,
        "dtype": str(rows.dtype),
        "threads": os.environ.get("OPENBLAS_NUM_THREADS", "default"),
        "timings": timings,
        "ratio_to_matrix_product": {
            key: timings["evaluation"][key] / timings["matrix_product"][key]
            for key in ("least_ms", "median_ms")
        },
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
