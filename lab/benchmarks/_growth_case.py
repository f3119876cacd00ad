"""One process of the benchmarks of growth: `python -m lab.benchmarks._growth_case CASE SIZE ...`.

CASE is a kind of problem that is planned stage by stage, or `simulate:DECIDER`, `chunks` or `events`. Prints
a line of JSON. Peaks are of the process since the stage began, which Linux forgets on request.
"""

from __future__ import annotations

import contextlib
import io
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from lab.benchmarks.simulator import Overlay, mooring_events
from lab.experiments.chunks.plans import SIMPLE, like_sites, plan_problem
from mooring.algorithms.catalogue import policy_class
from mooring.chunks.search.evaluation import Assignment
from mooring.chunks.search.planning import PlanningParams, plan_chunks
from mooring.chunks.search.search_log import StoppingRules
from mooring.cli.input.clock import deadline_in, placing_deadline
from mooring.cli.main import main
from mooring.model.problem.generate import GraphParameters, generate_problem
from mooring.model.problem.latencies import Coordinates
from mooring.model.problem.problem import Problem
from mooring.model.problem.write import write_problem
from mooring.planning import plan

Made = TypeVar("Made")
STAGES = ("read", "place", "metrics", "bound", "explanation", "output")


@dataclass(frozen=True)
class Case:
    """A kind of problem, which grows with the number of its sites."""

    policy: str
    operators: int
    """Per site."""
    sites: tuple[int, ...]
    """The least is that of the target, or of the comparison."""
    streams: float = 1.0
    """Per site; a whole number of 5 or more: in all."""
    joins: float = 0.0
    wide: bool = False
    """With coordinates and queries."""
    budget_s: float | None = None

    def parameters(self, sites: int) -> GraphParameters:
        operators = self.operators * sites
        streams = int(self.streams) if self.streams >= 5 else int(self.streams * sites)
        extra: dict[str, Any] = {}
        if self.wide:
            extra = {"plane_ms": 100.0, "queries": sites, "stream_bytes": 100.0}
        joins = int(self.joins * sites)
        return GraphParameters(streams=streams, operators=operators, sites=sites, joins=joins, **extra)


CASES = {
    "rod": Case("rod", 20, (5_000, 10_000)),
    "llf": Case("llf", 20, (5_000, 10_000)),
    "few-streams": Case("rod", 20, (5_000, 10_000), streams=5),
    "joins": Case("rod", 10, (2_000, 4_000), joins=1.0),
    "relaxation": Case("relaxation", 10, (1_000, 2_000), wide=True),
    "wide-relaxation": Case("relaxation", 10, (1_000, 10_000), wide=True),
    "wide-ants": Case("ants", 10, (1_000, 10_000), wide=True),
    "overlay": Case("overlay", 10, (100, 1_000), wide=True),
    "descent": Case("descent", 10, (1_000, 2_000), wide=True),
    "resilient": Case("resilient", 10, (1_000, 5_000), budget_s=10.0),
    "correlation": Case("correlation", 20, (1_000, 2_000)),
}


class Stages:
    """CPU seconds and peak memory by stage."""

    def __init__(self) -> None:
        self.cpu_s: dict[str, float] = {}
        self.wall_s: dict[str, float] = {}
        self.peak_gb: dict[str, float] = {}

    def run(self, stage: str, work: Callable[[], Made]) -> Made:
        forget_peak()
        cpu, wall = time.process_time(), time.monotonic()
        made = work()
        self.cpu_s[stage] = time.process_time() - cpu
        self.wall_s[stage] = time.monotonic() - wall
        self.peak_gb[stage] = peak_gb()
        return made


def forget_peak() -> None:
    """Elsewhere than on Linux, peaks are those since the process began."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_gb() -> float:
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def measured(case: Case, sites: int, seed: int = 0) -> dict[str, Any]:
    """What every stage takes, and what came of it."""
    stages, parameters = Stages(), case.parameters(sites)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "problem.json"
        write_problem(generate_problem(parameters, np.random.default_rng(seed)), file)
        problem = stages.run("read", lambda: Problem.load(file))
    if case.wide:
        assert isinstance(problem.network.latency_ms, Coordinates)
    about = policy_class(case.policy).about
    read_s = stages.wall_s["read"]
    deadline = placing_deadline(case.budget_s, read_s, read_s, about)
    made = stages.run("place", lambda: plan(problem, case.policy, seed=seed, deadline=deadline))
    metrics = stages.run("metrics", lambda: made.metrics)
    stages.run("bound", lambda: made.bound)
    explanation = stages.run("explanation", lambda: made.explanation)
    text = stages.run("output", lambda: json.dumps(made.document(0.0)))
    quality = {key: value for key, value in metrics.as_json().items() if isinstance(value, int | float)}
    return {
        "operators": parameters.operators,
        "sites": sites,
        "cpu_s": stages.cpu_s,
        "wall_s": stages.wall_s,
        "peak_gb": stages.peak_gb,
        "quality": quality,
        "bytes": len(text),
        "explanation": explanation.sentences[:2],
    }


def used_by(work: Callable[[], object]) -> dict[str, float]:
    """CPU seconds, wall-clock time and peak memory."""
    forget_peak()
    cpu, wall = time.process_time(), time.monotonic()
    work()
    return {
        "cpu_s": time.process_time() - cpu,
        "wall_s": time.monotonic() - wall,
        "GB": peak_gb(),
    }


def simulated_graph(sites: int) -> GraphParameters:
    """Four operators, a stream and a query per site."""
    return GraphParameters(
        streams=sites,
        operators=4 * sites,
        sites=sites,
        cost_us=(5_000.0, 50_000.0),
        plane_ms=100.0,
        queries=sites,
        stream_bytes=100.0,
    )


def simulated(decider: str, sites: int, virtual_s: float) -> dict[str, float]:
    """`mooring simulate` over that graph."""
    parameters = simulated_graph(sites)
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "problem.json"
        write_problem(generate_problem(parameters, np.random.default_rng(0)), file)
        words = ["simulate", str(file), "--adapt", decider, "--alone", "--seconds", str(virtual_s)]
        with contextlib.redirect_stdout(printed):
            used = used_by(lambda: main(words))
    return {**used, "lines": printed.getvalue().count("\n")}


def cut(sites: int, steps: int, budget_s: float | None) -> dict[str, float]:
    """Three operators on arrays, up to four chunks per site."""
    problem = plan_problem(SIMPLE, like_sites(sites), load=0.5)
    params = PlanningParams(assignment=Assignment.TIERED, most_chunks=4 * sites)

    def search() -> None:
        rules = StoppingRules(deadline=deadline_in(budget_s), most_evaluations=steps)
        plan_chunks(problem, params, seed=0, rules=rules)

    return used_by(search)


def events(sites: int, count: float = 3e6) -> dict[str, float]:
    """Of the same load on more sites."""
    overlay = Overlay(sites=sites, chains=2 * sites, rate=10_000.0 / sites)
    simulated_events, spent_s = mooring_events(overlay, count)
    return {"million_per_cpu_s": simulated_events / spent_s / 1e6}


def _asked(case: str, size: int, more: list[str]) -> object:
    if case.startswith("simulate:"):
        return simulated(case.partition(":")[2], size, float(more[0]))
    if case == "chunks":
        return cut(size, int(more[0]), float(more[1]) if more[1:] else None)
    return events(size) if case == "events" else measured(CASES[case], size)


if __name__ == "__main__":
    print(json.dumps(_asked(sys.argv[1], int(sys.argv[2]), sys.argv[3:])))
