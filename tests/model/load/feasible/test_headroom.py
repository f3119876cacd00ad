"""Headroom by hand: linear, with joins, overloaded, silent streams, communication and fixed load."""

from __future__ import annotations

import dataclasses
from math import inf, sqrt
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.model.load.feasible.headroom import Growth, headroom
from mooring.model.load.model import Arcs, Definition, LoadModel, Variable

LINEAR = LoadModel.from_coefficients([[0.2, 0.0], [0.1, 0.3], [0.0, 0.0]], [1.0, 1.0, 1.0])


def growth(factor: float, site: int, rel: float | None = None) -> Growth:
    """Equal to a growth by about this factor."""
    return Growth(cast("float", pytest.approx(factor, rel=rel)), site)


def join_model(pairs_cores: float, own_cores: tuple[float, float] = (0.0, 0.0)) -> LoadModel:
    """Two streams with an operator each, and a join whose load is pairs_cores x r1 x r2."""
    linear = LoadModel.from_coefficients(
        [[own_cores[0], 0, 0], [0, own_cores[1], 0], [0, 0, pairs_cores]], [1.0, 1.0]
    )
    return dataclasses.replace(
        linear,
        variables=(Variable("a", "stream"), Variable("b", "stream"), Variable("j", "pairs")),
        definitions=(Definition(2, 1.0, {0: 1.0}, {1: 1.0}),),
    )


def test_linear_loads_have_a_closed_form() -> None:
    """Site 0 needs .2 r1, site 1 needs .1 r1 + .3 r2, at rates (1, 2): all together 1 / .7 at site 1."""
    result = headroom(LINEAR, [0, 1, 2], [1.0, 2.0])
    assert result.all == growth(1 / 0.7, 1)
    assert result.streams == (growth(4.0, 1), growth(1.5, 1))


def test_the_present_rates_are_the_default() -> None:
    assert headroom(LINEAR, [0, 1, 2]) == headroom(LINEAR, [0, 1, 2], [1.0, 1.0])


def test_an_overloaded_placement_has_a_factor_below_one() -> None:
    result = headroom(LINEAR, [0, 1, 2], [4.0, 4.0])
    assert result.all == growth(1 / 1.6, 1)
    assert result.streams[0] == Growth(0.0, 1)  # the second stream alone overloads site 1
    assert result.streams[1] == growth(0.5, 1)


def test_a_silent_stream_cannot_be_scaled() -> None:
    result = headroom(LINEAR, [0, 1, 2], [1.0, 0.0])
    assert result.streams[1] == Growth(inf, None)
    assert result.all == growth(5.0, 0)


def test_nothing_that_loads_means_no_limit() -> None:
    assert headroom(LINEAR, [0, 1, 2], [0.0, 0.0]).all == Growth(inf, None)
    idle = LoadModel.from_coefficients([[0.0, 0.5]], [1.0])
    assert headroom(idle, [0], [3.0, 1.0]).streams == (Growth(inf, None), growth(2.0, 0))


def test_a_join_grows_with_the_square_when_both_streams_do() -> None:
    """.05 cores per pair at rates (2, 5): half a core; together sqrt(2), alone 2."""
    result = headroom(join_model(0.05), [0, 0, 1], [2.0, 5.0])
    assert result.all == growth(sqrt(2), 1, rel=1e-12)
    assert [growth.factor for growth in result.streams] == pytest.approx([2.0, 2.0], rel=1e-12)


def test_linear_and_quadratic_load_add_up_on_one_site() -> None:
    """.1 f + .2 f + .1 f^2 = 1 has its root at f = (sqrt(.49) - .3) / .2 = 2."""
    result = headroom(join_model(0.1, (0.1, 0.2)), [0, 0, 0], [1.0, 1.0])
    assert result.all == growth(2.0, 0, rel=1e-12)


def test_fixed_load_leaves_less_to_grow() -> None:
    model = LoadModel.from_coefficients([[0.1]], [1.0], fixed_cores=[0.4])
    assert headroom(model, [0], [1.0]).all == growth(6.0, 0)


def test_fixed_load_beyond_a_site_leaves_nothing() -> None:
    model = LoadModel.from_coefficients([[0.1], [0.1]], [1.0, 1.0], fixed_cores=[1.4, 0.0])
    assert headroom(model, [0, 1], [1.0]).all == Growth(0.0, 0)


def test_a_full_site_that_does_not_grow_does_not_limit() -> None:
    model = LoadModel.from_coefficients([[0.0], [0.1]], [1.0, 1.0], fixed_cores=[1.0, 0.0])
    assert headroom(model, [0, 1], [1.0]).all == growth(10.0, 1)


def test_communication_counts_where_an_arc_crosses() -> None:
    """.1 core per tuple/s at each end of the arc, on top of .1 of each operator."""
    one = LoadModel.from_coefficients([[1.0]], [1]).coefficients
    arcs = Arcs(np.array([0]), np.array([-1]), np.array([1]), np.array([-1]), one, comm_us=1e5)
    model = LoadModel.from_coefficients([[0.1], [0.1]], [1.0, 1.0], arcs=arcs)
    assert headroom(model, [0, 1], [1.0]).all.factor == pytest.approx(5.0)
    assert headroom(model, [0, 0], [1.0]).all.factor == pytest.approx(5.0)
    assert headroom(dataclasses.replace(model, arcs=Arcs.none(1)), [0, 1], [1.0]).all.factor == pytest.approx(
        10.0
    )


@given(st.integers(0, 10**6))
@settings(max_examples=50, deadline=None)
def test_at_the_factor_the_named_site_is_full_and_no_other_is_overloaded(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = join_model(rng.uniform(0.01, 1), (rng.uniform(0, 1), rng.uniform(0, 1)))
    placement = rng.integers(2, size=3)
    rates = rng.uniform(0.1, 3, 2)
    growth = headroom(model, placement, rates).all
    usage = model.site_loads(placement, growth.factor * rates) / model.capacity_cores
    assert usage.max() == pytest.approx(1.0, rel=1e-9)
    assert usage[growth.site] == pytest.approx(1.0, rel=1e-9)


@given(st.integers(0, 10**6))
@settings(max_examples=50, deadline=None)
def test_one_stream_alone_can_grow_at_least_as_far_as_all_together(seed: int) -> None:
    """And when the rates are beyond the edge, no less has to go when only one stream gives way."""
    rng = np.random.default_rng(seed)
    model = join_model(rng.uniform(0.01, 1), (rng.uniform(0, 1), rng.uniform(0, 1)))
    result = headroom(model, rng.integers(2, size=3), rng.uniform(0.1, 1, 2))
    if result.all.factor >= 1:
        assert all(growth.factor >= result.all.factor * (1 - 1e-9) for growth in result.streams)
    else:
        assert all(
            growth.factor <= result.all.factor * (1 + 1e-9) or growth.factor > 1 for growth in result.streams
        )
