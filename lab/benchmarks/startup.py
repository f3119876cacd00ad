"""How soon commands are done: `python -m lab.benchmarks startup`.

User and system CPU seconds of whole processes, the median of several, with the disk, Python's bytecode and
numba's cache warm. A small file is four operators on two sites. Beside them what no plan can do without: the
interpreter, and the libraries that hold arrays and compiled loops, with one such loop loaded.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.benchmarks._record import Measurement, carry_out, prose_of
from mooring.cli.output.result_table import ResultTable, Value

RUNS = 15
SMALL = """
sites: {a: {capacity: 1}, b: {capacity: 1}}
streams: {x: {rate: 1000}, y: {rate: 2000}}
operators:
  x1: {inputs: [x], cost_us: 140}
  x2: {inputs: [x], cost_us: 60}
  y1: {inputs: [y], cost_us: 90}
  y2: {inputs: [y], cost_us: 70}
"""
ONE_LOOP = (
    "import numpy as np, scipy.sparse; from mooring.model.load.feasible import feasible_kernels as kernels;"
    "kernels.count_first_to_saturate(np.ones((2, 2)), np.ones((2, 64)))"
)
CASES: tuple[tuple[str, float | None, tuple[str, ...]], ...] = (
    # what is measured, its limit in CPU seconds, the words after `python`
    ("import mooring", 0.15, ("-c", "import mooring")),
    ("mooring --help", 0.3, ("-m", "mooring", "--help")),
    ("mooring policies", 0.3, ("-m", "mooring", "policies")),
    ("mooring check SMALL", 0.7, ("-m", "mooring", "check", "SMALL")),
    ("mooring plan SMALL", 0.7, ("-m", "mooring", "plan", "SMALL")),
    ("mooring plan examples/network_monitoring.yaml", None, ("-m", "mooring", "plan", "EXAMPLE")),
    ("the interpreter alone", None, ("-c", "pass")),
    ("numpy, scipy.sparse, numba and one compiled loop", None, ("-c", ONE_LOOP)),
)
EXAMPLE = Path(__file__).parents[2] / "examples" / "network_monitoring.yaml"


def cpu_seconds(words: Sequence[str]) -> float:
    """Of one process, from its start to its end."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"python {' '.join(words)} ended with code {process.returncode}")
    return used.ru_utime + used.ru_stime


def measure(words: Sequence[str]) -> Iterator[ResultTable]:
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.yaml"
        small.write_text(SMALL)
        files = {"SMALL": str(small), "EXAMPLE": str(EXAMPLE)}
        commands = [[files.get(word, word) for word in case] for _, _, case in CASES]
        for command in commands:
            cpu_seconds(command)
        # In turn, so that a busy moment of the machine falls on all alike.
        turns = [[cpu_seconds(command) for command in commands] for _ in range(RUNS)]
    rows: list[dict[str, Value]] = []
    for (what, limit_s, _), runs in zip(CASES, zip(*turns, strict=True), strict=True):
        row: dict[str, Value] = {"command": what, "CPU_s": statistics.median(runs), "least_s": min(runs)}
        rows.append(row if limit_s is None else {**row, "limit_s": limit_s})
    yield ResultTable.of(f"Whole processes, {RUNS} of each", rows)


STARTUP = Measurement("startup", "How soon commands are done", prose_of(__doc__), measure)

if __name__ == "__main__":
    carry_out(STARTUP, sys.argv[1:])
