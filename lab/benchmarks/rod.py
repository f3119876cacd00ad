"""How fast ROD is, once warm: `python -m lab.benchmarks rod`.

Figures are for the array-level function, so that reading a problem and building its load model stay out; the
best of a few runs.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from scipy.sparse import csr_array

from lab.benchmarks._record import Measurement, carry_out, prose_of
from mooring.algorithms.rod.policy import rod_assign
from mooring.cli.output.result_table import ResultTable, Value
from mooring.model.load.model import LoadModel


def dense(fragments: int, sites: int, streams: int, rng: np.random.Generator) -> LoadModel:
    return LoadModel.from_coefficients(rng.random((fragments, streams)), np.ones(sites))


def one_stream_each(fragments: int, sites: int, streams: int, rng: np.random.Generator) -> LoadModel:
    """Every fragment reads one stream: a shared one, or its own when there are as many streams."""
    own = np.arange(fragments) if streams == fragments else rng.integers(0, streams, fragments)
    rows = csr_array((rng.random(fragments), own, np.arange(fragments + 1)), shape=(fragments, streams))
    return LoadModel.from_coefficients(rows, np.ones(sites))


def seconds(make: Callable[[], LoadModel], repeats: int) -> tuple[float, float]:
    """Wall and CPU time of the best run; they differ on a busy machine."""
    best = (np.inf, np.inf)
    for _ in range(repeats):
        model = make()
        wall, cpu = time.perf_counter(), time.process_time()
        rod_assign(model)
        best = min(best, (time.perf_counter() - wall, time.process_time() - cpu))
    return best


def measure(words: Sequence[str]) -> Iterator[ResultTable]:
    rng = np.random.default_rng(0)
    cases: list[tuple[str, Callable[..., LoadModel], tuple[int, int, int], int, float]] = [
        ("200 operators x 10 sites, 5 dense streams", dense, (200, 10, 5), 50, 0.001),
        ("100,000 x 100, 5 dense streams", dense, (100_000, 100, 5), 3, 0.2),
        ("1,000,000 x 1000, 50 streams, one each", one_stream_each, (1_000_000, 1000, 50), 1, 5.0),
        ("1,000,000 x 1000, a stream of its own each", one_stream_each, (1_000_000, 1000, 1_000_000), 1, 5.0),
    ]
    rod_assign(dense(20, 2, 2, rng))
    rows: list[dict[str, Value]] = []
    for title, make, sizes, repeats, limit_s in cases:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        wall, cpu = seconds(partial(make, *sizes, rng), repeats)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        rows.append(
            {
                "problem": title,
                "ms": wall * 1e3,
                "CPU_ms": cpu * 1e3,
                "limit_ms": limit_s * 1e3,
                "peak_memory_MB": round(grown),
            }
        )
    yield ResultTable.of("", rows)


ROD = Measurement(
    "rod",
    "How fast ROD is",
    prose_of(__doc__),
    measure,
)

if __name__ == "__main__":
    carry_out(ROD, sys.argv[1:])
