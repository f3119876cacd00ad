"""No chunk plan is faster than the bound, and on simple cases some plan reaches it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.chunks.assignment.balancing import Balancer, Scope
from mooring.chunks.complexity import ComplexityMap
from mooring.chunks.model import (
    ArrayOperator,
    ArrayStream,
    ChunkProblem,
    ChunkSite,
    LoadStep,
    MappingClass,
    Switch,
)
from mooring.chunks.partitioning import Partitioning
from mooring.chunks.timing.arrays import WorkTables
from mooring.chunks.timing.latency_bound import latency_bound, operator_limits
from mooring.chunks.timing.simulate import FrameSimulation
from mooring.contracts.deadline import Deadline

FREE = Switch(100.0, 0.0, 0.0)
FRAMES = 12


def random_problem(seed: int) -> ChunkProblem:
    """A few operators over small arrays, some joins, unlike sites, some with external load, any load."""
    rng = np.random.default_rng(seed)
    shape = (8, 8)
    operators: list[ArrayOperator] = []
    for k in range(int(rng.integers(1, 6))):
        known = ["in", *(each.name for each in operators)]
        inputs = tuple(rng.choice(known, min(len(known), int(rng.integers(1, 3))), replace=False).tolist())
        cells = rng.standard_exponential((4, 4))
        moves = tuple(rng.uniform(-1, 1, 2).tolist()) if rng.random() < 0.3 else ()
        overhead = float(rng.random() < 0.5)
        operators.append(
            ArrayOperator(
                f"o{k}", inputs, shape, ComplexityMap(cells, moves), cycles_per_chunk=overhead, cell_bytes=1e3
            )
        )
    sites = tuple(
        ChunkSite(
            f"s{k}",
            float(rng.uniform(50, 200)),
            int(rng.integers(1, 3)),
            (LoadStep(1.0, 0.5), LoadStep(3.0, 0.1)) if rng.random() < 0.3 else (),
        )
        for k in range(int(rng.integers(1, 5)))
    )
    problem = ChunkProblem(
        (ArrayStream("in", shape, 1e3),), tuple(operators), sites, 1.0, Switch(rng.choice([1.0, 100.0]), 1.0)
    )
    return replace(problem, frames_per_s=float(rng.uniform(0.2, 1.3)) / problem.load())


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 100_000))
def test_no_plan_is_faster_on_any_frame(seed: int) -> None:
    problem = random_problem(seed)
    rng = np.random.default_rng(seed)
    tables = WorkTables(problem, FRAMES)
    limits = operator_limits(tables, 8)
    bound_ms = latency_bound(problem, 8, FRAMES, limits=limits).latency_ms
    alone_ms = latency_bound(problem, 8, FRAMES, limits=limits, earlier_frames=0).latency_ms
    assert (alone_ms <= bound_ms * (1 + 1e-9)).all()
    simulation = FrameSimulation(problem)
    choices = [each.partitionings(8) for each in problem.operators]
    for _ in range(4):
        work = tables.of([own[int(rng.integers(len(own)))] for own in choices])
        balancer = Balancer.of(problem, Scope.LOCAL)
        site_of = balancer.round_robin(work.first)
        balancer.settle(work.cycles[0], work.first, site_of)
        for times in (
            simulation.earliest_finish(work, FRAMES),
            simulation.assigned(work, site_of, FRAMES),
            simulation.assigned(work, rng.integers(0, len(problem.sites), len(site_of)), FRAMES),
        ):
            assert (times.latency_ms >= bound_ms * (1 - 1e-9)).all()


def even(cost: float, *inputs: str, name: str = "o") -> ArrayOperator:
    return ArrayOperator(name, inputs, (48,), ComplexityMap.even(cost / 48, 1), cell_bytes=0.0)


def one_operator(*speeds: float) -> ChunkProblem:
    sites = tuple(ChunkSite(f"s{k}", speed) for k, speed in enumerate(speeds))
    return ChunkProblem((ArrayStream("in", (48,), 0.0),), (even(12.0, "in"),), sites, 0.01, FREE)


def test_chunks_are_not_divided_further() -> None:
    """Three like sites, at most two chunks: 6 s, though 12 cycles on three sites would be 4 s."""
    assert latency_bound(one_operator(1.0, 1.0, 1.0), 2, 1).mean_ms() == pytest.approx(6000.0)
    assert latency_bound(one_operator(1.0, 1.0, 1.0), 16, 1).mean_ms() == pytest.approx(4000.0, rel=0.1)


def test_the_bound_of_even_chunks_is_reached_by_earliest_finish() -> None:
    problem = one_operator(1.0, 2.0)
    work = WorkTables(problem, 1).of([Partitioning((3,))])
    assert FrameSimulation(problem).earliest_finish(work, 1).mean_ms() == pytest.approx(4000.0)
    assert latency_bound(problem, 3, 1).mean_ms() == pytest.approx(4000.0)


def test_a_joins_inputs_share_the_sites() -> None:
    """Each input alone would be done in 6 s on both sites, both together in 12 s; then comes the join."""
    problem = ChunkProblem(
        (ArrayStream("in", (48,), 0.0),),
        (even(12.0, "in", name="a"), even(12.0, "in", name="b"), even(2.0, "a", "b", name="join")),
        (ChunkSite("s", 1.0), ChunkSite("t", 1.0)),
        0.01,
        FREE,
    )
    assert latency_bound(problem, 16, 1).mean_ms() == pytest.approx(13_000.0)


def test_what_is_left_of_earlier_frames_raises_the_bound() -> None:
    """At twice what the sites can bear, frame f waits for f frames' work, of which half was done in time."""
    problem = replace(one_operator(1.0, 1.0, 1.0), frames_per_s=0.5)
    alone = latency_bound(problem, 3, 6, earlier_frames=0).latency_ms
    together = latency_bound(problem, 3, 6).latency_ms
    assert alone.tolist() == pytest.approx([4000.0] * 6)
    assert together.tolist() == pytest.approx([4000.0 + 2000.0 * k for k in range(6)])


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 100_000))
def test_transfers_of_a_grid_are_those_of_its_chunks_one_by_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mapping = list(MappingClass)[seed % 3]
    halo = tuple(rng.integers(0, 3, 2).tolist()) if mapping is MappingClass.REGION else ()
    own = ArrayOperator("o", ("in",), (9, 7), ComplexityMap.even(1.0, 2), mapping, halo, 3.0)
    problem = ChunkProblem((ArrayStream("in", (9, 7), 5.0),), (own,), (ChunkSite("s", 1.0),), 1.0, Switch())
    parts = Partitioning(tuple(rng.integers(1, 8, 2).tolist()))
    _, scatter_s, gather_s = WorkTables(problem, 1).of_operator(0, parts)
    boxes = parts.bounds(own.shape)
    transfer_s = problem.switch.transfer_s
    assert scatter_s.tolist() == [transfer_s(own.needs(box, (9, 7)).cells * 5.0) for box in boxes]
    assert gather_s.tolist() == [transfer_s(box.cells * 3.0) for box in boxes]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 100_000), looks=st.integers(0, 30))
def test_a_bound_cut_short_is_a_lower_one(seed: int, looks: int) -> None:
    problem = random_problem(seed)
    tables, ticks = WorkTables(problem, FRAMES), iter(range(1_000_000))
    short = Deadline(lambda: float(next(ticks)), 0.0, float(looks))
    whole_ms = latency_bound(problem, 8, FRAMES).latency_ms
    limits = operator_limits(tables, 8, short)
    assert (latency_bound(problem, 8, FRAMES, limits=limits).latency_ms <= whole_ms * (1 + 1e-9)).all()
