"""A plan for what runs already moves no more than it may, and never what is not movable."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.model.load.build import build_load_model
from mooring.model.load.feasible.feasible_set import FeasibleSet
from mooring.model.placement.limited_moves import limit_moves
from mooring.model.placement.placement import Placement
from mooring.model.problem.generate import GraphParameters, generate_problem
from mooring.model.problem.problem import Problem
from mooring.planning import plan


@pytest.fixture(scope="module")
def problem() -> Problem:
    return generate_problem(GraphParameters(operators=30, sites=4), np.random.default_rng(3))


@pytest.fixture(scope="module")
def running(problem: Problem) -> Placement:
    return plan(problem, "connected").placement


def moved(before: Placement, after: Placement) -> int:
    return int(np.sum(before.site_of_fragment != after.site_of_fragment))


@pytest.mark.parametrize("max_moves", [0, 1, 5, 30])
def test_no_more_fragments_move_than_allowed(problem: Problem, running: Placement, max_moves: int) -> None:
    after = plan(problem, "rod", current=running, max_moves=max_moves).placement
    assert moved(running, after) <= max_moves


def test_every_move_that_is_made_is_one_the_policy_wanted(problem: Problem, running: Placement) -> None:
    wanted = plan(problem, "rod").placement
    after = limit_moves(build_load_model(problem), running, wanted, 6)
    changed = after.site_of_fragment != running.site_of_fragment
    assert changed.sum() == 6
    assert np.array_equal(after.site_of_fragment[changed], wanted.site_of_fragment[changed])


def test_a_few_moves_already_enlarge_the_feasible_set(problem: Problem, running: Placement) -> None:
    model = build_load_model(problem)
    ratios = [
        FeasibleSet.of(model, plan(problem, "rod", current=running, max_moves=n).placement.site_of_fragment)
        .ratio()
        .value
        for n in (0, 3, 8)
    ]
    assert ratios[0] < ratios[1] < ratios[2]


def test_an_allowance_that_suffices_changes_nothing_about_the_plan(
    problem: Problem, running: Placement
) -> None:
    assert plan(problem, "rod", current=running, max_moves=30).placement == plan(problem, "rod").placement


@pytest.mark.parametrize("policy", ["rod", "random", "llf", "connected", "correlation"])
def test_what_is_not_movable_stays_where_it_runs(policy: str) -> None:
    problem = Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
            "streams": {"x": {"rate": 10}},
            "operators": {
                name: {"inputs": ["x"], "cost_us": 10, "movable": name not in ("o1", "o2")}
                for name in ("o0", "o1", "o2", "o3")
            },
        }
    )
    running = Placement.from_dict(problem, dict.fromkeys(("o0", "o1", "o2", "o3"), "b"))
    after = plan(problem, policy, current=running).placement.as_dict()
    assert (after["o1"], after["o2"]) == ("b", "b")
