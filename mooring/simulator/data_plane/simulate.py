"""One call: a problem, a placement, some seconds of virtual time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mooring.contracts.engine import carry_out
from mooring.errors import InputError
from mooring.model.placement.placement_file import SomePlacement, SomeProblem, placement_of, problem_of
from mooring.progress import Report, silent
from mooring.simulator.data_plane.arrivals import Arrivals
from mooring.simulator.data_plane.binding import Behaviour
from mooring.simulator.data_plane.engine import SimulatedEngine
from mooring.simulator.data_plane.overload import Limits
from mooring.simulator.data_plane.report import SimulationReport, report_of
from mooring.simulator.data_plane.workload import TraceChoice, workload


def simulate(
    problem: SomeProblem,
    placement: SomePlacement,
    *,
    seconds: float = 60.0,
    warm_up_s: float = 0.0,
    seed: int = 0,
    arrivals: str | Sequence[Arrivals] = "poisson",
    trace: TraceChoice | None = None,
    multiplier: float = 1.0,
    batch: int = 1,
    bins: int = 60,
    behaviour: Behaviour | None = None,
    limits: Limits | None = None,
    progress: Report = silent,
) -> SimulationReport:
    """Run tuples through a placement in virtual time: latencies, utilisation, and whether it kept up.

    The same problem, placement, options and seed give the same report, to the last bit.

    >>> problem = {
    ...     "sites": {"a": {"capacity": 1}},
    ...     "streams": {"packets": {"rate": 500}},
    ...     "operators": {"count": {"inputs": ["packets"], "cost_us": 1000}},
    ... }
    >>> report = simulate(problem, {"count": "a"}, seconds=30)
    >>> report.overloaded, round(report.sites["a"].utilisation, 1)
    (False, 0.5)
    """
    if not (seconds > 0 and warm_up_s >= 0 and batch >= 1 and bins >= 1):
        raise InputError(
            f"found seconds={seconds}, warm_up_s={warm_up_s}, batch={batch}, bins={bins}",
            remedy="seconds must be > 0, warm_up_s >= 0, batch and bins >= 1",
        )
    problem = problem_of(problem)
    placement = placement_of(placement, problem)
    if isinstance(arrivals, str):
        arrivals = workload(problem, arrivals=arrivals, trace=trace, multiplier=multiplier, seed=seed)
    engine = SimulatedEngine(
        problem,
        arrivals,
        np.random.default_rng(seed),
        horizon_s=warm_up_s + seconds,
        bins=bins,
        batch=batch,
        behaviour=behaviour,
        limits=limits,
    )
    carry_out(engine, placement)
    run_with_progress(engine, 0.0, warm_up_s, progress, "warming up")
    engine.restart_statistics()
    run_with_progress(engine, warm_up_s, warm_up_s + seconds, progress, "simulating")
    return report_of(engine)


def run_with_progress(
    engine: SimulatedEngine, start_s: float, end_s: float, progress: Report, what: str
) -> None:
    """Let time pass in fifty steps, telling how far it is after each, until the end or an overload."""
    for step in range(1, 51):
        if end_s <= start_s or engine.run(start_s + (end_s - start_s) * step / 50) is not None:
            return
        progress(step / 50, f"{what}: {engine.simulation.now_s:.0f} s, {engine.simulation.events:,} events")
