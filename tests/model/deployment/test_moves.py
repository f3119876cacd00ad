"""A list of moves leads exactly to its target, over allowed placements only, and says no where none does."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.errors import InfeasibleError, InputError
from mooring.model.deployment.move_times import MoveTimes
from mooring.model.deployment.moves import (
    Figures,
    apply_moves,
    moves_fingerprint,
    ordered_moves,
)
from mooring.model.evaluation.metrics import utilisation
from mooring.model.load.build import build_load_model
from mooring.model.placement.checker import violations
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.problem import Problem


def problem_of(memory_mb: list[int], cost_us: list[int], site_memory_mb: int) -> Problem:
    return Problem.from_dict(
        {
            "sites": {site: {"capacity": 1, "memory_mb": site_memory_mb} for site in "abc"},
            "streams": {"x": {"rate": 1000}},
            "operators": {
                f"f{n}": {"inputs": ["x"], "cost_us": cost, "memory_mb": memory, "kind": "aggregate"}
                for n, (memory, cost) in enumerate(zip(memory_mb, cost_us, strict=True))
            },
        }
    )


Case = tuple[Problem, FragmentSites, FragmentSites]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    size = draw(st.integers(1, 5))
    memory = draw(st.lists(st.integers(1, 6), min_size=size, max_size=size))
    cost = draw(st.lists(st.integers(1, 400), min_size=size, max_size=size))
    site = st.lists(st.sampled_from("abc"), min_size=size, max_size=size)
    old, new = draw(site), draw(site)
    needed = [
        sum(m for m, at in zip(memory, sites, strict=True) if at == s) for s in "abc" for sites in (old, new)
    ]
    problem = problem_of(memory, cost, max(needed) + draw(st.integers(0, 3)))
    names = problem.fragment_names
    start, goal = (FragmentSites(dict(zip(names, sites, strict=True))) for sites in (old, new))
    return problem, start, goal


def is_allowed(problem: Problem, sites: FragmentSites) -> bool:
    return not violations(problem, build_load_model(problem), Placement.from_fragments(problem, sites))


@given(cases())
@settings(max_examples=80, deadline=None)
def test_the_list_gives_exactly_the_target_over_allowed_placements(case: Case) -> None:
    problem, old, new = case
    differing = [name for name in old if old[name] != new[name]]
    try:
        found = ordered_moves(problem, old, new)
    except InfeasibleError:
        for order in itertools.permutations(differing):
            at, fine = dict(old), True
            for name in order:
                at[name] = new[name]
                fine = fine and is_allowed(problem, FragmentSites(at))
            assert not fine, f"the order {order} would have done"
        return
    assert sorted(move.fragment for move in found.moves) == sorted(differing)
    for upto in range(len(found.moves) + 1):
        assert is_allowed(problem, apply_moves(old, found.moves[:upto]))
    assert apply_moves(old, found.moves) == new
    back = [move.inverse() for move in reversed(found.moves)]
    assert apply_moves(new, back) == old


@given(cases())
@settings(max_examples=30, deadline=None)
def test_the_predicted_effect_is_that_of_the_placement_reached(case: Case) -> None:
    problem, old, new = case
    try:
        found = ordered_moves(problem, old, new)
    except InfeasibleError:
        return
    model = build_load_model(problem)
    for upto, step in enumerate(found.steps, start=1):
        reached = Placement.from_fragments(problem, apply_moves(old, found.moves[:upto]))
        assert step.after.max_utilisation == pytest.approx(np.max(utilisation(model, reached)))


def test_a_move_that_makes_room_comes_before_one_that_needs_it() -> None:
    problem = problem_of([4, 4, 1], [300, 300, 300], site_memory_mb=5)
    old, new = (
        FragmentSites({"f0": "a", "f1": "b", "f2": "a"}),
        FragmentSites({"f0": "c", "f1": "a", "f2": "a"}),
    )
    assert [move.fragment for move in ordered_moves(problem, old, new).moves] == ["f0", "f1"]


def test_the_most_loaded_site_is_relieved_first() -> None:
    problem = problem_of([1, 1, 1, 1], [700, 250, 200, 100], site_memory_mb=99)
    old = FragmentSites({"f0": "a", "f1": "a", "f2": "b", "f3": "b"})
    new = FragmentSites({"f0": "a", "f1": "c", "f2": "b", "f3": "c"})
    found = ordered_moves(problem, old, new)
    assert [move.fragment for move in found.moves] == ["f1", "f3"]
    assert found.before.max_utilisation == pytest.approx(0.95)
    assert found.steps[0].after.max_utilisation == pytest.approx(0.7)


def test_what_may_not_move_is_refused_with_the_reason() -> None:
    data = {
        "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
        "streams": {"x": {"rate": 1}},
        "operators": {
            "pinned": {"inputs": ["x"], "cost_us": 1, "site": "a"},
            "stuck": {"inputs": ["x"], "cost_us": 1, "movable": False},
        },
    }
    problem = Problem.from_dict(data)
    old = FragmentSites({"pinned": "a", "stuck": "a"})
    with pytest.raises(InfeasibleError, match="'pinned' is pinned to 'a'"):
        ordered_moves(problem, old, FragmentSites({**old, "pinned": "b"}))
    with pytest.raises(InfeasibleError, match="'stuck' is `movable: false`"):
        ordered_moves(problem, old, FragmentSites({**old, "stuck": "b"}))
    with pytest.raises(InputError, match="no site for the fragment 'stuck'"):
        ordered_moves(problem, old, FragmentSites({"pinned": "a"}))
    with pytest.raises(InputError, match="found 'z', expected one of a, b"):
        ordered_moves(problem, old, FragmentSites({**old, "stuck": "z"}))


def test_the_predicted_pause_grows_with_the_state_last_measured() -> None:
    problem = problem_of([1, 1], [1, 1], site_memory_mb=9)
    old, new = FragmentSites({"f0": "a", "f1": "a"}), FragmentSites({"f0": "b", "f1": "b"})
    figures = Figures(MoveTimes(stateless_s=1, stateful_s=2, bytes_per_s=1e6, state_bytes={"f0": 3e6}))
    pauses = {s.move.fragment: s.pause.likely_s for s in ordered_moves(problem, old, new, figures).steps}
    assert pauses == {"f0": pytest.approx(5.0), "f1": pytest.approx(2.0)}


def test_another_order_or_another_start_is_another_list() -> None:
    problem = problem_of([1, 1], [1, 2], site_memory_mb=9)
    old, new = FragmentSites({"f0": "a", "f1": "a"}), FragmentSites({"f0": "b", "f1": "b"})
    moves = ordered_moves(problem, old, new).moves
    assert moves_fingerprint(old, moves) == ordered_moves(problem, old, new).fingerprint
    assert moves_fingerprint(old, moves[::-1]) != moves_fingerprint(old, moves)
    assert moves_fingerprint(new, moves) != moves_fingerprint(old, moves)
