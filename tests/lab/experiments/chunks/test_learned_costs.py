"""Costs are learned as cycles, whatever site a chunk ran on, and hold for other partitionings."""

from __future__ import annotations

import numpy as np
import pytest

from lab.experiments.chunks.learned_costs import LearnedCosts, cycles_spent, estimates_by_frame
from mooring.chunks.complexity import ComplexityMap
from mooring.chunks.model import ArrayOperator, ArrayStream, ChunkProblem, ChunkSite, LoadStep
from mooring.chunks.partitioning import Partitioning

BUSY = ComplexityMap(np.array([[8.0, 1.0], [1.0, 2.0]]))
SHAPE = (32, 32)
PROBLEM = ChunkProblem(
    (ArrayStream("in", SHAPE),), (ArrayOperator("o", ("in",), SHAPE, BUSY),), (ChunkSite("a", 1e3),), 1.0
)


def test_the_same_chunk_is_as_many_cycles_on_any_site() -> None:
    fast, loaded = ChunkSite("fast", 2e6), ChunkSite("loaded", 2e6, 1, (LoadStep(10.0, 0.5),))
    assert cycles_spent(fast, 0.5, 0.0) == cycles_spent(loaded, 1.0, 12.0) == 1e6


def test_what_is_learned_from_fine_chunks_holds_for_coarse_ones() -> None:
    learned = LearnedCosts(PROBLEM)
    fine, coarse = Partitioning((4, 4)), Partitioning((2, 1))
    assert len(set(learned.estimates(0, fine).tolist())) == 1, "nothing known: all alike"
    learned.observe(0, fine, BUSY.chunk_cycles(SHAPE, fine, 0).tolist())
    assert learned.estimates(0, fine) == pytest.approx(BUSY.chunk_cycles(SHAPE, fine, 0))
    assert learned.estimates(0, coarse) == pytest.approx(BUSY.chunk_cycles(SHAPE, coarse, 0))


def test_a_moving_region_is_followed_with_the_lag_of_what_is_known() -> None:
    moving = ComplexityMap(np.array([[9.0, 1.0, 1.0, 1.0]]), (0.0, 8.0))
    halves = Partitioning((1, 4))
    cycles = moving.chunk_cycles_by_frame(SHAPE, halves, np.arange(6))
    rng = np.random.default_rng(0)
    believed = estimates_by_frame(PROBLEM, [halves], cycles, 1, 0.0, rng)
    assert believed[0] == pytest.approx(cycles[0])
    busiest = cycles.argmax(axis=1)
    assert believed.argmax(axis=1)[3:].tolist() == busiest[2:-1].tolist()
