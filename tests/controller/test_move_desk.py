"""The desk carries out exactly what was asked for, or refuses and says what runs now."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.contracts.engine import MoveReport
from mooring.controller.events import Event, MovesEnded
from mooring.controller.journal import Journal
from mooring.controller.move_desk import MoveDesk
from mooring.controller.move_list import inverse_of_last
from mooring.controller.run_state import RunState
from mooring.errors import InputError
from mooring.model.deployment.move_stages import STAGES, Reached, ignored
from mooring.model.placement.placement import FragmentSites
from mooring.model.problem.problem import Problem
from mooring.spark.runs.mailbox import FileMailbox

OLD = FragmentSites({"f": "a", "g": "a"})
PROBLEM = Problem.from_dict(
    {
        "sites": {"a": {"capacity": 1, "memory_mb": 8}, "b": {"capacity": 1, "memory_mb": 8}},
        "streams": {"x": {"rate": 1}},
        "operators": {
            "f": {"inputs": ["x"], "cost_us": 1, "memory_mb": 4},
            "g": {"inputs": ["x"], "cost_us": 1, "memory_mb": 8},
        },
    }
)


class Double:
    def __init__(self) -> None:
        self.running = dict(OLD)
        self.broken: set[str] = set()

    def homes(self) -> FragmentSites:
        return FragmentSites(dict(self.running))

    def move(self, fragment: str, to_site: str, reached: Reached = ignored) -> MoveReport:
        if fragment in self.broken:
            raise InputError("edited meanwhile")
        for stage in STAGES:
            reached(stage)
        old, self.running[fragment] = self.running[fragment], to_site
        return MoveReport(fragment, old, to_site, 0.5, 7.0)


@pytest.fixture
def desk(tmp_path: Path) -> MoveDesk:
    journal = Journal(tmp_path, lambda: 0.0)
    journal.note_placement(OLD, "planned")
    state = RunState(PROBLEM, OLD)
    return MoveDesk(state, Double(), journal, FileMailbox(tmp_path))  # type: ignore[arg-type]


def where(desk: MoveDesk) -> FragmentSites:
    return desk.engine.homes()


def serve(desk: MoveDesk) -> list[Event]:
    """As a session does; what it yields concerns others."""
    return [event for request in desk.requests() for event in (*desk.serve(request), *desk.poll())]


def asked(desk: MoveDesk, old: FragmentSites, moves: list[tuple[str, str, str]]) -> dict[str, object]:
    assert isinstance(desk.mailbox, FileMailbox)
    name = desk.mailbox.ask(old, moves)
    serve(desk)
    answer = desk.mailbox.answer(name)
    assert answer is not None
    return answer


def test_an_empty_box_changes_nothing(desk: MoveDesk) -> None:
    assert serve(desk) == []


def test_a_list_is_carried_out_and_every_move_reported(desk: MoveDesk) -> None:
    assert isinstance(desk.mailbox, FileMailbox)
    name = desk.mailbox.ask(OLD, [("g", "a", "b")])
    ended = [event for event in serve(desk) if isinstance(event, MovesEnded)]
    answer = desk.mailbox.answer(name) or {}
    assert answer["state"] == "done"
    assert answer["placement"] == {"f": "a", "g": "b"} == where(desk) == ended[0].sites
    assert answer["steps"] == [
        {"fragment": "g", "from": "a", "to": "b", "reached": "done", "pause_s": 0.5, "state_bytes": 7.0}
    ]


@pytest.mark.parametrize(
    ("old", "moves", "why"),
    [
        (OLD, [], "nothing to move"),
        (FragmentSites({"f": "b", "g": "a"}), [("g", "a", "b")], "has changed"),
        (FragmentSites({"f": "a"}), [("f", "a", "b")], "has changed"),
        (OLD, [("g", "a", "c")], "expected one of a, b"),
        (OLD, [("h", "a", "b")], "found 'h' at None"),
        (OLD, [("g", "b", "a")], "expected it at 'b'"),
        (OLD, [("g", "a", "a")], "where it is already"),
        (OLD, [("g", "a", "b"), ("f", "a", "b")], "need 12 MB"),
    ],
)
def test_what_does_not_fit_is_refused_and_moves_nothing(
    desk: MoveDesk, old: FragmentSites, moves: list[tuple[str, str, str]], why: str
) -> None:
    answer = asked(desk, old, moves)
    assert answer["state"] == "refused"
    assert answer["placement"] == OLD == where(desk)
    assert why in str(answer["why"])
    assert desk.journal.last_list() is None


def test_a_move_that_fails_is_reported_and_the_runner_goes_on(desk: MoveDesk) -> None:
    """Whoever is to blame: a flow edited meanwhile is the user's fault, and no reason to end the run."""
    desk.engine.broken.add("g")  # type: ignore[attr-defined]
    answer = asked(desk, OLD, [("f", "a", "b"), ("g", "a", "b")][1:])
    assert answer["state"] == "failed"
    assert "edited meanwhile" in str(answer["why"])
    assert where(desk) == OLD


def test_the_way_back_is_open_even_to_a_placement_that_would_not_be_planned(desk: MoveDesk) -> None:
    """Both fragments at `a` need more memory than it has: they ran there before."""
    assert asked(desk, OLD, [("g", "a", "b")])["state"] == "done"
    back = [(m.fragment, m.from_site, m.to_site) for m in inverse_of_last(desk.journal)]
    assert asked(desk, FragmentSites({"f": "a", "g": "b"}), back)["state"] == "done"
    assert where(desk) == OLD
    assert inverse_of_last(desk.journal) != []
