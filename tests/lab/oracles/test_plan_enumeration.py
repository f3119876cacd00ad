"""Elimination by k-ahead latency loses no feasible plan: held against trying every assignment."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import pytest

from lab.oracles.plan_enumeration import enumerate_plans
from mooring.algorithms.overlay.search.ahead import KnownLatencies
from mooring.algorithms.overlay.search.partial_plans import Candidates
from mooring.algorithms.overlay.search.shared_operator import QueryEnd, SharedOperator, Source, upstream_first
from mooring.arrays import Floats
from tests.algorithms.overlay.search.figure_2 import (
    CANDIDATES,
    N5,
    O1,
    O2,
    O4,
    everywhere_room,
    figure_2,
    latencies,
)

SITES = 5


def small_case(seed: int) -> tuple[list[SharedOperator], dict[int, Candidates], Floats, float]:
    """Up to four operators in a random graph (joins, shared outputs, diamonds), limits that bind, tight
    sites."""
    rng = np.random.default_rng(seed)
    place = rng.random((SITES, 2)) * 100.0
    latency_ms = np.sqrt(((place[:, None] - place[None]) ** 2).sum(axis=2)) * rng.uniform(
        0.7, 1.4, (SITES,) * 2
    )
    np.fill_diagonal(latency_ms, 0.0)
    operators: list[SharedOperator] = []
    for number in range(int(rng.integers(2, 5))):
        read = rng.permutation(number)[: rng.integers(0, 3)].tolist()
        sources = () if read and rng.random() < 0.7 else (Source(int(rng.integers(SITES))),)
        ends = tuple(
            QueryEnd(10 * number + k, int(rng.integers(SITES)), float(rng.uniform(40.0, 250.0)))
            for k in range(int(rng.integers(0, 3)))
        )
        operators.append(
            SharedOperator(
                number,
                publishers=tuple(sorted(read)),
                sources=sources,
                ends=ends,
                output_rate=float(rng.uniform(1, 10)),
                cores=float(rng.uniform(0.2, 0.6)),
                memory_mb=float(rng.uniform(1, 3)),
            )
        )
    cores_left, memory_left = rng.uniform(0.3, 1.5, SITES), rng.uniform(2.0, 8.0, SITES)
    candidates = {}
    for own in operators:
        sites = np.sort(rng.permutation(SITES)[: rng.integers(2, 5)])
        candidates[own.operator] = Candidates(sites, cores_left[sites], memory_left[sites])
    return operators, candidates, latency_ms, float(rng.choice([0.0, 5.0]))


def arrivals(
    operators: list[SharedOperator], at: Mapping[int, int], latency_ms: Floats, channel_ms: float
) -> dict[int, float]:
    """Operator -> latency up to it, by walking the graph."""
    reached: dict[int, float] = {}
    for own in upstream_first(operators):
        here = at[own.operator]
        ways = [latency_ms[source.site, here] for source in own.sources]
        ways += [reached[p] + channel_ms + latency_ms[at[p], here] for p in own.publishers]
        reached[own.operator] = max(ways, default=0.0)
    return reached


def is_feasible(
    operators: list[SharedOperator],
    at: Mapping[int, int],
    candidates: Mapping[int, Candidates],
    latency_ms: Floats,
    channel_ms: float,
) -> bool:
    reached = arrivals(operators, at, latency_ms, channel_ms)
    on_time = all(
        reached[own.operator] + latency_ms[at[own.operator], end.site] <= end.limit_ms
        for own in operators
        for end in own.ends
    )
    return on_time and all(
        sum(own.cores for own in operators if at[own.operator] == site) <= cores
        and sum(own.memory_mb for own in operators if at[own.operator] == site) <= memory
        for each in candidates.values()
        for site, cores, memory in zip(each.sites.tolist(), each.cores_left, each.memory_left_mb, strict=True)
    )


@pytest.mark.parametrize("k", [1, 3])
def test_elimination_loses_no_feasible_plan_of_200_small_cases(k: int) -> None:
    found = eliminated = 0
    for seed in range(200):
        operators, candidates, latency_ms, channel_ms = small_case(seed)
        done = enumerate_plans(operators, candidates, KnownLatencies(latency_ms), k=k, channel_ms=channel_ms)
        kept = {
            operator: {
                tuple(zip((own.operator for own in table.operators), row, strict=True))
                for row in table.sites.tolist()
            }
            for operator, table in done.tables.items()
        }
        everything = enumerate_plans(
            operators, candidates, KnownLatencies(latency_ms), k=None, channel_ms=channel_ms
        )
        eliminated += everything.explored - done.explored
        names = [own.operator for own in operators]
        choices = [candidates[name].sites.tolist() for name in names]
        for sites in itertools.product(*choices):
            at = dict(zip(names, sites, strict=True))
            if is_feasible(operators, at, candidates, latency_ms, channel_ms):
                found += 1
                for operator, table in done.tables.items():
                    row = tuple((own.operator, at[own.operator]) for own in table.operators)
                    assert row in kept[operator], f"case {seed}: lost {row} at operator {operator}"
    assert found > 500
    assert eliminated > 0


def test_latency_and_cost_of_a_plan_are_those_of_walking_the_graph() -> None:
    for seed in range(60):
        operators, candidates, latency_ms, channel_ms = small_case(seed)
        done = enumerate_plans(
            operators, candidates, KnownLatencies(latency_ms), k=None, channel_ms=channel_ms
        )
        for table in done.tables.values():
            for row in range(0, len(table), 7):
                at = {own.operator: int(s) for own, s in zip(table.operators, table.sites[row], strict=True)}
                reached = arrivals(list(table.operators), at, latency_ms, channel_ms)
                rates = {own.operator: own.output_rate for own in operators}
                crossing = sum(
                    rates[p] for own in table.operators for p in own.publishers if at[p] != at[own.operator]
                )
                assert table.latency_ms[row] == pytest.approx(reached[table.last.operator])
                assert table.cost[row] == pytest.approx(crossing)


def test_a_limit_that_is_met_exactly_is_met() -> None:
    known = KnownLatencies(latencies())
    for limit_ms, plans in ((20.0 + 10.0 + 5.0, 1), (20.0 + 10.0 + 4.9, 0)):
        operators = figure_2(limit_q1_ms=limit_ms)
        done = enumerate_plans(operators, everywhere_room(CANDIDATES), known, k=2)
        assert len(done.tables[O4]) == plans


def test_the_limit_of_one_query_eliminates_plans_that_another_shares() -> None:
    known = KnownLatencies(latencies())
    loose = enumerate_plans(figure_2(), everywhere_room(CANDIDATES), known, k=2)
    tight = enumerate_plans(figure_2(limit_q2_ms=44.0), everywhere_room(CANDIDATES), known, k=2)
    assert len(loose.tables[O2]) == 2
    assert len(tight.tables[O1]) == len(tight.tables[O4]) == 0


def test_room_counts_what_a_plan_takes_away() -> None:
    """o1 and o2 run at n5, which is full: staying needs no more room, a third does not fit."""
    operators = [SharedOperator(O1, cores=1.0), SharedOperator(O2, publishers=(O1,), cores=1.0)]
    only_n5 = {own.operator: Candidates(np.array([N5]), np.zeros(1), np.zeros(1)) for own in operators}
    known = KnownLatencies(latencies())
    stay = enumerate_plans(operators, only_n5, known, k=0, homes={O1: N5, O2: N5})
    assert len(stay.tables[O2]) == 1
    one_new = enumerate_plans(operators, only_n5, known, k=0, homes={O1: N5})
    assert len(one_new.tables[O2]) == 0
