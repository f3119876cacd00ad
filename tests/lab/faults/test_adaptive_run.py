"""Operators move while tuples flow, and every tuple arrives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lab.faults.adaptive_run import AdaptiveRun
from lab.faults.faults import Crash, Noise, Partition
from mooring.algorithms.relaxation.machines.params import OptimiserParams
from mooring.algorithms.relaxation.migration import MigrationParams
from mooring.model.deployment.move_times import MoveTimes
from mooring.model.placement.network_metrics import network_metrics
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem
from mooring.simulator.data_plane.arrivals import BinnedRates, Constant, Replay

PARAMS = OptimiserParams(period_ms=50.0, migration=MigrationParams(displacement_ms=2.0, least_saving=0.05))
SITES = [f"n{i}" for i in range(6)]


def chain(movable: bool = True) -> Problem:
    data: dict[str, Any] = {
        "sites": {name: {"capacity": 2} for name in SITES},
        "latency_ms": {a: {SITES[j]: 15.0 * (i - j) for j in range(i)} for i, a in enumerate(SITES) if i},
        "streams": {
            "x": {"site": "n0", "rate": 200, "bytes": 100},
            "y": {"site": "n1", "rate": 200, "bytes": 100},
        },
        "operators": {
            "merge": {"inputs": ["x", "y"], "kind": "union", "cost_us": 100, "bytes": 20, "movable": movable},
            "parse": {
                "inputs": ["merge"],
                "cost_us": 100,
                "bytes": 10,
                "state_bytes": 1e5,
                "movable": movable,
            },
        },
        "queries": {"q": {"reads": "parse", "site": "n5"}},
    }
    return Problem.from_dict(data)


def finite(rate: float, seconds: float) -> Replay:
    return Replay(np.arange(int(rate * seconds)) / rate)


def usage(problem: Problem, run: AdaptiveRun) -> float:
    placement = Placement.from_dict(problem, dict(run.engine.homes()))
    return float(network_metrics(placement).network_usage)  # type: ignore[arg-type]


def test_operators_move_to_where_less_is_in_flight_and_no_tuple_is_lost() -> None:
    problem = chain()
    start = Placement.from_dict(problem, {"merge": "n5", "parse": "n4"})
    run = AdaptiveRun(
        start, [finite(200, 30), finite(200, 30)], horizon_s=60, params=PARAMS, times=MoveTimes(0.5, 0.5)
    )
    before = usage(problem, run)
    run.run(60.0)
    assert run.control.violation is None
    assert 2 <= len(run.migrations) <= 6
    assert usage(problem, run) < 0.5 * before
    assert run.engine.simulation.latency().tuples == 2 * 200 * 30


def test_no_tuple_is_lost_while_the_control_plane_suffers() -> None:
    problem = chain()
    start = Placement.from_dict(problem, {"merge": "n5", "parse": "n4"})
    faults = (
        Crash(3000.0, 5, 4000.0),
        Noise(1000.0, 15_000.0, loss=0.3, duplicate=0.3, jitter_ms=200.0),
        Partition(8000.0, 12_000.0, (0, 1)),
    )
    run = AdaptiveRun(
        start,
        [finite(200, 30), finite(200, 30)],
        horizon_s=60,
        params=PARAMS,
        times=MoveTimes(0.5, 0.5),
        faults=faults,
    )
    run.run(60.0)
    assert run.control.violation is None
    assert run.migrations
    assert run.engine.simulation.latency().tuples == 2 * 200 * 30


def test_rates_that_change_are_measured_and_followed() -> None:
    """At first nearly all data comes from n0, later from n1 and from there only."""
    problem = chain()
    start = Placement.from_dict(problem, {"merge": "n0", "parse": "n0"})
    falling = BinnedRates(np.array([200.0, 1.0]), bin_s=20.0)
    rising = BinnedRates(np.array([1.0, 400.0]), bin_s=20.0)
    run = AdaptiveRun(start, [falling, rising], horizon_s=40, params=PARAMS, times=MoveTimes(0.1, 0.1))
    run.run(18.0)
    assert run.engine.homes()["merge"] == "n0"
    run.run(38.0)
    assert run.engine.homes()["merge"] == "n1"


def test_what_may_not_move_does_not() -> None:
    problem = chain(movable=False)
    start = Placement.from_dict(problem, {"merge": "n5", "parse": "n4"})
    run = AdaptiveRun(start, [Constant(200), Constant(200)], horizon_s=20, params=PARAMS)
    run.run(20.0)
    assert run.migrations == []


def test_a_problem_without_latencies_is_refused() -> None:
    problem = Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1}},
            "streams": {"x": {"rate": 1}},
            "operators": {"f": {"inputs": ["x"], "cost_us": 1}},
        }
    )
    with pytest.raises(Exception, match="latency_ms"):
        AdaptiveRun(Placement.from_dict(problem, {"f": "a"}), [Constant(1)], horizon_s=1)
