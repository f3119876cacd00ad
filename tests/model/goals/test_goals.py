"""Hard goals are kept by every policy or refused by name, and an impossible set is told by a smallest one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import msgspec
import numpy as np
import pytest

import mooring
from mooring.errors import ConflictError, InputError, InputErrors, UnsupportedError
from mooring.model.goals.conflicts import conflict, possible
from mooring.model.load.build import build_load_model
from mooring.model.placement.checker import violations
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem
from mooring.model.problem.write import problem_to_data


def data(**changed: Any) -> dict[str, Any]:
    return {
        "sites": {
            "a": {"capacity": 1, "labels": ["eu"], "resources": {"slots": 2}},
            "b": {"capacity": 1, "resources": {"slots": 2}},
            "c": {"capacity": 1, "labels": ["eu"], "resources": {"slots": 1}},
        },
        "latency_ms": {"a": {"b": 10, "c": 20}, "b": {"c": 15}},
        "streams": {
            "x": {"rate": 100, "site": "a", "bytes": 100},
            "y": {"rate": 100, "site": "b", "bytes": 100},
        },
        "operators": {
            "f": {"inputs": ["x"], "cost_us": 1000, "needs": {"slots": 1}},
            "g": {"inputs": ["y"], "cost_us": 2000, "needs": {"slots": {"per_tuple": 0.01}}},
            "h": {"inputs": ["f", "g"], "cost_us": 500, "needs": {"slots": 1}},
            "k": {"inputs": ["x"], "cost_us": 3000},
        },
        "queries": {"q": {"reads": "h", "site": "c", "max_latency_ms": 60}},
        **changed,
    }


GOALS = {
    "apart": [["f", "g"]],
    "together": [["h", "k"]],
    "allowed": {"f": ["eu"]},
    "excluded": {"g": ["b"]},
    "limits": ["latency"],
    "reserve": 0.1,
}


def wrong_with(problem: Problem, **sites: str) -> list[str]:
    return violations(problem, build_load_model(problem), Placement.from_dict(problem, sites))


@pytest.mark.parametrize(
    ("goals", "sites", "words"),
    [
        ({"apart": [["f", "g"]]}, "aabc", "'f' and 'g' are to be apart, and are both at 'a'"),
        ({"together": [["f", "g"]]}, "abac", "'f', 'g' are to be together, and are at 'a', 'b'"),
        ({"allowed": {"f": ["eu"]}}, "baca", "operator 'f' is allowed only at eu, and is at 'b'"),
        ({"excluded": {"g": ["b"]}}, "abca", "operator 'g' is excluded from b, and is at 'b'"),
        ({"reserve": 0.75}, "abac", "may use 25% of its cores, and uses"),
        ({"limits": ["latency"]}, "cbac", "query 'q' may take 60 ms"),
    ],
)
def test_the_checker_tells_a_broken_goal(goals: dict[str, Any], sites: str, words: str) -> None:
    operators = dict(zip("fghk", sites, strict=True))
    queries = {"q": {"reads": "h", "site": "c", "max_latency_ms": 39}} if "limits" in goals else {}
    problem = Problem.from_dict(data(goals=goals, queries=queries))
    words = words.replace("60 ms", "39 ms")
    assert any(words in each for each in wrong_with(problem, **operators)), wrong_with(problem, **operators)


def test_the_checker_tells_resources_and_critical_queries() -> None:
    problem = Problem.from_dict(data(queries={"q": {"reads": "h", "site": "c", "critical": True}}))
    found = wrong_with(problem, f="c", g="c", h="b", k="b")
    assert "site 'c' has 1 slots, and its fragments take 2" in found
    assert any("query 'q' is critical, and 'k', which it does not need" in each for each in found)


@pytest.mark.parametrize("policy", ["relaxation", "descent", "resilient"])
def test_policies_keep_all_goals(policy: str) -> None:
    problem = Problem.from_dict(data(goals=GOALS))
    made = mooring.plan(problem, policy, steps=2000)
    assert wrong_with(problem, **made.placement.as_dict()) == []


def test_a_baseline_is_refused_by_name_where_its_plan_breaks_a_goal() -> None:
    with pytest.raises(UnsupportedError, match="policy rod takes no account of goals"):
        mooring.plan(Problem.from_dict(data(goals={**GOALS, "excluded": {"g": ["b"], "k": ["c"]}})), "rod")


def test_goals_that_exclude_each_other_are_told_and_nothing_else() -> None:
    goals = {
        "apart": [["f", "g"], ["g", "h"]],
        "together": [["h", "k"]],
        "allowed": {"f": ["a"], "k": ["a"], "g": ["a", "c"], "h": ["eu"]},
        "excluded": {"g": ["c"]},
    }
    with pytest.raises(ConflictError) as told:
        mooring.plan(Problem.from_dict(data(goals=goals)), "rod")
    fields = {field for field, _ in told.value.goals}
    assert fields == {
        "goals.allowed.k",
        "goals.allowed.g",
        "goals.excluded.g",
        "goals.apart[1]",
        "goals.together[0]",
    }
    assert "h, k are together (goals.together[0])" in str(told.value)


def drawn(rng: np.random.Generator) -> Problem:
    """Few operators with random goals, of which about half cannot be kept."""
    names = list("fghk")

    def some(count: int) -> list[str]:
        return [str(each) for each in rng.choice(names, count, replace=False)]

    goals: dict[str, Any] = {
        "apart": [some(2) for _ in range(rng.integers(1, 4))],
        "together": [some(2) for _ in range(rng.integers(0, 2))],
        "allowed": {name: [str(rng.choice(["eu", "a", "b"]))] for name in some(int(rng.integers(1, 4)))},
        "reserve": float(rng.uniform(0.0, 0.7)),
        "limits": ["latency"],
    }
    limit = float(rng.uniform(15.0, 50.0))
    return Problem.from_dict(
        data(goals=goals, queries={"q": {"reads": "h", "site": "c", "max_latency_ms": limit}})
    )


def by_trying_all(problem: Problem) -> bool:
    model = build_load_model(problem)
    every = product(range(len(problem.sites)), repeat=len(problem.fragments))
    return any(not violations(problem, model, Placement(problem, np.array(sites))) for sites in every)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_possible_is_what_trying_all_placements_finds(seed: int) -> None:
    problem = drawn(np.random.default_rng(seed))
    expected = by_trying_all(problem)
    assert possible(problem) is expected
    found = conflict(problem)
    assert (found is None) is expected
    for each in found or ():
        others = [other for other in found or () if other is not each]
        left = only(problem, others)
        assert possible(left)
        assert by_trying_all(left)


def only(problem: Problem, kept: Any) -> Problem:
    """The problem with these goals alone."""
    from mooring.model.goals.conflicts import stated

    fields = {each.field for each in kept}
    for each in reversed(list(stated(problem))):  # so that numbers of groups stay what they are
        if each.field not in fields:
            problem = each.without(problem)
    return problem


def test_goals_are_written_as_they_were_read() -> None:
    stated: Mapping[str, Any] = data(goals={**GOALS, "prefer": {"latency": 2, "price": 1}})
    problem = Problem.from_dict(stated)
    again = Problem.from_dict(problem_to_data(problem))
    assert again.goals == problem.goals
    assert [o.needs for o in again.operators] == [o.needs for o in problem.operators]


@pytest.mark.parametrize(
    ("goals", "words"),
    [
        ({"appart": []}, "did you mean 'apart'"),
        ({"apart": [["f", "gg"]]}, "goals.apart[0]"),
        ({"apart": [["f"]]}, "two operators or more"),
        ({"allowed": {"f": ["europe"]}}, "a site or the label of one"),
        ({"reserve": 1.5}, "a share from 0 to below 1"),
        ({"limits": ["latencies"]}, "did you mean 'latency'"),
        ({"prefer": {"latenzy": 1}}, "did you mean 'latency'"),
        ({"prefer": {"latency": 0}}, "a preference with a weight above 0"),
    ],
)
def test_wrong_goals_are_refused_with_field_and_remedy(goals: Any, words: str) -> None:
    with pytest.raises((InputError, InputErrors)) as refused:
        Problem.from_dict(data(goals=goals))
    assert words in str(refused.value)


def test_a_resource_is_one_more_set_of_planes() -> None:
    operators = {"f": {"inputs": ["x"], "cost_us": 1000}, "g": {"inputs": ["y"], "cost_us": 1000}}
    bare = Problem.from_dict(data(operators=operators, queries={}))
    limited = replace(
        bare,
        operators=tuple(
            msgspec.structs.replace(each, needs={"slots": mooring_need(0.002)}) for each in bare.operators
        ),
    )
    sites = {"f": "a", "g": "b"}
    before = mooring.evaluate(bare, sites).feasible_ratio
    after = mooring.evaluate(limited, sites).feasible_ratio
    # With 2 slots and 0.002 of them per tuple a site carries 1,000 tuples per second, as with its core.
    assert before == pytest.approx(after)
    halved = replace(
        limited,
        sites=tuple(msgspec.structs.replace(each, resources={"slots": 1.0}) for each in limited.sites),
    )
    assert (mooring.evaluate(halved, sites).feasible_ratio or 0.0) < 0.6 * (before or 0.0)


def mooring_need(per_tuple: float) -> Any:
    from mooring.model.problem.goals import Need

    return Need(per_tuple=per_tuple)
