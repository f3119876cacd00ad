"""Changes are read, refused by name where they make no sense, unfolded over time, and written back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.errors import InputError
from mooring.model.problem.changes.change import Changes, RateChange, SiteLoss, in_words
from mooring.model.problem.changes.schedule import absent_at_first, instants, rate_course, turns
from mooring.model.problem.files import load_changes, load_problem
from mooring.model.problem.fingerprint import fingerprint
from mooring.model.problem.problem import Problem
from mooring.model.problem.write import problem_to_data, problem_to_yaml

BASE: dict[str, Any] = {
    "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
    "latency_ms": {"a": {"b": 10}},
    "streams": {"x": {"rate": 100}, "y": {"rate": 5}},
    "operators": {"f": {"inputs": ["x"], "cost_us": 50}},
    "queries": {"top": {"reads": "f", "site": "b"}},
}


def changed(*changes: dict[str, Any]) -> Changes:
    return Problem.from_dict({**BASE, "changes": list(changes)}).changes


def test_changes_are_put_into_the_order_of_their_times() -> None:
    found = changed(
        {"at_s": 9, "site": "b", "lost": True},
        {"at_s": 1, "stream": "x", "rate": 7, "over_s": 2, "for_s": 5},
        {"at_s": 3, "link": ["a", "b"], "latency_ms": 300, "for_s": 60},
        {"at_s": 4, "site": "a", "capacity": 0.4},
        {"at_s": 5, "query": "top", "leaves": True},
        {"at_s": 6, "query": "top", "joins": True},
    )
    assert [change.at_s for change in found] == [1, 3, 4, 5, 6, 9]
    assert in_words(found[-1]) == "site b lost for good"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"at_s": 1}, "expected one of stream, link, site, query"),
        ({"stream": "x", "rate": 1}, "the time of the change in seconds"),
        ({"at_s": 1, "stream": "z", "rate": 1}, "expected a stream"),
        ({"at_s": 1, "stream": "x"}, "expected one of rate, rates"),
        ({"at_s": 1, "stream": "x", "rate": 1, "capacity": 2}, "only at_s, stream, rate"),
        ({"at_s": 1, "stream": "x", "rate": 1, "over_s": 9, "for_s": 3}, "at least over_s, 9"),
        ({"at_s": 1, "stream": "x", "rates": [[0, 1], [0, 2]]}, "seconds that increase"),
        ({"at_s": 1, "link": ["a", "a"], "latency_ms": 1}, "two different sites"),
        ({"at_s": 1, "site": "a", "capacity": 0}, "above zero"),
        ({"at_s": 1, "site": "a", "lost": False}, "expected true"),
        ({"at_s": -1, "site": "a", "lost": True}, "not negative"),
        ({"at_s": 1, "query": "tip", "leaves": True}, "did you mean 'top'"),
        ({"at_s": 1, "site": "a", "losd": True}, "did you mean 'lost'"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(entry: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=r"changes\[0\]") as error:
        changed(entry)
    assert said in str(error.value)


@pytest.mark.parametrize(
    "pair",
    [
        ({"at_s": 1, "site": "a", "lost": True}, {"at_s": 50, "site": "a", "lost": True}),
        ({"at_s": 1, "stream": "x", "rate": 2, "for_s": 9}, {"at_s": 5, "stream": "x", "rate": 1}),
        ({"at_s": 1, "query": "top", "leaves": True}, {"at_s": 5, "query": "top", "leaves": True}),
        ({"at_s": 1, "stream": "x", "rate": 2}, {"at_s": 1, "stream": "x", "rate": 1}),
    ],
)
def test_two_changes_of_one_thing_at_once_are_refused(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    with pytest.raises(InputError, match=r"changes\[1\]"):
        changed(*pair)


def test_a_latency_cannot_change_where_none_is_stated() -> None:
    plain = {key: value for key, value in BASE.items() if key != "latency_ms"}
    entry = {"at_s": 1, "link": ["a", "b"], "latency_ms": 5}
    with pytest.raises(InputError, match="give it latency_ms"):
        Problem.from_dict({**plain, "changes": [entry]})


def test_a_change_that_ends_by_itself_has_two_turns() -> None:
    lost = SiteLoss(at_s=5, site="a", for_s=10)
    assert [(turn.at_s, turn.begins) for turn in turns((lost,))] == [(5, True), (15, False)]


def test_the_course_of_a_rate_has_steps_ramps_and_ways_back() -> None:
    course = rate_course(
        changed(
            {"at_s": 10, "stream": "x", "rate": 200, "for_s": 10},
            {"at_s": 30, "stream": "x", "rate": 300, "over_s": 10},
            {"at_s": 50, "stream": "x", "rates": [[0, 1], [5, 2]]},
            {"at_s": 0, "stream": "y", "rate": 99},
        ),
        "x",
        100.0,
    )
    at = {0: 100, 9.9: 100, 10: 200, 19.9: 200, 20: 100, 35: 200, 40: 300, 52: 1, 1000: 2}
    assert {second: course.rate_at(second) for second in at} == pytest.approx(at)
    assert course.mean(30.0, 40.0) == pytest.approx(200.0)


def test_a_query_whose_first_change_is_to_join_is_not_there_at_first() -> None:
    assert absent_at_first(changed({"at_s": 5, "query": "top", "joins": True})) == {"top"}
    assert not absent_at_first(changed({"at_s": 5, "query": "top", "leaves": True}))


def test_instants_close_together_count_once() -> None:
    steps = changed({"at_s": 10, "stream": "x", "rates": [[k, 1.0] for k in range(100)]})
    assert instants(steps, least_gap_s=60.0) == [10, 70]


def test_changes_lie_in_the_problem_or_in_a_file_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(problem_to_yaml(Problem.from_dict(BASE)))
    (tmp_path / "past.csv").write_text("time_s,x\n0,10\n60,30\n")
    (tmp_path / "c.yaml").write_text("changes:\n  - {at_s: 5, stream: x, rates: past.csv}\n")
    problem = load_problem(tmp_path / "p.yaml")
    (replay,) = load_changes(tmp_path / "c.yaml", problem)
    assert rate_course((replay,), "x", 1.0).rate_at(65.0) == 30.0
    (tmp_path / "wrong.yaml").write_text("- {at_s: 5, stream: x, rates: gone.csv}\n")
    with pytest.raises(InputError, match=r"wrong.yaml"):
        load_changes(tmp_path / "wrong.yaml", problem)


def test_no_plan_is_made_for_changes_so_they_have_no_part_in_the_fingerprint() -> None:
    lost = {"at_s": 5, "site": "a", "lost": True}
    assert fingerprint(Problem.from_dict({**BASE, "changes": [lost]})) == fingerprint(Problem.from_dict(BASE))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.builds(
            lambda at_s, rate, over_s: {"at_s": at_s, "stream": "x", "rate": rate, "over_s": over_s},
            st.integers(0, 50).map(lambda k: 10.0 * k),
            st.floats(0, 1e6),
            st.floats(0, 10),
        ),
        unique_by=lambda entry: entry["at_s"],
    )
)
def test_what_is_written_reads_back_as_the_same_changes(entries: list[dict[str, Any]]) -> None:
    problem = Problem.from_dict(
        {
            **BASE,
            "changes": [
                *entries,
                {"at_s": 7.5, "link": ["a", "b"], "latency_ms": 3},
                {"at_s": 8, "site": "a", "lost": True, "for_s": 3},
                {"at_s": 8, "query": "top", "leaves": True},
                {"at_s": 8, "stream": "y", "rates": [[0, 1.5], [2, 3]]},
            ],
        }
    )
    assert Problem.from_dict(problem_to_data(problem)).changes == problem.changes
    assert isinstance(problem.changes, tuple)
    assert all(change.at_s <= 500 for change in problem.changes if isinstance(change, RateChange))
