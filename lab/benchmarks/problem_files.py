"""How fast problem files are read and written: `python -m lab.benchmarks problem_files`.

CPU seconds, and as a ratio to what the bare parser needs for the same bytes, which travels between machines.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import yaml

from lab.benchmarks._record import Measurement, carry_out, prose_of
from mooring.cli.output.result_table import ResultTable, Value
from mooring.model.problem.fingerprint import fingerprint
from mooring.model.problem.generate import GraphParameters, generate_problem
from mooring.model.problem.problem import Problem
from mooring.model.problem.write import write_problem


def cpu_seconds(work: Callable[[], object], repeats: int = 3) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def parse_events(text: str) -> None:
    for _ in yaml.parse(text, Loader=yaml.CSafeLoader):
        pass


def measure(words: Sequence[str]) -> Iterator[ResultTable]:
    parameters = GraphParameters(operators=100_000, sites=100)
    problem = generate_problem(parameters, np.random.default_rng(0))
    made = cpu_seconds(lambda: generate_problem(parameters, np.random.default_rng(0)))
    rows: list[dict[str, Value]] = [{"work": "generate", "CPU_s": made}]
    with tempfile.TemporaryDirectory() as folder:
        for suffix, bare, limit_s in (("json", json.loads, 2.0), ("yaml", parse_events, 20.0)):
            path = Path(folder) / f"problem.{suffix}"
            written = cpu_seconds(partial(write_problem, problem, path), repeats=1)
            text = path.read_text()
            floor = cpu_seconds(partial(bare, text))
            read = cpu_seconds(partial(Problem.load, path))
            to_bare = {"limit_s": limit_s, "to_the_bare_parser": read / floor}
            rows += [{"work": f"read {suffix}", "CPU_s": read, **to_bare}]
            rows += [{"work": f"write {suffix}", "CPU_s": written}]
    rows += [{"work": "fingerprint", "CPU_s": cpu_seconds(lambda: fingerprint(problem))}]
    yield ResultTable.of("100,000 operators on 100 sites", rows)


PROBLEM_FILES = Measurement(
    "problem_files",
    "How fast problem files are read and written",
    prose_of(__doc__),
    measure,
)

if __name__ == "__main__":
    carry_out(PROBLEM_FILES, sys.argv[1:])
