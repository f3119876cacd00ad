"""The worked example of section 3.3.1, to the millisecond."""

from __future__ import annotations

import pytest

from mooring.algorithms.overlay.search.ahead import KnownLatencies, k_ahead
from mooring.algorithms.overlay.search.shared_operator import QueryEnd, SharedOperator, queries_of
from tests.algorithms.overlay.search.figure_2 import (
    CANDIDATES,
    N5,
    O1,
    O2,
    O3,
    O4,
    OF_O4,
    Q1,
    Q2,
    figure_2,
    latencies,
)


def test_one_step_from_n5_takes_ten_milliseconds_for_both_queries() -> None:
    ahead = k_ahead(figure_2(), CANDIDATES, KnownLatencies(latencies()), k=1)
    assert ahead[O1][Q1] == pytest.approx([10.0])
    assert ahead[O1][Q2] == pytest.approx([10.0])
    assert ahead[O2][Q1][0] == pytest.approx(5.0)
    assert ahead[O2][Q2][0] == pytest.approx(15.0)


def test_two_steps_from_n5_take_15_ms_for_q1_and_25_ms_for_q2() -> None:
    ahead = k_ahead(figure_2(), CANDIDATES, KnownLatencies(latencies()), k=2)
    assert ahead[O1][Q1] == pytest.approx([15.0])
    assert ahead[O1][Q2] == pytest.approx([25.0])


def test_steps_beyond_the_last_operator_add_nothing() -> None:
    two, nine = (k_ahead(figure_2(), CANDIDATES, KnownLatencies(latencies()), k) for k in (2, 9))
    assert two[O1][Q1] == pytest.approx(nine[O1][Q1])
    assert two[O1][Q2] == pytest.approx(nine[O1][Q2])


def test_the_delivery_to_a_query_is_a_step() -> None:
    operators = figure_2()
    operators[3] = SharedOperator(O4, publishers=(O2,), ends=(QueryEnd(Q1, N5, 100.0),))
    latency_ms = latencies()
    latency_ms[OF_O4, N5] = 7.0
    ahead = k_ahead(operators, CANDIDATES, KnownLatencies(latency_ms), k=3)
    assert ahead[O4][Q1] == pytest.approx([7.0])
    assert ahead[O1][Q1] == pytest.approx([22.0])


def test_every_operator_knows_the_limits_of_all_queries_that_share_it() -> None:
    limits = queries_of(figure_2(80.0, 90.0))
    assert limits[O1] == limits[O2] == {Q1: 80.0, Q2: 90.0}
    assert limits[O3] == {Q2: 90.0}
    assert limits[O4] == {Q1: 80.0}
