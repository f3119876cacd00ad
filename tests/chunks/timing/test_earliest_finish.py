"""Earliest finish sends each chunk where it will be done first, by what it believes."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.chunks.complexity import ComplexityMap
from mooring.chunks.model import ArrayOperator, ArrayStream, ChunkProblem, ChunkSite, LoadStep, Switch
from mooring.chunks.partitioning import Partitioning
from mooring.chunks.timing.arrays import WorkTables
from mooring.chunks.timing.simulate import FrameSimulation


def problem_of(cells: list[float], *sites: ChunkSite, frames_per_s: float = 0.01) -> ChunkProblem:
    shape = (len(cells),)
    return ChunkProblem(
        (ArrayStream("in", shape, 0.0),),
        (ArrayOperator("o", ("in",), shape, ComplexityMap(np.array(cells)), cell_bytes=0.0),),
        sites,
        frames_per_s,
        Switch(100.0, 0.0, 0.0),
    )


def latency_s(problem: ChunkProblem, frames: int = 1, estimates: list[float] | None = None) -> list[float]:
    chunks = problem.operators[0].shape[0]
    work = WorkTables(problem, frames).of([Partitioning((chunks,))])
    believed = None if estimates is None else np.array([estimates])
    times = FrameSimulation(problem).earliest_finish(work, frames, believed)
    return [each / 1e3 for each in times.latency_ms.tolist()]


def test_the_largest_chunks_go_first_and_fast_sites_get_more() -> None:
    """5 to the fast site (2.5 s), 4 there too (4.5 s) rather than to the slow one (4 s)? To the slow one."""
    problem = problem_of([1.0, 4.0, 5.0, 2.0], ChunkSite("slow", 1.0), ChunkSite("fast", 2.0))
    assert latency_s(problem) == [4.0]


def test_cores_of_a_site_are_reckoned_one_by_one() -> None:
    problem = problem_of([3.0, 3.0, 3.0], ChunkSite("two", 1.0, cores=2), ChunkSite("one", 1.0))
    assert latency_s(problem) == [3.0]


def test_a_site_that_others_use_gets_less() -> None:
    loaded = ChunkSite("loaded", 1.0, 1, (LoadStep(0.0, 0.75),))
    assert latency_s(problem_of([1.0] * 5, loaded, ChunkSite("free", 1.0))) == [4.0]


def test_wrong_beliefs_cost_latency_but_are_forgotten_when_a_site_is_idle() -> None:
    problem = problem_of([4.0, 1.0, 1.0, 1.0, 1.0], ChunkSite("a", 1.0), ChunkSite("b", 1.0))
    assert latency_s(problem) == [4.0]
    believed = latency_s(problem, 3, [1.0] * 5)
    assert believed == pytest.approx([believed[0]] * 3)
    assert believed[0] > 4.0


def test_allowed_sites_are_kept_to() -> None:
    problem = problem_of([1.0, 1.0], ChunkSite("a", 1.0), ChunkSite("b", 1.0))
    work = WorkTables(problem, 1).of([Partitioning((2,))])
    allowed = np.array([[False, True]])
    times = FrameSimulation(problem).earliest_finish(work, 1, allowed=allowed)
    assert times.mean_ms() == pytest.approx(2000.0)
