"""The simulator keeps the promises of the Engine protocol, through moves, stops and disconnections."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.contracts.engine import Engine, carry_out
from mooring.errors import EngineError
from mooring.model.deployment.channels import Channel, channels_of
from mooring.model.deployment.move_times import MoveTimes
from mooring.model.deployment.moves import ordered_moves
from mooring.model.placement.placement import FragmentSites, Placement, operators_at
from mooring.model.problem.problem import Problem
from mooring.simulator.data_plane.arrivals import Constant
from mooring.simulator.data_plane.engine import SimulatedEngine

PROBLEM = Problem.from_dict(
    {
        "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
        "latency_ms": {"a": {"b": 20}},
        "network": {"bandwidth": 1e6},
        "streams": {"s": {"rate": 100, "site": "a", "bytes": 100}},
        "operators": {
            "filter": {"inputs": ["s"], "cost_us": 1000, "selectivity": 0.5},
            "parse": {"inputs": ["filter"], "cost_us": 1000, "selectivity": 1, "fragment": "tail"},
            "count": {
                "inputs": ["parse"],
                "cost_us": 1000,
                "selectivity": 1,
                "fragment": "tail",
                "state_bytes": 2e6,
                "fixed_cores": 0.2,
            },
        },
        "queries": {"q": {"reads": "count", "site": "a"}},
    }
)


def started(horizon_s: float = 100.0) -> SimulatedEngine:
    engine = SimulatedEngine(
        PROBLEM,
        [Constant(100.0)],
        np.random.default_rng(0),
        horizon_s=horizon_s,
        times=MoveTimes(stateful_s=1.0),
    )
    carry_out(engine, Placement.from_dict(PROBLEM, {"filter": "a", "parse": "b", "count": "b"}))
    return engine


def test_the_simulator_is_an_engine() -> None:
    engine: Engine = started()
    assert engine.measure().seconds == 0


def test_channels_join_fragments_and_not_their_insides() -> None:
    assert channels_of(PROBLEM) == (Channel("filter", "tail"), Channel("s", "filter"), Channel("tail", "q"))


def test_measurements_are_rates_since_the_last_one() -> None:
    engine = started()
    engine.run(10.0)
    engine.measure()
    engine.run(30.0)
    found = engine.measure()
    assert found.seconds == 20.0
    assert found.stream_rates["s"] == pytest.approx(100, rel=0.01)
    assert found.sites["a"].utilisation == pytest.approx(0.1, rel=0.01)
    assert found.sites["b"].utilisation == pytest.approx(0.1 + 0.2, rel=0.01)  # 0.2 cores are fixed load
    tail = found.fragments["tail"]
    assert (tail.site, tail.running) == ("b", True)
    assert tail.input_rate == pytest.approx(50, rel=0.01)
    assert tail.output_rate == pytest.approx(50, rel=0.01)
    assert tail.cores == pytest.approx(0.1 + 0.2, rel=0.01)
    assert found.queries["q"].mean_latency_ms == pytest.approx(40 + 1 + 2 / 0.8, rel=0.1)


def test_a_move_pauses_for_the_state_and_nothing_is_lost() -> None:
    engine = started()
    engine.run(40.0)
    report = engine.move("tail", "a")
    assert report.pause_s == pytest.approx(1.0 + 0.020 + 2e6 / 1e6)
    assert (report.from_site, report.to_site, report.state_bytes) == ("b", "a", 2e6)
    engine.measure()
    engine.run(42.0)
    paused = engine.measure()
    assert paused.queries["q"].rate == 0
    assert paused.fragments["tail"].waiting == pytest.approx(100, abs=3)
    engine.run(100.0)
    assert engine.simulation.latency().tuples == pytest.approx(5000, abs=5)
    after = engine.measure()
    assert after.queries["q"].max_latency_ms == pytest.approx(3000, rel=0.1)
    assert after.sites["b"].utilisation == pytest.approx(0.0, abs=1e-12)
    assert operators_at(PROBLEM, engine.homes()) == {"filter": "a", "parse": "a", "count": "a"}


def test_where_the_problem_knows_no_network_a_move_takes_as_long_as_was_predicted() -> None:
    problem = Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
            "streams": {"s": {"rate": 100}},
            "operators": {
                "filter": {"inputs": ["s"], "cost_us": 100, "selectivity": 0.5},
                "count": {"inputs": ["filter"], "kind": "aggregate", "cost_us": 100, "selectivity": 1},
                "kept": {"inputs": ["filter"], "cost_us": 100, "selectivity": 1, "state_bytes": 5e8},
            },
        }
    )
    old, new = (FragmentSites(dict.fromkeys(("filter", "count", "kept"), site)) for site in "ab")
    predicted = {step.move.fragment: step.pause.likely_s for step in ordered_moves(problem, old, new).steps}
    engine = SimulatedEngine(problem, [Constant(100.0)], np.random.default_rng(0), horizon_s=10.0)
    carry_out(engine, Placement.from_fragments(problem, old))
    assert {name: engine.move(name, "b").pause_s for name in predicted} == predicted
    assert predicted == {"filter": 1.0, "count": 2.0, "kept": 7.0}


def test_moving_again_during_the_pause_starts_the_pause_anew() -> None:
    engine = started()
    engine.run(40.0)
    engine.move("tail", "a")
    engine.run(42.0)
    engine.move("tail", "b")
    engine.measure()
    engine.run(45.0)
    assert engine.measure().queries["q"].rate == 0
    engine.run(100.0)
    assert engine.simulation.latency().tuples == pytest.approx(5000, abs=5)


def test_a_stopped_fragment_leaves_its_input_in_the_channel() -> None:
    engine = started()
    engine.run(10.0)
    engine.stop("tail")
    engine.measure()
    engine.run(20.0)
    stopped = engine.measure()
    assert stopped.queries["q"].rate < 0.5
    assert not stopped.fragments["tail"].running
    assert stopped.fragments["tail"].waiting == pytest.approx(500, abs=5)
    engine.start("tail", "a")
    engine.run(100.0)
    assert engine.simulation.latency().tuples == pytest.approx(5000, abs=5)


def test_a_disconnected_reader_gets_nothing_more() -> None:
    engine = started()
    engine.run(10.0)
    engine.stop("tail")
    engine.disconnect(Channel("filter", "tail"))
    engine.run(20.0)
    assert engine.measure().fragments["tail"].waiting == pytest.approx(0, abs=3)
    engine.connect(Channel("filter", "tail"))
    engine.start("tail", "b")
    engine.run(100.0)
    assert engine.simulation.latency().tuples == pytest.approx(4500, abs=5)


def test_what_cannot_be_done_is_refused() -> None:
    engine = started()
    for call in (
        lambda: engine.start("tail", "a"),
        lambda: engine.start("nosuch", "a"),
        lambda: engine.move("tail", "nosuch"),
        lambda: engine.connect(Channel("s", "tail")),
    ):
        with pytest.raises(EngineError):
            call()
    engine.stop("tail")
    for call in (lambda: engine.stop("tail"), lambda: engine.move("tail", "a")):
        with pytest.raises(EngineError):
            call()
