"""Fixed sets of sites per operator are those of the paper's figure 8."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.chunks.assignment.node_sets import dedicated_sets, shared_sets
from mooring.chunks.complexity import ComplexityMap
from mooring.chunks.model import ArrayOperator, ArrayStream, ChunkProblem, ChunkSite
from mooring.errors import InfeasibleError

EVEN = ComplexityMap.even(1.0, 1)
FIGURE_8 = ChunkProblem(
    (ArrayStream("in", (4,)),),
    tuple(ArrayOperator(name, ("in",), (4,), EVEN) for name in "abc"),
    tuple(ChunkSite(f"s{k}", 2.0 if k % 2 else 1.0) for k in range(6)),
    frames_per_s=1.0,
)
FAST = [1, 3, 5]
SLOW = [0, 2, 4]


def test_dedicated_sets_have_one_fast_and_one_slow_site_each() -> None:
    allowed = dedicated_sets(FIGURE_8)
    assert allowed.sum(axis=0).tolist() == [1] * 6
    assert allowed[:, FAST].sum(axis=1).tolist() == [1, 1, 1]
    assert allowed[:, SLOW].sum(axis=1).tolist() == [1, 1, 1]


def test_shared_sets_have_one_fast_and_two_slow_sites_each() -> None:
    allowed = shared_sets(FIGURE_8)
    assert allowed[:, FAST].sum(axis=0).tolist() == [1, 1, 1]
    assert allowed[:, SLOW].sum(axis=0).tolist() == [2, 2, 2]
    assert allowed[:, FAST].sum(axis=1).tolist() == [1, 1, 1]
    assert allowed[:, SLOW].sum(axis=1).tolist() == [2, 2, 2]


def test_fewer_sites_than_operators_are_refused() -> None:
    few = replace(FIGURE_8, sites=FIGURE_8.sites[:2])
    for sets in (dedicated_sets, shared_sets):
        with pytest.raises(InfeasibleError, match="2 sites for 3 operators"):
            sets(few)
