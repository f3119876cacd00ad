"""Pheromones: equations 1 and 2, good trips, and forgetting."""

from __future__ import annotations

import pytest

from mooring.algorithms.ants.ant_params import AntParams
from mooring.algorithms.ants.machines.cell import Cell

PARAMS = AntParams(strength=0.1, trusted_trips=2)


def cell() -> Cell:
    return Cell([3, 5, 8], PARAMS, forgotten_ms=1000.0)


def test_probabilities_are_uniform_at_first_and_sum_to_one() -> None:
    assert cell().trail(9, 0.0).weights == [1 / 3] * 3


def test_the_chosen_neighbour_gains_and_the_others_decay() -> None:
    """Equations 1 and 2 with r = c T_best / T."""
    known = cell()
    known.reinforce(9, 5, 0.2, 0.0)
    third = 1 / 3
    assert known.trail(9, 0.0).weights == pytest.approx([third * 0.9, third * 0.9 + 0.1, third * 0.9])
    known.reinforce(9, 3, 0.4, 0.0)
    r = 0.1 * 0.2 / 0.4
    assert known.trail(9, 0.0).weights[0] == pytest.approx(third * 0.9 * (1 - r) + r)
    assert sum(known.trail(9, 0.0).weights) == pytest.approx(1.0)


def test_reinforcement_has_no_unit() -> None:
    """The same trips in other units give the same probabilities."""
    seconds, hours = cell(), cell()
    for through, trip in ((5, 0.2), (3, 0.3), (5, 0.1), (8, 0.15)):
        seconds.reinforce(9, through, trip, 0.0)
        hours.reinforce(9, through, trip / 3600.0, 0.0)
    assert seconds.trail(9, 0.0).weights == pytest.approx(hours.trail(9, 0.0).weights)


def test_a_trip_that_is_not_good_changes_nothing() -> None:
    known = cell()
    for _ in range(10):
        known.reinforce(9, 5, 0.2, 0.0)
    before = list(known.trail(9, 0.0).weights)
    known.reinforce(9, 3, 2.0, 0.0)
    assert known.trail(9, 0.0).weights == before
    assert known.trail(9, 0.0).mean_s == pytest.approx(0.2)


def test_a_discouraged_way_loses_and_the_others_gain_alike() -> None:
    known = cell()
    known.discourage(9, 3, 0.0)
    weights = known.trail(9, 0.0).weights
    assert weights[0] < 1 / 3 < weights[1] == weights[2]
    assert sum(weights) == pytest.approx(1.0)


def test_what_nobody_renews_is_forgotten() -> None:
    known = cell()
    known.reinforce(9, 5, 0.2, 0.0)
    known.forget(500.0)
    assert 9 in known.trails
    known.forget(1001.0)
    assert known.trails == {}
    known.reinforce(9, 5, 0.2, 0.0)
    assert known.trail(9, 2000.0).weights == [1 / 3] * 3


def test_visited_neighbours_are_avoided_while_there_are_others() -> None:
    known, state, seen = cell(), 12345, set()
    for _ in range(60):
        hop, state = known.next_hop(9, (3, 5), state, 0.0)
        assert hop == 8
        hop, state = known.next_hop(9, (3, 5, 8), state, 0.0)
        seen.add(hop)
    assert seen == {3, 5, 8}
