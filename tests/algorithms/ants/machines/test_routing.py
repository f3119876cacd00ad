"""Routing ants: what they write down, and cycles."""

from __future__ import annotations

import msgspec
import pytest

from mooring.algorithms.ants.ant_params import AntParams
from mooring.algorithms.ants.machines.cell import Cell
from mooring.algorithms.ants.machines.colony_params import SiteFacts
from mooring.algorithms.ants.machines.messages import RoutingAnt, RoutingReturn
from mooring.algorithms.ants.machines.routing import backward, forward

FACTS = SiteFacts((1,), (0.0, 0.05, 0.09, 0.1), (0.0, 0.05, 0.09, 0.1), 1.0, 100.0)
ANT = RoutingAnt(0, 0, 3, 77, (0,), (0.0,), (0.0,))


def only(neighbour: int) -> Cell:
    return Cell([neighbour], AntParams(), forgotten_ms=1e9)


def test_waits_and_ways_are_written_down() -> None:
    gone = forward(ANT, only(1), FACTS, 0.02, 0.0)
    assert gone is not None
    site, ant = gone
    assert site == 1
    assert ant.path == (0, 1)
    assert ant.elapsed_s == pytest.approx((0.0, 0.07))


def test_a_cycle_is_forgotten_but_the_ant_has_aged() -> None:
    walked = msgspec.structs.replace(
        ANT, path=(2, 1, 0), elapsed_s=(0.0, 1.0, 1.1), age_s=(0.0, 1.0, 1.1), now_s=1.1, clock_s=1.1
    )
    gone = forward(walked, only(1), FACTS, 0.0, 0.0)
    assert gone is not None
    _, ant = gone
    assert ant.path == (2, 1)
    assert ant.now_s == 1.0
    assert ant.clock_s == pytest.approx(1.15)


def test_an_ant_dies_in_a_cycle_that_took_longer_than_its_life_before() -> None:
    walked = msgspec.structs.replace(
        ANT, path=(2, 1, 0), elapsed_s=(0.0, 0.1, 1.1), age_s=(0.0, 0.1, 1.1), now_s=1.1, clock_s=1.1
    )
    assert forward(walked, only(1), FACTS, 0.0, 0.0) is None


def test_an_ant_dies_where_the_queue_never_ends() -> None:
    assert forward(ANT, only(1), FACTS, float("inf"), 0.0) is None


def test_on_its_way_back_a_cell_learns_the_rest_of_the_trip() -> None:
    walked = msgspec.structs.replace(
        ANT, path=(0, 1, 3), elapsed_s=(0.0, 0.1, 0.4), age_s=(0.0, 0.1, 0.4), now_s=0.4, clock_s=0.4
    )
    cell = Cell([0, 3], AntParams(), forgotten_ms=1e9)
    backward(RoutingReturn(walked, 1), cell, 0.0)
    trail = cell.trail(3, 0.0)
    assert trail.mean_s == pytest.approx(0.3)
    assert trail.weights[1] > trail.weights[0]
