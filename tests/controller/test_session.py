"""One session drives both engines: the same steps over the simulator and over Spark end alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mooring.contracts.decider import Proposal
from mooring.contracts.engine import Trouble
from mooring.contracts.picture import Picture
from mooring.controller.cycle import Look
from mooring.controller.initial_placement import Wish, begin
from mooring.controller.journal import Journal
from mooring.controller.session import SessionOptions
from mooring.errors import EngineError
from mooring.model.deployment.moves import Move
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.problem import Problem
from mooring.simulator.data_plane.arrivals import Constant
from mooring.simulator.data_plane.engine import SimulatedEngine
from mooring.simulator.runs.simulated_run import SimulatedRun, simulated_run

PATIENCE_S = 120.0
PROBLEM = Problem.from_dict(
    {
        "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
        "streams": {"x": {"site": "a", "rate": 100}},
        "operators": {
            "read": {"inputs": ["x"], "cost_us": 2000, "site": "a"},
            "f": {"inputs": ["read"], "cost_us": 3500},
            "g": {"inputs": ["read"], "cost_us": 3400},
        },
        "queries": {"q": {"reads": "f", "site": "a"}},
    }
)
ALL_AT_A = FragmentSites({"read": "a", "f": "a", "g": "a"})


def simulated(folder: Path, rate: float = 100.0) -> SimulatedRun:
    engine = SimulatedEngine(PROBLEM, [Constant(rate)], np.random.default_rng(0), horizon_s=1000.0)
    run = simulated_run(engine, folder, Wish("rod"), options=SessionOptions(look_s=2.0))
    run.session.start(Placement.from_fragments(PROBLEM, ALL_AT_A), "by hand")
    return run


def test_rates_near_the_edge_lead_to_a_proposal_that_the_desk_carries_out(tmp_path: Path) -> None:
    run = simulated(tmp_path)
    looks: list[Look] = []
    run.session.watchers.append(looks.append)
    run.session.run(lambda passed: passed >= 10.0)
    proposal = looks[-1].proposal
    assert proposal is not None
    assert proposal.now.headroom == pytest.approx(1 / 0.89, rel=0.05)
    assert proposal.now.bottleneck == "a"
    (move,) = (each.move for each in proposal.moves)
    assert move == Move("f", "a", "b")
    assert "moving f to b" in proposal.reason
    name = run.tray.ask(ALL_AT_A, [move])
    run.session.run(lambda passed: passed >= 20.0)
    answer = run.tray.answer(name)
    assert answer is not None
    assert answer["state"] == "done"
    after = FragmentSites({"read": "a", "f": "b", "g": "a"})
    assert run.session.journal.placement() == after == run.book.sites
    later = looks[-1].proposal
    assert later is not None
    assert later.moves == ()
    assert later.now.headroom == pytest.approx(proposal.predicted.headroom, rel=0.05)
    (pause,) = run.session.adaptation.ledger.pauses  # somebody's list, and still held to what was predicted
    assert (pause.fragment, pause.moved_as, pause.held) == (move.fragment, "stateless", True)


def test_what_was_proposed_some_looks_ago_is_still_held_to_its_promise(tmp_path: Path) -> None:
    """Who asks for a proposal has seen it at an earlier look than the run's last one."""
    run = simulated(tmp_path)
    looks: list[Look] = []
    run.session.watchers.append(looks.append)
    run.session.run(lambda passed: passed >= 10.0)
    proposed = looks[-1].proposal
    assert proposed is not None

    class Content:
        name = "content"

        def decide(self, picture: Picture) -> Proposal:
            return Proposal(picture.predict(picture.sites), (), "all is well")

    run.session.adaptation.decider = Content()
    run.session.run(lambda passed: passed >= 14.0)
    run.tray.ask(ALL_AT_A, [each.move for each in proposed.moves])
    run.session.run(lambda passed: passed >= 20.0)
    (entry,) = run.session.adaptation.ledger.entries
    assert entry.moves == tuple(each.move for each in proposed.moves)
    assert entry.promised.predicted.headroom == pytest.approx(proposed.predicted.headroom, rel=0.05)


def test_before_the_first_rows_have_come_there_is_no_headroom_and_later_no_limit(tmp_path: Path) -> None:
    """Costs may be known from earlier runs; the first batches take a while all the same."""
    run = simulated(tmp_path, rate=0.0)
    run.session.run(lambda passed: passed >= 10.0)
    assert run.session.adaptation.headroom.missing == "no rows have come since the start"
    run.session.run(lambda passed: passed >= 30.0)
    assert run.session.adaptation.headroom.idle_streams == ["x"]


def test_the_observation_holds_what_was_measured_and_not_what_is_true(tmp_path: Path) -> None:
    """The stream brings three times what the problem states; the decider is shown what came."""
    run = simulated(tmp_path, rate=30.0)
    seen: list[Picture] = []

    class Spy:
        name = "spy"

        def decide(self, picture: Picture) -> Proposal:
            seen.append(picture)
            return Proposal(picture.predict(picture.sites), (), "spying")

    run.session.adaptation.decider = Spy()
    run.session.run(lambda passed: passed >= 30.0)
    assert seen[-1].rates[0] == pytest.approx(30.0, rel=0.1)
    assert seen[-1].placement.by_fragment() == ALL_AT_A
    assert run.book.looks[-1][1]["adapting"] == {
        "decider": "spy",
        "act": "propose",
        "ordered": [],
        "why": "spying",
        "statistics": "as the problem states them",
        "calibration": {"cost_factors": {}, "fixed_cores": {}, "pairs": {}},
        "estimated_capacity_cores": {},
        "control": None,
        "ledger": [],
        "pauses": [],
    }


def test_what_happens_is_dated_by_the_clock_of_the_looks_however_long_a_site_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Starting takes a while, and so does asking a site that does not answer: neither is left out of account
    in one place and counted in the other.
    """
    engine = SimulatedEngine(PROBLEM, [Constant(100.0)], np.random.default_rng(0), horizon_s=1000.0)
    run = simulated_run(engine, tmp_path, Wish("rod"), options=SessionOptions(look_s=2.0))
    start_all, dead_sites, clock = engine.start_all, engine.dead_sites, run.session.clock

    def slow_start(sites: FragmentSites) -> None:
        start_all(sites)
        clock.sleep(21.0)

    def slow_look() -> list[Trouble]:
        clock.sleep(20.0)
        return dead_sites()

    monkeypatch.setattr(engine, "start_all", slow_start)
    monkeypatch.setattr(engine, "dead_sites", slow_look)
    run.session.start(Placement.from_fragments(PROBLEM, ALL_AT_A), "by hand")
    engine.lose_site("a")
    run.session.turn()
    (at_s,) = (at_s for at_s, what in run.book.incidents if "the site a is lost" in what)
    assert at_s == pytest.approx(41.0)


def test_fragments_of_a_lost_site_go_on_elsewhere_and_the_run_says_so(tmp_path: Path) -> None:
    run = simulated(tmp_path)
    run.session.run(lambda passed: passed >= 5.0)
    moved = run.tray.ask(ALL_AT_A, [Move("f", "a", "b"), Move("g", "a", "b")])
    run.session.run(lambda passed: passed >= 10.0)
    assert (run.tray.answer(moved) or {})["state"] == "done"
    run.engine.lose_site("b")
    run.session.run(lambda passed: passed >= 20.0)
    assert run.engine.homes() == ALL_AT_A
    assert run.session.troubles().keys() == {"site b"}
    assert run.session.journal.placement() == ALL_AT_A
    assert any("the site b is lost" in what for _, what in run.book.incidents)
    run.engine.give_back("b")
    run.session.run(lambda passed: passed >= 25.0)
    assert run.session.troubles() == {}


def test_a_pinned_fragment_waits_for_its_site(tmp_path: Path) -> None:
    run = simulated(tmp_path)
    run.session.run(lambda passed: passed >= 5.0)
    run.engine.lose_site("a")
    run.session.run(lambda passed: passed >= 10.0)
    assert run.engine.homes() == {"f": "b", "g": "b"}
    assert run.session.troubles()["read"].startswith("waiting")
    run.engine.give_back("a")
    run.session.run(lambda passed: passed >= 15.0)
    assert run.engine.homes() == {"read": "a", "f": "b", "g": "b"}
    before = run.engine.batches()["f"]
    run.session.run(lambda passed: passed >= 20.0)
    assert run.engine.batches()["f"] > before


def test_a_run_begins_with_what_is_asked_for_else_where_the_last_one_was(tmp_path: Path) -> None:
    journal = Journal(tmp_path, lambda: 0.0)
    planned = begin(PROBLEM, journal, Wish("rod"))
    assert planned.policy == "rod"
    journal.note_placement(ALL_AT_A, "by hand")
    resumed = begin(PROBLEM, journal, Wish("rod"))
    assert resumed.placement.by_fragment() == ALL_AT_A
    assert "as the last run had it" in resumed.policy
    assert begin(PROBLEM, journal, Wish("rod", policy="llf")).policy == "llf"
    assert begin(PROBLEM, journal, Wish("rod", fresh=True)).policy == "rod"
    given = Placement.from_fragments(PROBLEM, FragmentSites({"read": "a", "f": "b", "g": "b"}))
    asked = begin(PROBLEM, journal, Wish("rod", placement=lambda problem: given, placement_name="plan p"))
    assert asked.placement == given
    notes: list[str] = []
    journal.note_placement(FragmentSites({"read": "b", "f": "a", "g": "a"}), "before it was pinned")
    assert begin(PROBLEM, journal, Wish("rod"), notes.append).policy == "rod"
    assert "violates the problem" in notes[0]


def test_a_journal_that_cannot_be_written_is_said_and_written_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = simulated(tmp_path)
    run.session.run(lambda passed: passed >= 5.0)
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "append", full_disk)
        run.engine.lose_site("a")
        run.session.run(lambda passed: passed >= 10.0)
    assert run.engine.homes() == {"f": "b", "g": "b"}
    assert any("No space left" in what for _, what in run.book.incidents)
    assert run.session.journal.placement() == ALL_AT_A
    run.session.run(lambda passed: passed >= 12.0)
    assert run.session.journal.placement() == FragmentSites({"read": "a", "f": "b", "g": "b"})


def full_disk(journal: Journal, kind: str, **fields: object) -> None:
    raise EngineError("the journal cannot be written: No space left on device")


def test_requests_that_cannot_be_read_end_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable() -> None:
        raise PermissionError("requests")

    run = simulated(tmp_path)
    monkeypatch.setattr(run.tray, "take", unreadable)
    run.session.run(lambda passed: passed >= 5.0)
    assert [what for _, what in run.book.incidents] == ["answering requests failed: requests"]


def test_a_lost_site_is_listed_with_what_it_affects_and_what_happened_until_it_is_back(
    tmp_path: Path,
) -> None:
    run = simulated(tmp_path)
    run.session.run(lambda passed: passed >= 6.0)
    run.engine.lose_site("a", "its machine is lost")
    run.session.run(lambda passed: passed >= 12.0)
    listed = run.book.looks[-1][1]["trouble_list"]
    assert isinstance(listed, list)
    site, fragment = listed
    assert (site["kind"], site["what"]) == ("site lost", "a")
    assert "its machine is lost" in site["why"]
    assert site["affects"] == ["q"]
    assert "mooring logs PROJECT --site a" in site["remedy"]
    assert (fragment["kind"], fragment["what"], fragment["affects"]) == ("waiting", "read", ["q"])
    assert 4.0 <= site["since_s"] <= 10.0
    run.engine.give_back("a")
    run.session.run(lambda passed: passed >= 20.0)
    remarks = run.book.looks[-1][1]
    assert remarks["trouble_list"] == []
    assert [each["what"] for each in remarks["incidents"]] == [  # type: ignore[attr-defined]
        "the site a is lost: the site 'a' is lost: its machine is lost",
        "read waits for its site a",
        "f goes from a to b",
        "g goes from a to b",
        "the site a is back",
    ]
    assert remarks["restarts"] == {"read": 1, "f": 1, "g": 1}
    relocated = [each for each in run.session.journal.records() if each.get("sites")]
    assert [each["sites"] for each in relocated] == [{"f": "b", "g": "b"}, {"read": "a"}]
