"""What planning and simulating costs grows with the work: lines of Python that run, and bytes held at a time.

Neither depends on how busy the machine is. A compiled loop is counted by the arrays that it is given.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from lab.benchmarks._growth_case import simulated_graph
from mooring.cli.main import main
from mooring.model.problem.generate import GraphParameters, generate_problem
from mooring.model.problem.problem import Problem
from mooring.model.problem.write import problem_to_data, write_problem
from mooring.planning import plan

SMALL, LARGE = 450, 900
SMALL_RUN = 25
"""Sites of a simulated run."""
MOST_TIMES = 2.8
"""Between in proportion, 2, and quadratic, 4."""


def lines_of(work: Callable[[], object]) -> int:
    """Of this project, that run meanwhile."""
    count = 0

    def each_line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return each_line

    def each_call(frame: FrameType, event: str, argument: Any) -> Any:
        return each_line if "/mooring/" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(each_call)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def most_bytes_of(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("policy", "wide"), [("rod", False), ("relaxation", True)], ids=["many streams", "wide area"]
)
def test_twice_the_work_costs_about_twice_as_much(
    policy: str, wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mooring.model.bounds.network_bound.MOST_WEIGHTS", 0)  # as of large problems
    monkeypatch.setattr("mooring.model.load.feasible.log_volume.LEAST_SWEEPS", 1)
    extra: dict[str, Any] = {"plane_ms": 100.0, "queries": 100, "stream_bytes": 10.0} if wide else {}

    def work(size: int) -> Callable[[], object]:
        """Reading, placing, judging, explaining."""
        parameters = GraphParameters(streams=size, operators=2 * size, sites=size, **extra)
        content = problem_to_data(generate_problem(parameters, np.random.default_rng(0)))
        return lambda: plan(Problem.from_dict(content), policy).document(0.0)

    small, large = work(SMALL), work(LARGE)
    small()  # loads what is compiled
    assert lines_of(large) < MOST_TIMES * lines_of(small)
    assert most_bytes_of(large) < MOST_TIMES * most_bytes_of(small)


@pytest.mark.parametrize("decider", ["none", "overlay"])
def test_a_simulation_of_twice_the_sites_costs_about_twice_as_much(
    decider: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(sites: int) -> Callable[[], object]:
        file = tmp_path / f"{sites}.json"
        write_problem(generate_problem(simulated_graph(sites), np.random.default_rng(0)), file)
        words = ["simulate", str(file), "--adapt", decider, "--alone", "--seconds", "20", "--json"]
        return lambda: main(words)

    small, large = work(SMALL_RUN), work(2 * SMALL_RUN)
    small()  # loads what is compiled
    assert lines_of(large) < MOST_TIMES * lines_of(small)
