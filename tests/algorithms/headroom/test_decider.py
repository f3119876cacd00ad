"""Moves are proposed when the measured rates come near the edge, and only then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.algorithms.headroom.decider import HeadroomDecider, HeadroomOptions, propose
from mooring.contracts.decider import Proposal
from mooring.contracts.picture import picture_of
from mooring.model.load.build import build_load_model
from mooring.model.load.feasible.headroom import headroom
from mooring.model.load.micro_batches import BatchTimes
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem
from mooring.planning import plan


def problem(state_bytes: float = 0.0) -> Problem:
    return Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1.0}, "b": {"capacity": 1.0}},
            "streams": {"x": {"site": "a", "rate": 100}, "y": {"site": "b", "rate": 100}},
            "operators": {
                "x:in": {"inputs": ["x"], "cost_us": 500, "site": "a"},
                "y:in": {"inputs": ["y"], "cost_us": 500, "site": "b"},
                "x1": {"inputs": ["x:in"], "cost_us": 1500, "state_bytes": state_bytes},
                "x2": {"inputs": ["x:in"], "cost_us": 1490},
                "x3": {"inputs": ["x:in"], "cost_us": 1400, "movable": False},
                "y1": {"inputs": ["y:in"], "cost_us": 1500},
            },
        }
    )


HOMES = {"x:in": "a", "x1": "a", "x2": "a", "x3": "a", "y:in": "b", "y1": "b"}


def proposed(whole: Problem, rates: list[float], **options: Any) -> Proposal:
    return propose(picture_of(whole, Placement.from_dict(whole, HOMES), rates), HeadroomOptions(**options))


def test_nothing_is_proposed_while_there_is_room_enough() -> None:
    made = proposed(problem(), [100.0, 100.0])
    assert made.moves == ()
    assert made.now.headroom == 1.0 / (100 * 4890e-6)


def test_a_burst_on_one_stream_moves_one_of_its_operators_to_the_other_site() -> None:
    made = proposed(problem(), [220.0, 100.0])
    assert made.now.headroom < 1.0
    assert made.now.bottleneck == "a"
    (move,) = made.moves
    assert (move.move.fragment, move.move.from_site, move.move.to_site) == ("x1", "a", "b")
    assert move.headroom > 1.25


def test_of_moves_that_gain_alike_the_one_with_less_state_is_made() -> None:
    (move,) = proposed(problem(state_bytes=1e9), [220.0, 100.0]).moves
    assert move.move.fragment == "x2"


def test_what_is_pinned_or_may_not_move_stays_even_when_nothing_else_helps() -> None:
    made = proposed(problem(), [2000.0, 1900.0], max_moves=9)
    assert {each.move.fragment for each in made.moves} <= {"x1", "x2", "y1"}


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    rates=st.lists(st.floats(0.001, 400.0), min_size=2, max_size=2),
    most=st.integers(1, 4),
)
def test_every_proposed_move_raises_the_headroom_as_predicted(
    seed: int, rates: list[float], most: int
) -> None:
    whole, gain = problem(), HeadroomOptions().least_gain
    model = build_load_model(whole)
    before = plan(whole, "random", seed=seed).placement
    made = propose(picture_of(whole, before, rates), HeadroomOptions(max_moves=most))
    sites = np.array(before.site_of_fragment)
    reached = headroom(model, sites, np.array(rates)).all.factor
    assert made.now.headroom == pytest.approx(reached, rel=1e-12)
    assert len(made.moves) <= most
    left = list(made.moves)
    while left:
        each = left.pop(0)
        if left and each.headroom < gain * reached * (1 - 1e-12):  # the first half of a swap
            half = whole.fragment_names.index(each.move.fragment)
            sites[half] = whole.site_index[each.move.to_site]
            each = left.pop(0)
        move = each.move
        assert reached < 1.25
        fragment = whole.fragment_names.index(move.fragment)
        assert whole.sites[sites[fragment]].name == move.from_site
        sites[fragment] = whole.site_index[move.to_site]
        after = headroom(model, sites, np.array(rates)).all.factor
        assert after == pytest.approx(each.headroom, rel=1e-12)
        assert after >= gain * reached * (1 - 1e-12)
        reached = after


def test_where_no_single_move_helps_two_fragments_change_places() -> None:
    whole = Problem.from_dict(
        {
            "sites": {"a": {"capacity": 0.6}, "b": {"capacity": 1.0}},
            "streams": {"x": {"rate": 100}},
            "operators": {
                "big": {"inputs": ["x"], "cost_us": 7000},
                "small": {"inputs": ["x"], "cost_us": 4000},
            },
        }
    )
    made = propose(picture_of(whole, Placement.from_dict(whole, {"big": "a", "small": "b"})))
    assert {each.move.fragment: each.move.to_site for each in made.moves} == {"big": "b", "small": "a"}
    assert made.predicted.headroom == pytest.approx(1.0 / 0.7)


def test_several_full_sites_are_helped_although_the_fullest_cannot_be() -> None:
    names = [f"f{k}" for k in range(6)]
    whole = Problem.from_dict(
        {
            "sites": {name: {"capacity": 1.0} for name in "abcd"},
            "streams": {"x": {"rate": 100}},
            "operators": {
                "stuck": {"inputs": ["x"], "cost_us": 15_000, "site": "a"},
                **{name: {"inputs": ["x"], "cost_us": 4000} for name in names},
            },
        }
    )
    start = {"stuck": "a", **dict.fromkeys(names[:3], "b"), **dict.fromkeys(names[3:], "c")}
    made = propose(picture_of(whole, Placement.from_dict(whole, start)))
    assert {each.move.from_site for each in made.moves} == {"b", "c"}
    assert {each.move.to_site for each in made.moves} == {"d"}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(20.0, 400.0), min_size=2, max_size=2),
    st.lists(st.floats(0.0, 12.0), min_size=6, max_size=6),
)
def test_a_proposal_says_what_it_does_where_batches_are_slower_than_the_model(
    rates: list[float], over: list[float]
) -> None:
    whole = problem()
    picture = picture_of(whole, Placement.from_dict(whole, HOMES), rates)
    made = propose(replace(picture, batches=BatchTimes(5.0, np.array(over))))
    if made.moves:
        then = made.moves[-1].headroom
        assert then >= made.now.headroom
        assert (f"raises it to x {then:.2f}" in made.reason) is (then >= 1.005 * made.now.headroom)


def test_slow_batches_are_no_matter_of_how_much_rates_vary() -> None:
    """The CPU leaves room for twice the rates, and batches take as long as the trigger."""
    whole = problem()
    picture = picture_of(whole, Placement.from_dict(whole, HOMES), [100.0, 100.0])
    slow = replace(picture, batches=BatchTimes(5.0, np.array([0.0, 0.0, 3.0, 0.0, 0.0, 0.0])))
    decider = HeadroomDecider()
    assert decider.decide(picture).moves == ()
    made = decider.decide(slow)
    assert made.now.headroom < 1.25
    assert "which reaches the threshold" not in made.reason
