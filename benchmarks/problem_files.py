"""How fast problem files are read and written: `python benchmarks/problem_files.py`.

CPU seconds, and as a ratio to what the bare parser needs for the same bytes, which travels between machines.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import yaml

from mooring.problem.fingerprint import fingerprint
from mooring.problem.generate import GraphParameters, generate_problem
from mooring.problem.problem import Problem
from mooring.problem.write import write_problem


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


def main() -> None:
    parameters = GraphParameters(operators=100_000, sites=100)
    problem = generate_problem(parameters, np.random.default_rng(0))
    made = cpu_seconds(lambda: generate_problem(parameters, np.random.default_rng(0)))
    print(f"generate 100,000 operators  {made:6.2f} s")
    with tempfile.TemporaryDirectory() as folder:
        for suffix, bare, limit_s in (("json", json.loads, 2.0), ("yaml", parse_events, 20.0)):
            path = Path(folder) / f"problem.{suffix}"
            written = cpu_seconds(partial(write_problem, problem, path), repeats=1)
            text = path.read_text()
            floor = cpu_seconds(partial(bare, text))
            read = cpu_seconds(partial(Problem.load, path))
            print(
                f"read  {suffix}  {read:6.2f} s (limit {limit_s:g} s), {read / floor:.1f} x the bare parser"
            )
            print(f"write {suffix}  {written:6.2f} s")
    print(f"fingerprint  {cpu_seconds(lambda: fingerprint(problem)):6.2f} s")


if __name__ == "__main__":
    main()
