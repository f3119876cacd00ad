"""Which plans are kept, what a final plan says, and what the store answers."""

from __future__ import annotations

import numpy as np
import pytest

from lab.oracles.plan_enumeration import enumerate_plans
from mooring.algorithms.overlay.search.ahead import KnownLatencies
from mooring.algorithms.overlay.search.final_plans import FinalPlan, PlanStore, finalised
from mooring.algorithms.overlay.search.partial_plans import PlanTable
from mooring.algorithms.overlay.search.shared_operator import SharedOperator
from mooring.algorithms.overlay.search.similar_plans import KeptPlans
from mooring.algorithms.overlay.search.walked_plan import walked
from tests.algorithms.overlay.search.figure_2 import (
    CANDIDATES,
    N5,
    N6,
    N9,
    O1,
    O2,
    OF_O3,
    OF_O4,
    Q1,
    Q2,
    everywhere_room,
    figure_2,
    latencies,
)


def table(rows: list[tuple[int, float, float]]) -> PlanTable:
    """Plans of one operator: last site, latency, cost."""
    sites, latency_ms, cost = (np.array(column) for column in zip(*rows, strict=True))
    return PlanTable((SharedOperator(0),), (-1,), sites[:, None].astype(np.int64), latency_ms, cost, {})


def kept(rows: list[tuple[int, float, float]], most: int = 64) -> list[tuple[int, float, float]]:
    chosen = KeptPlans(latency_step_ms=5.0, cost_step=0.1, most=most).of(table(rows))
    return list(
        zip(chosen.sites[:, 0].tolist(), chosen.latency_ms.tolist(), chosen.cost.tolist(), strict=True)
    )


def test_of_like_latency_the_cheapest_is_kept_and_of_like_cost_the_fastest() -> None:
    rows = [(1, 11.0, 50.0), (1, 12.0, 40.0), (1, 40.0, 40.5), (1, 80.0, 10.0), (1, 81.0, 100.0)]
    assert kept(rows) == [
        (1, 80.0, 10.0),
        (1, 12.0, 40.0),
        (1, 40.0, 40.5),
        (1, 11.0, 50.0),
        (1, 81.0, 100.0),
    ]
    like = [(1, 11.0, 50.0), (1, 12.0, 51.0), (1, 12.5, 52.0)]
    assert kept(like) == [(1, 11.0, 50.0)]


def test_plans_that_end_at_different_sites_are_not_alike() -> None:
    rows = [(1, 11.0, 50.0), (2, 11.0, 50.0)]
    assert sorted(kept(rows)) == rows


def test_the_bound_takes_from_every_last_site_in_turn() -> None:
    rows = [(1, 10.0 * k, 100.0 - k) for k in range(8)] + [(2, 10.0, 500.0)]
    chosen = kept(rows, most=3)
    assert len(chosen) == 3
    assert {site for site, _, _ in chosen} == {1, 2}


def test_a_final_plan_says_what_changes_for_bandwidth_and_for_each_query() -> None:
    """o1 runs at n5 and o2 at n9; o3 and o4 stay."""
    known, homes = KnownLatencies(latencies()), {O1: N5, O2: N9}
    both = figure_2()[:2]
    done = enumerate_plans(both, everywhere_room(CANDIDATES), known, k=0, homes=homes)
    now = walked(both, (N5, N9), [N5, N9], known)
    rest = {Q1: (OF_O4, 0.0), Q2: (OF_O3, 0.0)}
    current = {Q1: 20.0 + 30.0 + 5.0, Q2: 20.0 + 30.0 + 5.0}
    (plan,) = finalised(done.tables[O2], known, rest, current, now.cost())
    assert plan.moves == ((O2, N6),)
    assert dict(plan.latency_change_ms) == {Q1: pytest.approx(-20.0), Q2: pytest.approx(-10.0)}
    assert plan.bandwidth_change == pytest.approx(0.0)


def plan(moves: int, bandwidth: float, **change_ms: float) -> FinalPlan:
    return FinalPlan(((moves, 0),), bandwidth, tuple((int(q[1:]), ms) for q, ms in change_ms.items()))


def test_the_store_chooses_the_cheapest_of_those_that_take_off_enough() -> None:
    store = PlanStore()
    slow, cheap, dear = plan(1, -9.0, q1=-4.0), plan(2, 5.0, q1=-20.0, q2=3.0), plan(3, 8.0, q1=-40.0)
    store.replace(7, [slow, dear])
    store.replace(8, [cheap])
    assert store.choose(1, needed_ms=1.0) == slow
    assert store.choose(1, needed_ms=10.0) == cheap
    assert store.choose(1, needed_ms=20.0) == cheap
    assert store.choose(1, needed_ms=30.0) == dear
    assert store.choose(1, needed_ms=50.0) is None
    assert store.choose(2, needed_ms=1.0) is None
    assert len(store) == 3
    store.forget(8)
    assert store.choose(1, needed_ms=10.0) == dear
