"""Plans with hundreds of streams: CPU time of the command and of its parts.

    python -m lab.benchmarks many_streams

Queries of four streams each (section 4.1 of the SBON paper) between the first 235 PlanetLab nodes. Times are
CPU seconds of one process, first use of compiled code included; `command` is that of
`mooring plan FILE --json`, from start to end. Volumes are held against what is known: sites that share no
stream are simplices, whose volumes multiply, and a simplex within a cube follows by inclusion and exclusion.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from math import comb, log10
from pathlib import Path
from typing import Any

import numpy as np

from lab.benchmarks._record import Measurement, carry_out, prose_of
from lab.experiments.sbon.star_queries import StarQueries
from mooring.algorithms.rod.policy import rod_assign
from mooring.cli.output.result_table import ResultTable
from mooring.model.load.build import build_load_model
from mooring.model.load.feasible.feasible_set import FeasibleSet
from mooring.model.load.feasible.log_volume import MOST_VISITS, log_volume
from mooring.model.network.shipped import planetlab
from mooring.model.problem.generate import GraphParameters, generate_problem

SITES = 235
QUERIES = 120
POLICIES = ("relaxation", "producer", "rod", "llf")
PARTS = ("place", "metrics", "bound", "explanation")
PROGRAM = """
import sys, time
begun = time.process_time()
from pathlib import Path
from mooring.model.problem.problem import Problem
from mooring.planning import plan
times = [time.process_time() - begun]
def took(work):
    begun = time.process_time()
    result = work()
    times.append(time.process_time() - begun)
    return result
problem = took(lambda: Problem.load(Path(sys.argv[1])))
made = took(lambda: plan(problem, sys.argv[2]))
took(lambda: made.metrics)
took(lambda: made.bound)
took(lambda: made.explanation)
print(*times)
"""


def star_problem(queries: int, sites: int, seed: int = 0) -> dict[str, Any]:
    """Queries of four streams between random sites, as the content of a problem file."""
    rng = np.random.default_rng(seed)
    latency_ms = planetlab().one_way_ms()[:sites, :sites]
    names = [f"n{i}" for i in range(sites)]
    drawn = StarQueries.draw(queries, sites, rng)
    streams = {
        f"s{q}_{k}": {"site": names[site], "rate": round(float(rng.uniform(10, 30)), 1), "bytes": 100}
        for q, producers in enumerate(drawn.producers.tolist())
        for k, site in enumerate(producers)
    }
    return {
        "sites": {name: {"capacity": 4} for name in names},
        "latency_ms": {
            a: {names[j]: round(float(latency_ms[i, j]), 4) for j in range(i + 1, sites)}
            for i, a in enumerate(names[:-1])
        },
        "streams": streams,
        "operators": {
            f"join{q}": {"inputs": [f"s{q}_{k}" for k in range(4)], "cost_us": 20, "selectivity": 0.125}
            for q in range(queries)
        },
        "queries": {
            f"q{q}": {"reads": f"join{q}", "site": names[site]}
            for q, site in enumerate(drawn.consumers.tolist())
        },
    }


def cpu_s(command: list[str]) -> tuple[float, str]:
    """Of a process, and what it printed; the best of two, so that the first may compile."""
    best, out = float("inf"), ""
    for _ in range(2):
        before = os.times()
        out = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True).stdout
        after = os.times()
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        best = min(best, spent)
    return best, out


def planned(file: Path, policy: str) -> dict[str, str | float]:
    command, _ = cpu_s(["-m", "mooring", "plan", str(file), "--policy", policy, "--json"])
    _, out = cpu_s(["-c", PROGRAM, str(file), policy])
    start, load, *parts = map(float, out.split())
    own = dict(zip(PARTS, parts, strict=True))
    return {"policy": policy, "command": command, "start": start, "load": load, **own, "sum": sum(parts)}


def planning(folder: Path) -> Iterator[ResultTable]:
    file = folder / "stars.json"
    file.write_text(json.dumps(star_problem(QUERIES, SITES)))
    yield ResultTable.of(
        f"{QUERIES} queries over {4 * QUERIES} streams on {SITES} sites, CPU s",
        [planned(file, policy) for policy in POLICIES],
    )
    rows = []
    for queries in (15, 60, 240, 480):
        file.write_text(json.dumps(star_problem(queries, SITES)))
        each = {policy: planned(file, policy) for policy in ("relaxation", "rod")}
        rows.append({"streams": 4 * queries} | {name: row["command"] for name, row in each.items()})
    yield ResultTable.of(f"`mooring plan` with more streams on {SITES} sites, CPU s", rows)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.process_time()
    result = work()
    return time.process_time() - begun, result


def volumes() -> Iterator[ResultTable]:
    rows: list[dict[str, str | float | int]] = []
    for variables, parts in ((65, 20), (100, 60), (200, 120)):
        planes = np.vstack([np.ones(variables), parts * np.eye(variables)])
        left = sum(
            (-1) ** j * comb(variables, j) * (1 - Fraction(j, parts)) ** variables for j in range(parts + 1)
        )
        exact = log10(left.numerator) - log10(left.denominator)
        spent, found = timed(partial(log_volume, planes))
        rows.append(_volume("simplex in a cube", variables, parts, found, spent) | {"exact": exact})
    for streams, operators, sites in ((65, 195, 10), (300, 900, 20), (480, 1920, 20), (480, 480, 235)):
        parameters = GraphParameters(streams=streams, operators=operators, sites=sites)
        model = build_load_model(generate_problem(parameters, np.random.default_rng(0)))
        feasible = FeasibleSet.of(model, rod_assign(model))
        spent, found = timed(feasible.log_ratio)
        longer = feasible.log_ratio(seed=1, visits=10 * MOST_VISITS)
        sampled = feasible.ratio(2**14).value
        rows.append(
            _volume(f"rod, {operators} operators", streams, sites, found, spent)
            | {
                "10_times_longer": longer.log10,
                "2^14_directions": log10(sampled) if sampled else float("nan"),
            }
        )
    yield ResultTable.of("Logarithms (base 10) of feasible ratios", rows)


def _volume(case: str, variables: int, sites: int, found: Any, spent: float) -> dict[str, str | float | int]:
    return {
        "case": case,
        "variables": variables,
        "sites": sites,
        "log10": found.log10,
        "error": found.log10_error,
        "s": spent,
    }


def measure(words: Sequence[str]) -> Iterator[ResultTable]:
    log_volume(np.array([[1.0, 2.0, 0.0], [2.0, 0.5, 1.0]]))  # compile
    yield from volumes()
    with tempfile.TemporaryDirectory() as folder:
        yield from planning(Path(folder))


MANY_STREAMS = Measurement("many_streams", "Plans with hundreds of streams", prose_of(__doc__), measure)

if __name__ == "__main__":
    carry_out(MANY_STREAMS, sys.argv[1:])
