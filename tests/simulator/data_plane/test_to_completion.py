"""Sites that take a tuple through all of their operators before the next."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.simulator.data_plane.model import Model, Reader
from tests.simulator.data_plane.test_simulation import at, finished, start


def two_in_a_row(**site: Any) -> Model:
    """Source -> one second -> two seconds, both at one site -> query."""
    model = Model()
    here = model.site(1.0, **site)
    first, second = model.operator(here), model.operator(here)
    model.from_source(model.source(at(0.0, 0.0)), Reader(operator=first, cost_us=1e6))
    model.from_operator(first, Reader(operator=second, cost_us=2e6))
    model.from_operator(second, Reader(query=model.query()))
    return model


def test_a_tuple_passes_all_operators_of_a_site_before_the_next_begins() -> None:
    turns, through = finished(two_in_a_row()), finished(two_in_a_row(to_completion=True))
    assert turns.world.queries["sum"][0] == pytest.approx((1 + 1 + 2) + (1 + 1 + 2 + 2))
    assert through.world.queries["sum"][0] == pytest.approx((1 + 2) + (1 + 2 + 1 + 2))
    for simulation in (turns, through):
        assert simulation.world.sites["busy"][0] == pytest.approx(6.0)
        assert simulation.world.sites["completed"][0] == 4
        assert simulation.world.sites["length"][0] == 0


def test_what_leaves_the_site_waits_until_all_is_done() -> None:
    """One tuple to three readers, one of them elsewhere: that one is sent after both others were served."""
    model = Model()
    here, there = model.site(1.0, to_completion=True), model.site(1.0)
    first, left, right, away = (model.operator(site) for site in (here, here, here, there))
    query = model.query()
    model.from_source(model.source(at(0.0)), Reader(operator=first, cost_us=1e6))
    model.from_operator(first, Reader(operator=away, latency_s=5.0))
    model.from_operator(first, Reader(operator=left, cost_us=1e6, selectivity=0.0))
    model.from_operator(first, Reader(operator=right, cost_us=1e6, selectivity=0.0))
    model.from_operator(away, Reader(query=query))
    assert finished(model).world.queries["sum"][0] == pytest.approx(1 + 1 + 1 + 5)


def test_nothing_is_lost_when_an_operator_is_taken_off_while_a_tuple_is_under_way() -> None:
    simulation = start(two_in_a_row(to_completion=True))
    simulation.run(0.5)  # the first tuple is in its first service
    simulation.hold(1)
    simulation.run(20.0)
    assert simulation.world.queries["count"][0] == 0
    simulation.release(1)
    simulation.run(100.0)
    assert simulation.world.queries["count"][0] == 2
