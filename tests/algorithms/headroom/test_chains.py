"""Where no move and no swap helps, something leaves first; where nothing helps, it is said what would."""

from __future__ import annotations

from mooring.algorithms.headroom.decider import propose, relief
from mooring.contracts.picture import Picture, picture_of
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem


def picture(rate: float = 100.0) -> Picture:
    """`a` has two halves of .6 cores; a half fits at `b` only once `thin` has gone to `c`."""
    problem = Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1.0}, "b": {"capacity": 1.0}, "c": {"capacity": 0.5}},
            "streams": {"x": {"rate": rate}, "y": {"rate": 100}},
            "operators": {
                "half": {"inputs": ["x"], "cost_us": 6000},
                "other": {"inputs": ["x"], "cost_us": 6000, "site": "a"},
                "thin": {"inputs": ["y"], "cost_us": 3500},
                "wide": {"inputs": ["y"], "cost_us": 2000, "site": "b"},
            },
            "queries": {"of_half": {"reads": "half", "site": "a"}, "of_thin": {"reads": "thin", "site": "a"}},
        }
    )
    where = {"half": "a", "other": "a", "thin": "b", "wide": "b"}
    return picture_of(problem, Placement.from_dict(problem, where))


def test_one_fragment_makes_room_for_another_in_one_plan() -> None:
    made = relief(picture())
    assert [(each.move.fragment, each.move.to_site) for each in made.moves] == [("thin", "c"), ("half", "b")]
    assert made.plans == (2,)
    assert made.violation
    assert made.predicted.headroom > 1.0
    assert "overloaded" not in made.reason


def test_a_proposal_that_leaves_a_site_overloaded_says_what_else_would_help() -> None:
    made = propose(picture(rate=190.0))
    assert "overloaded, with" in made.reason
    assert "more cores there" in made.reason
    assert "fewer rows of x" in made.reason


def test_a_query_to_drop_is_named_where_dropping_it_is_enough() -> None:
    made = propose(picture(rate=158.0))
    assert "dropping query of_half" in made.reason
