"""Leaving a site: emptied in good order, kept empty by everybody, and used again when somebody says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mooring.contracts.engine import MoveReport
from mooring.controller.initial_placement import Wish, begin, plan_around
from mooring.controller.journal import Journal
from mooring.controller.session import SessionOptions
from mooring.errors import EngineError, InputError
from mooring.model.deployment.move_stages import Reached, ignored
from mooring.model.deployment.moves import Move
from mooring.model.placement.closed_sites import closed_problem
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.problem import Problem
from mooring.planning import plan
from mooring.simulator.data_plane.arrivals import Constant
from mooring.simulator.data_plane.engine import SimulatedEngine
from mooring.simulator.runs.simulated_run import SimulatedRun, simulated_run

PROBLEM = Problem.from_dict(
    {
        "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}, "c": {"capacity": 1}},
        "streams": {"x": {"site": "a", "rate": 100}},
        "operators": {
            "read": {"inputs": ["x"], "cost_us": 1000, "site": "a"},
            "f": {"inputs": ["read"], "cost_us": 3000},
            "g": {"inputs": ["read"], "cost_us": 3000},
            "h": {"inputs": ["read"], "cost_us": 3000},
        },
        "queries": {"q": {"reads": "f", "site": "a"}},
    }
)
AT_FIRST = FragmentSites({"read": "a", "f": "b", "g": "b", "h": "c"})


def started(
    folder: Path, rate: float = 100.0, sites: FragmentSites = AT_FIRST, engine: SimulatedEngine | None = None
) -> SimulatedRun:
    engine = engine or engine_at(rate)
    run = simulated_run(engine, folder, Wish("rod"), options=SessionOptions(look_s=2.0))
    run.session.start(Placement.from_fragments(PROBLEM, sites), "by hand")
    run.session.run(lambda passed: passed >= 20.0)
    return run


def engine_at(rate: float) -> SimulatedEngine:
    return SimulatedEngine(PROBLEM, [Constant(rate)], np.random.default_rng(0), horizon_s=2000.0)


def on(run: SimulatedRun, seconds: float) -> None:
    until_s = run.session.clock.monotonic_s() + seconds
    run.session.run(lambda passed: run.session.clock.monotonic_s() >= until_s)


def answered(run: SimulatedRun, name: str) -> dict[str, object]:
    on(run, 5.0)
    return run.tray.answer(name) or {}


def test_a_site_is_emptied_and_nobody_puts_anything_there_until_it_is_used_again(tmp_path: Path) -> None:
    run = started(tmp_path)
    answer = answered(run, run.tray.ask_leave("b", "ann"))
    assert answer["state"] == "done"
    assert "b" not in run.engine.homes().values()
    assert len(run.engine.homes()) == 4
    assert run.book.looks[-1][1]["left_sites"] == {"b": "ann"}
    assert any("the site b was emptied" in what for _, what in run.book.incidents)

    # Recovery goes around it.
    run.engine.lose_site("c")
    on(run, 20.0)
    assert "b" not in run.engine.homes().values()
    run.engine.give_back("c")
    on(run, 20.0)

    # Moves by hand, and the way back, are refused with the reason.
    homes = run.engine.homes()
    refused = answered(run, run.tray.ask(homes, [Move("h", homes["h"], "b")]))
    assert refused["state"] == "refused"
    assert "b is kept empty (requested by ann)" in str(refused["why"])

    # Deciders do not propose it, however full the others are.
    picture = run.session.state.picture
    assert picture is not None
    assert picture.lost[PROBLEM.site_index["b"]]

    assert answered(run, run.tray.ask_return("b", "ann"))["state"] == "done"
    homes = run.engine.homes()
    assert answered(run, run.tray.ask(homes, [Move("h", homes["h"], "b")]))["state"] == "done"
    assert run.session.journal.left_sites() == {}


def test_a_site_that_the_others_cannot_do_without_is_left_only_by_force(tmp_path: Path) -> None:
    run = started(tmp_path, rate=280.0, sites=FragmentSites({"read": "a", "f": "b", "g": "c", "h": "a"}))
    refused = answered(run, run.tray.ask_leave("b"))
    assert refused["state"] == "refused"
    assert "without 'b'" in str(refused["why"])
    assert run.session.journal.left_sites() == {}
    assert answered(run, run.tray.ask_leave("b", force=True))["state"] == "done"
    assert run.engine.homes()["f"] != "b"


def test_what_may_run_nowhere_else_stands_still_by_force_and_goes_on_later(tmp_path: Path) -> None:
    run = started(tmp_path)
    refused = answered(run, run.tray.ask_leave("a"))
    assert refused["state"] == "refused"
    assert "read can run at 'a' only" in str(refused["why"])
    assert answered(run, run.tray.ask_leave("a", force=True))["state"] == "done"
    on(run, 10.0)
    assert "read" not in run.engine.homes()
    assert "a is kept empty" in run.session.troubles()["read"]
    assert answered(run, run.tray.ask_return("a"))["state"] == "done"
    on(run, 10.0)
    assert run.engine.homes()["read"] == "a"
    assert run.session.troubles() == {}


def test_a_site_that_is_unknown_or_in_use_is_answered_in_words(tmp_path: Path) -> None:
    run = started(tmp_path)
    assert "there is no site 'd'" in str(answered(run, run.tray.ask_leave("d"))["why"])
    assert "is not kept empty" in str(answered(run, run.tray.ask_return("b"))["why"])


class Failing(SimulatedEngine):
    """Its second move fails."""

    moves = 0

    def move(self, fragment: str, to_site: str, reached: Reached = ignored) -> MoveReport:
        self.moves += 1
        if self.moves == 2:
            raise EngineError("the fragment does not stop")
        return super().move(fragment, to_site, reached)


def test_a_site_whose_moves_fail_is_not_left(tmp_path: Path) -> None:
    engine = Failing(PROBLEM, [Constant(100.0)], np.random.default_rng(0), horizon_s=2000.0)
    run = started(tmp_path, engine=engine)
    assert answered(run, run.tray.ask_leave("b"))["state"] == "failed"
    assert run.engine.homes() == AT_FIRST
    assert run.session.journal.left_sites() == {}
    assert any("b is not emptied" in what for _, what in run.book.incidents)


def test_the_next_run_leaves_it_empty_too(tmp_path: Path) -> None:
    journal = Journal(tmp_path, lambda: 0.0)
    journal.note_placement(AT_FIRST, "by hand")
    journal.note_left("b", "ann")
    notes: list[str] = []
    resumed = begin(PROBLEM, journal, Wish("rod"), notes.append)
    assert "b" not in resumed.placement.by_fragment().values()
    assert "b is kept empty: f goes to" in notes[0]
    assert resumed.placement.by_fragment()["h"] == "c"
    planned = begin(PROBLEM, journal, Wish("rod", fresh=True))
    assert "b" not in planned.placement.by_fragment().values()
    given = Placement.from_fragments(PROBLEM, AT_FIRST)
    with pytest.raises(InputError, match="has 'f' at 'b', which is kept empty"):
        begin(PROBLEM, journal, Wish("rod", placement=lambda problem: given))


def test_what_is_bound_to_an_empty_site_is_not_started_there(tmp_path: Path) -> None:
    journal = Journal(tmp_path, lambda: 0.0)
    journal.note_left("a", "ann")
    run = started(tmp_path)
    assert run.engine.homes() == {"f": "b", "g": "b", "h": "c"}
    assert answered(run, run.tray.ask_return("a"))["state"] == "done"
    on(run, 10.0)
    assert run.engine.homes()["read"] == "a"


@pytest.mark.parametrize("policy", ["rod", "llf", "random", "optimal", "connected"])
def test_plans_go_around_a_site_that_was_left(policy: str) -> None:
    made = plan_around(PROBLEM, ["b"], plan(closed_problem(PROBLEM, ["b"]), policy))
    assert "b" not in made.placement.by_fragment().values()
    assert made.problem is PROBLEM


def test_a_compacted_journal_still_knows_which_sites_are_empty(tmp_path: Path) -> None:
    journal = Journal(tmp_path, lambda: 0.0, compact_at_bytes=2000)
    journal.note_left("a", "ann")
    journal.note_left("b", "bob")
    journal.note_returned("b", "bob")
    for _ in range(300):
        journal.append("stop", why="for the test")
    assert journal.left_sites() == {"a": "ann"}
