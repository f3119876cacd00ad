"""Balancing does what section 3.1 says, move by move."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.arrays import Floats, Ints
from mooring.chunks.assignment.balancing import Balancer, Scope
from mooring.chunks.assignment.balancing_kernels import burdens_of
from mooring.chunks.complexity import ComplexityMap
from mooring.chunks.model import ArrayOperator, ArrayStream, ChunkProblem, ChunkSite, Switch
from mooring.chunks.partitioning import Partitioning
from mooring.chunks.timing.arrays import WorkTables
from mooring.chunks.timing.simulate import FrameSimulation

EVEN = ComplexityMap.even(1.0, 1)


def problem_of(inputs: Sequence[Sequence[str]], speeds: Sequence[float]) -> ChunkProblem:
    """Operators o0, o1, ... with these inputs, over arrays of four cells of one cycle."""
    return ChunkProblem(
        (ArrayStream("in", (4,), cell_bytes=0.0),),
        tuple(
            ArrayOperator(f"o{k}", tuple(names), (4,), EVEN, cell_bytes=0.0) for k, names in enumerate(inputs)
        ),
        tuple(ChunkSite(f"s{k}", speed) for k, speed in enumerate(speeds)),
        frames_per_s=0.01,
        switch=Switch(latency_ms=0.0, header_bytes=0.0),
    )


FIGURE_4 = problem_of([["in"]] * 4, [1.0] * 4)
FIRST = np.arange(0, 17, 4)
ONES = np.ones(16)
FIGURE_4A = np.repeat(np.arange(4), 4)
"""Each operator's chunks on one site."""
FIGURE_4B = np.tile(np.arange(4), 4)
"""One chunk of each operator on every site."""


def burdens_s(balancer: Balancer, cycles: Floats, first: Ints, site_of: Ints) -> Floats:
    """Per scope and site, the seconds that the chunks there take."""
    found: Floats = burdens_of(cycles, first, site_of, balancer.seconds_per_cycle, balancer.scope)
    return found


def latencies(site_of: Ints) -> list[float]:
    """Of each operator's frame in seconds, with all frames there at once."""
    work = WorkTables(FIGURE_4, 1).of([Partitioning((4,))] * 4)
    gathered_s = FrameSimulation(FIGURE_4).assigned(work, site_of, 1).gathered_s
    return [float(each) for each in gathered_s[:, 0]]


def test_both_allocations_of_figure_4_are_balanced_but_one_is_faster() -> None:
    balancer = Balancer.of(FIGURE_4, Scope.GLOBAL)
    burdens = [burdens_s(balancer, ONES, FIRST, site_of).tolist() for site_of in (FIGURE_4A, FIGURE_4B)]
    assert burdens == [[[4.0] * 4]] * 2
    assert latencies(FIGURE_4A) == [4.0, 4.0, 4.0, 4.0]
    assert latencies(FIGURE_4B) == [1.0, 2.0, 3.0, 4.0]


def test_global_keeps_figure_4a_and_local_turns_it_into_4b() -> None:
    kept = FIGURE_4A.copy()
    assert Balancer.of(FIGURE_4, Scope.GLOBAL).settle(ONES, FIRST, kept) == 0
    assert kept.tolist() == FIGURE_4A.tolist()
    spread = FIGURE_4A.copy()
    assert Balancer.of(FIGURE_4, Scope.LOCAL).settle(ONES, FIRST, spread) == 3
    assert [sorted(spread[k : k + 4].tolist()) for k in (0, 4, 8, 12)] == [[0, 1, 2, 3]] * 4
    assert latencies(spread) == [1.0, 2.0, 3.0, 4.0]


def test_figure_4b_is_settled_in_every_scope() -> None:
    for scope in Scope:
        assert Balancer.of(FIGURE_4, scope).round(ONES, FIRST, FIGURE_4B.copy()) == 0


def test_a_pair_moves_the_largest_chunk_that_lowers_its_maximum() -> None:
    """Burdens 9, 5, 1, 0: the first gives the fourth its 5, the second gives the third its 3."""
    problem = problem_of([["in"]], [1.0] * 4)
    cycles = np.array([5.0, 4.0, 3.0, 2.0, 1.0])
    site_of = np.array([0, 0, 1, 1, 2])
    assert Balancer.of(problem, Scope.LOCAL).round(cycles, np.array([0, 5]), site_of) == 2
    assert site_of.tolist() == [3, 0, 2, 1, 2]


def test_what_does_not_lower_the_maximum_stays() -> None:
    problem = problem_of([["in"]], [2.0, 1.0])
    cycles, first = np.array([4.0]), np.array([0, 1])
    for site in (0, 1):
        site_of = np.array([site])
        Balancer.of(problem, Scope.GLOBAL).settle(cycles, first, site_of)
        assert site_of.tolist() == [0], "the faster site keeps or gets the only chunk"


def test_each_operator_moves_at_most_one_chunk_per_pair_and_round() -> None:
    problem = problem_of([["in"], ["in"]], [1.0, 1.0])
    site_of = np.zeros(8, dtype=np.int64)
    balancer = Balancer.of(problem, Scope.GLOBAL)
    moves = [balancer.round(np.ones(8), np.array([0, 4, 8]), site_of) for _ in range(3)]
    assert moves == [2, 2, 0]
    assert np.bincount(site_of).tolist() == [4, 4]


def test_tiers_see_only_their_own_burden() -> None:
    """Two inputs and their join. Both inputs lie on one site, the join on the other: Global finds the sites
    too unlike and moves on until they are even, Tiered balances inputs and join apart."""
    problem = problem_of([["in"], ["in"], ["o0", "o1"]], [1.0, 1.0])
    assert problem.tiers == (1, 1, 0)
    first = np.array([0, 2, 4, 6])
    site_of = np.array([0, 0, 0, 0, 1, 1])
    Balancer.of(problem, Scope.TIERED).settle(np.ones(6), first, site_of)
    assert sorted(site_of[:4].tolist()) == [0, 0, 1, 1]
    assert sorted(site_of[4:].tolist()) == [0, 1]
    balancer = Balancer.of(problem, Scope.TIERED)
    assert balancer.turn.tolist() == [2, 0, 1], "the tier at the output comes first"


@given(
    seed=st.integers(0, 10_000),
    scope=st.sampled_from(list(Scope)),
    operators=st.integers(1, 4),
    sites=st.integers(1, 6),
)
def test_settling_ends_and_leaves_no_pair_to_improve(
    seed: int, scope: Scope, operators: int, sites: int
) -> None:
    rng = np.random.default_rng(seed)
    inputs = [["in"] if k == 0 else [f"o{int(rng.integers(k))}"] for k in range(operators)]
    problem = problem_of(inputs, rng.uniform(1, 3, sites).tolist())
    first = np.concatenate(([0], np.cumsum(rng.integers(1, 9, operators))))
    cycles: Floats = rng.uniform(0, 5, int(first[-1]))
    site_of = rng.integers(0, sites, int(first[-1]))
    balancer = Balancer.of(problem, scope)
    before = burdens_s(balancer, cycles, first, site_of).max(axis=1)
    balancer.settle(cycles, first, site_of)
    after = burdens_s(balancer, cycles, first, site_of).max(axis=1)
    assert (after <= before + 1e-9).all()
    assert balancer.round(cycles, first, site_of.copy()) == 0


def test_chunks_stay_on_the_sites_that_their_operator_may_use() -> None:
    problem = problem_of([["in"], ["in"]], [1.0, 1.0, 1.0])
    allowed = np.array([[True, True, False], [False, True, True]])
    balancer = Balancer.of(problem, Scope.GLOBAL, allowed)
    first = np.array([0, 8, 16])
    site_of = balancer.round_robin(first)
    balancer.settle(np.random.default_rng(0).random(16), first, site_of)
    assert set(site_of[:8].tolist()) == {0, 1}
    assert set(site_of[8:].tolist()) == {1, 2}


def test_a_site_that_others_use_half_of_counts_as_half_as_fast() -> None:
    problem = problem_of([["in"]], [1.0, 2.0])
    seconds = Balancer.of(problem, Scope.LOCAL).seconds_per_cycle
    assert seconds == pytest.approx([1.0, 0.5])
