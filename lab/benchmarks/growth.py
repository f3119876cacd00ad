"""How CPU and memory grow with the problem, stage by stage.

    python -m lab.benchmarks growth
    python -m lab.benchmarks growth:rod,llf     # some of the cases

Each row is a process of its own: a problem file is read, placed, judged, bounded, explained and written as
JSON. CPU seconds include the first use of compiled code; a peak is that of the process during the stage, with
what it held before. The exponent says how a figure grew with the operators between the last two sizes:
1 in proportion, 2 quadratically. Operators and streams grow with the sites. Of the wide areas, whose sites
have coordinates, the quality is compared over the sizes: bytes in flight per query, and the delay that the
way over operators adds to the direct one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from lab.benchmarks._growth_case import CASES, STAGES, forget_peak, peak_gb
from lab.benchmarks._record import Measurement, carry_out, chosen_parts, prose_of
from mooring.cli.output.result_table import ResultTable, Value
from mooring.model.problem.fingerprint import fingerprint
from mooring.model.problem.problem import Problem

MATRIX_SITES = 5_000
MOST_BYTES = 8 * 10**9
"""Of address space that one process may use."""


def in_a_process(*words: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "lab.benchmarks._growth_case", *words]
    limited = ["prlimit", f"--as={MOST_BYTES}", *command] if Path("/usr/bin/prlimit").exists() else command
    done = subprocess.run(limited, check=False, capture_output=True, text=True)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1][:80]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def exponent(small: dict[str, Any], large: dict[str, Any], value: Callable[[dict[str, Any]], float]) -> float:
    """Of a figure's growth with the operators."""
    return log(value(large) / value(small)) / log(large["operators"] / small["operators"])


def total_s(found: dict[str, Any]) -> float:
    return float(sum(found["cpu_s"].values()))


def _rows(sizes: list[dict[str, Any]]) -> list[dict[str, Value]]:
    rows: list[dict[str, Value]] = []
    for found in sizes:
        stages: dict[str, Value] = {f"{stage}_s": found["cpu_s"][stage] for stage in STAGES}
        most = max(found["peak_gb"].values())
        where = {"operators": found["operators"], "sites": found["sites"]}
        rows.append({"": "", **where, **stages, "all_s": total_s(found), "GB": most})
    if len(sizes) > 1:
        before, last = sizes[-2:]

        def grew(stage: str) -> float:
            return exponent(before, last, lambda found: max(found["cpu_s"][stage], 1e-3))

        row: dict[str, Value] = {"": "exponent", "operators": None, "sites": None}
        row |= {f"{stage}_s": grew(stage) for stage in STAGES}
        row["all_s"] = exponent(before, last, total_s)
        row["GB"] = exponent(before, last, lambda found: max(found["peak_gb"].values()))
        rows.append(row)
    return rows


def _matrix() -> ResultTable:
    """A matrix of latencies from both kinds of files, and its fingerprint."""
    rng, names = np.random.default_rng(0), [f"site{i}" for i in range(MATRIX_SITES)]
    matrix = np.round(rng.uniform(1.0, 300.0, (MATRIX_SITES, MATRIX_SITES)), 3)
    matrix = np.triu(matrix, 1) + np.triu(matrix, 1).T
    rest = {"streams": {"s": {"rate": 1}}, "operators": {"o": {"inputs": ["s"], "cost_us": 1}}}
    sites = {name: {"capacity": 1} for name in names}
    rows: list[dict[str, Value]] = []
    with tempfile.TemporaryDirectory() as folder:
        lines = [",".join([name, *map(str, row)]) for name, row in zip(names, matrix.tolist(), strict=True)]
        (Path(folder) / "m.csv").write_text("\n".join([",".join(["", *names]), *lines]))
        pairs = {
            a: dict(zip(names[i + 1 :], matrix[i, i + 1 :].tolist(), strict=True))
            for i, a in enumerate(names[:-1])
        }
        for form, latency_ms in (("CSV", {"file": "m.csv"}), ("JSON", pairs)):
            file = Path(folder) / f"{form}.json"
            file.write_text(json.dumps({"sites": sites, "latency_ms": latency_ms, **rest}))
            done = subprocess.run(
                [sys.executable, "-m", "lab.benchmarks.growth", "--read", str(file)],
                check=True,
                capture_output=True,
                text=True,
            )
            rows.append({"form": form, **json.loads(done.stdout)})
    return ResultTable.of(f"A matrix of {MATRIX_SITES} sites", rows)


def read_once(file: Path) -> dict[str, float]:
    """CPU seconds and memory of reading a problem, in this process."""
    forget_peak()
    begun = time.process_time()
    problem = Problem.load(file)
    read_s, read_gb = time.process_time() - begun, peak_gb()
    begun = time.process_time()
    fingerprint(problem)
    return {"read_s": read_s, "read_GB": read_gb, "fingerprint_s": time.process_time() - begun}


def measure(words: Sequence[str]) -> Iterator[ResultTable | str]:
    for name in chosen_parts(words, [*CASES, "matrix"]):
        if name == "matrix":
            yield _matrix()
            continue
        case, sizes = CASES[name], []
        for sites in case.sites:
            found = in_a_process(name, str(sites))
            if "failed" in found:
                yield f"{name} with {sites} sites: {found['failed']}"
                break
            sizes.append(found)
        if sizes:
            yield ResultTable.of(name, _rows(sizes))
        if case.wide and sizes:
            yield ResultTable.of(f"{name}: quality", [_quality(found) for found in sizes])
        if case.budget_s is not None:
            took = ", ".join(f"{sum(found['wall_s'].values()):.1f} s" for found in sizes)
            yield f"Budget {case.budget_s:g} s; from file to output it took {took} of wall-clock time."


def _quality(found: dict[str, Any]) -> dict[str, Value]:
    quality = found["quality"]
    return {
        "sites": found["sites"],
        "in_flight_per_site": quality["network_usage"] / found["sites"],
        "delay_penalty": quality.get("delay_penalty"),
        "max_utilisation": quality["max_utilisation"],
    }


GROWTH = Measurement("growth", "How CPU and memory grow with the problem", prose_of(__doc__), measure)

if __name__ == "__main__":
    if sys.argv[1:2] == ["--read"]:
        print(json.dumps(read_once(Path(sys.argv[2]))))
    else:
        carry_out(GROWTH, sys.argv[1:])
