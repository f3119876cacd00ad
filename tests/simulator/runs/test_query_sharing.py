"""A query that comes reads what already runs, gets what it would have got, and costs less."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem
from mooring.simulator.data_plane.arrivals import Constant
from mooring.simulator.runs.adapted_run import Circumstances, run_adapted
from mooring.simulator.runs.query_sharing import equal_operators, with_stand_ins
from mooring.simulator.runs.timeline import CourseReport
from mooring.simulator.runs.variants import decided_by, never_moving

RATE = 100.0
PROBLEM: dict[str, Any] = {
    "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}, "c": {"capacity": 1}},
    "latency_ms": {"a": {"b": 10, "c": 30}, "b": {"c": 20}},
    "streams": {"x": {"rate": RATE, "site": "a", "bytes": 100}},
    "operators": {
        "parse": {"inputs": ["x"], "cost_us": 2000, "bytes": 50},
        "count": {"inputs": ["parse"], "cost_us": 1000, "bytes": 50},
        "parse_too": {"inputs": ["x"], "cost_us": 2000, "bytes": 50},
        "count_too": {"inputs": ["parse_too"], "cost_us": 1000, "bytes": 50},
        "other": {"inputs": ["parse_too"], "cost_us": 500, "bytes": 50},
    },
    "queries": {
        "first": {"reads": "count", "site": "b"},
        "second": {"reads": "count_too", "site": "c"},
        "third": {"reads": "other", "site": "c"},
    },
}
START = {"parse": "a", "count": "b", "parse_too": "b", "count_too": "c", "other": "c"}
SECOND = {"at_s": 30, "query": "second", "joins": True}
THIRD = {"at_s": 30, "query": "third", "joins": True}
LATER = {"at_s": 10_000, "query": "third", "joins": True}


def scenario(
    *changes: dict[str, Any], seconds: float = 120.0, problem: dict[str, Any] | None = None
) -> Circumstances:
    known = Problem.from_dict({**(problem or PROBLEM), "changes": list(changes)})
    start = Placement.from_dict(known, START)
    return Circumstances(known, start, known.changes, seconds, (Constant(RATE),))


def with_and_without(case: Circumstances) -> tuple[CourseReport, CourseReport]:
    return run_adapted(case, never_moving()), run_adapted(replace(case, reuse=False), never_moving())


def tuples_of(course: CourseReport) -> dict[str, int]:
    """That arrived; in the end a few are on their way, more where that is longer."""
    return {name: query.latency.tuples for name, query in course.simulated.queries.items()}


def used(course: CourseReport) -> float:
    """Cores at all sites in the end; each has one."""
    return sum(course.moments[-1].utilisation.values())


def test_a_query_that_comes_reads_the_output_that_runs_and_gets_the_same() -> None:
    shared, own = with_and_without(scenario(SECOND, LATER))
    assert [(each.query, each.operator, each.by, each.site) for each in shared.reused] == [
        ("second", "count_too", "count", "b")
    ]
    assert own.reused == ()
    assert tuples_of(shared) == pytest.approx(tuples_of(own), abs=5)
    assert tuples_of(shared)["second"] == pytest.approx(90 * RATE, rel=0.01)
    assert used(shared) == pytest.approx(0.3, abs=0.01)
    assert used(own) == pytest.approx(0.6, abs=0.01)
    assert shared.simulated.bandwidth < own.simulated.bandwidth


def test_where_only_a_part_computes_the_same_that_part_is_reused() -> None:
    shared, own = with_and_without(scenario({**SECOND, "at_s": 10_000}, THIRD))
    assert [(each.operator, each.by) for each in shared.reused] == [("parse_too", "parse")]
    assert tuples_of(shared) == pytest.approx(tuples_of(own), abs=5)
    assert used(shared) == pytest.approx(0.35, abs=0.01)
    assert used(own) == pytest.approx(0.55, abs=0.01)
    assert "third joins, and reads parse at a instead of parse_too" in [what for _, what in shared.incidents]


def test_what_is_read_stays_when_the_query_it_was_started_for_leaves() -> None:
    course = run_adapted(
        scenario(
            SECOND,
            LATER,
            {"at_s": 60, "query": "first", "leaves": True},
            {"at_s": 90, "query": "second", "leaves": True},
        ),
        never_moving(),
    )
    busy = {moment.at_s: sum(moment.utilisation.values()) for moment in course.moments}
    assert busy[85.0] == pytest.approx(0.3, abs=0.02)
    assert course.moments[-1].utilisation == pytest.approx({"a": 0, "b": 0, "c": 0}, abs=1e-9)
    assert tuples_of(course)["first"] == pytest.approx(60 * RATE, rel=0.01)
    assert tuples_of(course)["second"] == pytest.approx(60 * RATE, rel=0.01)


def test_one_that_comes_again_decides_anew() -> None:
    course = run_adapted(
        scenario(
            SECOND,
            LATER,
            {"at_s": 50, "query": "second", "leaves": True},
            {"at_s": 55, "query": "first", "leaves": True},
            {"at_s": 60, "query": "second", "joins": True},
        ),
        never_moving(),
    )
    assert [each.at_s for each in course.reused] == [30.0]  # at 60 s nothing equal runs
    assert tuples_of(course)["second"] == pytest.approx(80 * RATE, rel=0.02)


@pytest.mark.parametrize(
    ("operators", "queries"),
    [
        ({"count_too": {**PROBLEM["operators"]["count_too"], "reuse": False}}, {}),
        ({}, {"second": {**PROBLEM["queries"]["second"], "max_latency_ms": 31}}),
    ],
    ids=["sharing is forbidden", "its limit would break"],
)
def test_a_query_runs_its_own_where_it_must(operators: dict[str, object], queries: dict[str, object]) -> None:
    problem = {
        **PROBLEM,
        "operators": {**PROBLEM["operators"], **operators},
        "queries": {**PROBLEM["queries"], **queries},
        "latency_ms": {"a": {"b": 10, "c": 30}, "b": {"c": 25}},
    }
    start = {**START, "parse_too": "a"}
    case = scenario(SECOND, LATER, problem=problem)
    case = replace(case, start=Placement.from_dict(case.problem, start))
    assert "count_too" not in {each.operator for each in run_adapted(case, never_moving()).reused}


@pytest.mark.parametrize("decider", ["headroom", "replan", "relaxation", "overlay"])
def test_deciders_go_on_with_what_is_shared(decider: str) -> None:
    """What stands in is loaded as before and read by more; deciders see it so."""
    course = run_adapted(scenario(SECOND, LATER, seconds=240.0), decided_by(decider))
    assert len(course.reused) == 1
    assert tuples_of(course)["second"] == pytest.approx(210 * RATE, rel=0.03)
    assert course.moments[-1].headroom > 1.0


def test_only_operators_of_queries_that_come_are_looked_at() -> None:
    case = scenario(SECOND)
    assert equal_operators(case.problem, case.changes) == {"parse_too": ("parse",), "count_too": ("count",)}
    assert equal_operators(case.problem, ()) == {}


def test_readers_read_the_stand_in() -> None:
    problem = with_stand_ins(Problem.from_dict(PROBLEM), {"count_too": "count", "parse_too": "parse"})
    assert {query.name: query.reads for query in problem.queries}["second"] == "count"
    assert {each.name: each.inputs for each in problem.operators}["other"] == ("parse",)
