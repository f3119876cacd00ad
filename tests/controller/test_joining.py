"""What joins goes where there is room, moves nothing else, or is told the number that is short."""

from __future__ import annotations

from pathlib import Path

from mooring.controller.initial_placement import Beginning, Wish, begin
from mooring.controller.joining import Joined, joined
from mooring.controller.journal import Journal
from mooring.model.placement.placement import FragmentSites
from mooring.model.problem.problem import Problem
from mooring.model.problem.query import Query

WHERE = FragmentSites({"old": "a", "new": "a"})


def problem(cost_us: float, limit_ms: float | None = None) -> Problem:
    limit = {} if limit_ms is None else {"max_latency_ms": limit_ms}
    return Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1}, "b": {"capacity": 0.5}},
            "latency_ms": {"a": {"b": 40}},
            "streams": {"x": {"site": "a", "rate": 100}},
            "operators": {
                "old": {"inputs": ["x"], "cost_us": 7000},
                "new": {"inputs": ["x"], "cost_us": cost_us},
            },
            "queries": {"q": {"reads": "new", "site": "a", **limit}},
        }
    )


def join(made: Problem, lost: tuple[str, ...] = ()) -> Joined:
    query: Query = made.queries[0]
    return joined(made, WHERE, {"old"}, {"new"}, lost, query)


def test_a_fragment_that_joins_goes_where_there_is_room() -> None:
    assert join(problem(500)).sites == {"new": "a"}
    assert join(problem(2500)).sites == {"new": "b"}
    assert join(problem(2500), lost=("b",)).sites == {"new": "a"}


def test_one_that_fits_nowhere_is_rejected_with_the_cores_that_are_short() -> None:
    assert join(problem(6500)).rejected == (
        "new needs 0.65 cores, and no site has more than 0.5 left (b): 0.15 cores short"
    )


def test_one_that_would_be_late_wherever_it_goes_is_rejected_with_the_time() -> None:
    late = join(problem(3500, limit_ms=50.0))
    assert late.rejected == "it would take 80 ms where its limit is 50 ms: 30 ms too long"
    assert join(problem(2500, limit_ms=50.0)).sites == {"new": "a"}


def _begun(tmp_path: Path, cost_us: float) -> tuple[Beginning, list[str]]:
    """A run whose last placement has no fragment `new`, and one that is gone."""
    journal, notes = Journal(tmp_path, lambda: 0.0), list[str]()
    journal.note_placement(FragmentSites({"old": "b", "gone": "a"}), "before")
    return begin(problem(cost_us), journal, Wish("rod"), notes.append), notes


def test_what_is_new_in_a_project_is_placed_beside_what_ran(tmp_path: Path) -> None:
    begun, notes = _begun(tmp_path, 100.0)
    assert begun.placement.by_fragment() == {"old": "b", "new": "a"}
    assert begun.policy.startswith("the journal")
    assert notes == []


def test_where_it_fits_nowhere_a_new_plan_says_why(tmp_path: Path) -> None:
    begun, notes = _begun(tmp_path, 50_000.0)
    assert begun.policy == "rod"
    assert notes[0] == (
        "making a new plan, since what is new does not fit beside what ran: new needs 5 cores, and no site "
        "has more than 1 left (a): 4 cores short"
    )
    assert [note.startswith("This placement overloads:") for note in notes[1:]] == [True]
