"""A site that joins: the session goes on with it, and deciders may use it once it is up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mooring.algorithms.catalogue import make_decider
from mooring.controller.initial_placement import Wish
from mooring.controller.session import SessionOptions
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.problem import Problem
from mooring.simulator.data_plane.arrivals import Constant
from mooring.simulator.data_plane.engine import SimulatedEngine
from mooring.simulator.runs.simulated_run import SimulatedRun, simulated_run

FEW: dict[str, Any] = {
    "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
    "streams": {"x": {"site": "a", "rate": 100}},
    "operators": {
        "read": {"inputs": ["x"], "cost_us": 1000, "site": "a"},
        "f": {"inputs": ["read"], "cost_us": 3000},
        "g": {"inputs": ["read"], "cost_us": 3000},
    },
    "queries": {"q": {"reads": "f", "site": "a"}},
}
KNOWN = Problem.from_dict(FEW)
JOINED = Problem.from_dict({**FEW, "sites": {**FEW["sites"], "c": {"capacity": 1}}})
SITES = FragmentSites({"read": "a", "f": "a", "g": "b"})


def started(folder: Path, decider: str, rate: float) -> SimulatedRun:
    """The engine could use a third site that the session does not know of."""
    engine = SimulatedEngine(JOINED, [Constant(rate)], np.random.default_rng(0), horizon_s=2000.0)
    run = simulated_run(
        engine,
        folder,
        Wish("rod"),
        decider=make_decider(decider),
        act="apply",
        believed=KNOWN,
        options=SessionOptions(look_s=2.0),
    )
    run.session.start(Placement.from_fragments(KNOWN, SITES), "by hand")
    run.session.run(lambda passed: passed >= 60.0)
    return run


def test_a_full_run_is_relieved_by_a_site_that_joins(tmp_path: Path) -> None:
    run = started(tmp_path, "headroom", rate=240.0)
    assert set(run.engine.homes().values()) == {"a", "b"}
    run.session.adopt(JOINED)
    run.session.run(lambda passed: passed >= 240.0)
    assert "c" in run.engine.homes().values()
    assert any("the site c has started and is used from now on" in what for _, what in run.book.incidents)
    assert run.session.journal.placement() == run.engine.homes()


@pytest.mark.parametrize("decider", ["replan", "relaxation", "none"])
def test_every_decider_goes_on_with_a_site_that_joins(tmp_path: Path, decider: str) -> None:
    run = started(tmp_path, decider, rate=240.0)
    run.session.adopt(JOINED)
    run.session.run(lambda passed: passed >= 120.0)
    assert run.session.state.picture is not None
    assert not run.session.state.picture.lost.any()
    assert run.session.troubles() == {}


def test_nothing_is_put_at_a_site_that_is_not_up_yet(tmp_path: Path) -> None:
    run = started(tmp_path, "headroom", rate=240.0)
    run.engine.lose_site("c")
    run.session.adopt(JOINED)
    run.session.run(lambda passed: passed >= 240.0)
    assert set(run.engine.homes().values()) == {"a", "b"}
    assert "has not started yet" in run.session.troubles()["site c"]
    run.engine.give_back("c")
    run.session.run(lambda passed: passed >= 480.0)
    assert "c" in run.engine.homes().values()


def test_what_was_learnt_of_costs_stays(tmp_path: Path) -> None:
    run = started(tmp_path, "none", rate=100.0)
    calibration = run.session.adaptation.surveyor.calibration
    calibration.factors[1] = 2.0
    run.session.adopt(JOINED)
    run.session.look()
    picture = run.session.state.picture
    assert picture is not None
    assert [site.name for site in picture.problem.sites] == ["a", "b", "c"]
    assert picture.problem.operators[1].cost_us == pytest.approx(6000.0)
