"""Frames take as long as arithmetic says, and as the data-plane simulator says where both can tell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from mooring.chunks.complexity import ComplexityMap
from mooring.chunks.model import ArrayOperator, ArrayStream, ChunkProblem, ChunkSite, LoadStep, Switch
from mooring.chunks.partitioning import Partitioning
from mooring.chunks.timing.arrays import WorkTables
from mooring.chunks.timing.simulate import FrameSimulation, FrameTimes
from mooring.simulator.data_plane.arrivals import Replay
from mooring.simulator.data_plane.model import Model, Reader
from mooring.simulator.data_plane.simulation import NO_LIMITS, Simulation

WHOLE = Partitioning((1,))


def problem_of(
    inputs: Sequence[Sequence[str]],
    costs: Sequence[float],
    sites: Sequence[ChunkSite],
    *,
    frames_per_s: float = 0.001,
    latency_ms: float = 0.0,
    cell_bytes: float = 0.0,
) -> ChunkProblem:
    """Operators o0, o1, ... over four cells, of so many cycles a frame; 1 byte takes 1 s on the switch."""
    return ChunkProblem(
        (ArrayStream("in", (4,), cell_bytes),),
        tuple(
            ArrayOperator(f"o{k}", tuple(names), (4,), ComplexityMap.even(cost / 4, 1), cell_bytes=cell_bytes)
            for k, (names, cost) in enumerate(zip(inputs, costs, strict=True))
        ),
        tuple(sites),
        frames_per_s,
        Switch(8e-6, latency_ms, header_bytes=0.0),
    )


def gathered(
    problem: ChunkProblem, parts: Sequence[int], site_of: Sequence[int], frames: int = 1
) -> FrameTimes:
    work = WorkTables(problem, frames).of([Partitioning((each,)) for each in parts])
    return FrameSimulation(problem).assigned(work, np.array(site_of), frames)


def test_chunks_travel_one_after_the_other_and_results_too() -> None:
    """Two chunks of 2 cells: they arrive at 2 and 4 s, are done at 5 and 7 s, are back at 7 and 9 s."""
    problem = problem_of([["in"]], [6.0], [ChunkSite("a", 1.0), ChunkSite("b", 1.0)], cell_bytes=1.0)
    assert gathered(problem, [2], [0, 1]).gathered_s.tolist() == [[9.0]]


def test_a_site_takes_the_oldest_frame_first() -> None:
    """Frames at 0, 3 and 6 s, each of 4 s at o0 and at o1, on one site: from 8 s on, o1 of the first two
    frames goes before o0 of the third, which came before o1 of the second."""
    problem = problem_of([["in"], ["o0"]], [4.0, 4.0], [ChunkSite("a", 1.0)], frames_per_s=1 / 3)
    times = gathered(problem, [1, 1], [0, 0], frames=3)
    assert times.gathered_s.tolist() == [[4.0, 8.0, 20.0], [12.0, 16.0, 24.0]]
    assert times.latency_ms.tolist() == [12000.0, 13000.0, 18000.0]


def test_of_one_frame_a_site_takes_what_is_closest_to_the_outputs_first() -> None:
    """While the first site does o0, o3 comes and then o2, which nobody reads: it goes first."""
    problem = problem_of(
        [["in"], ["in"], ["o1"], ["in"], ["o3"]],
        [4.0, 1.0, 2.0, 2.0, 1.0],
        [ChunkSite("a", 1.0), ChunkSite("b", 1.0)],
    )
    times = gathered(problem, [1] * 5, [0, 1, 0, 0, 1])
    assert times.gathered_s[:, 0].tolist() == [4.0, 1.0, 6.0, 8.0, 9.0]


def test_a_join_waits_for_both_its_inputs() -> None:
    problem = problem_of(
        [["in"], ["in"], ["o0", "o1"]], [1.0, 5.0, 2.0], [ChunkSite("a", 1.0), ChunkSite("b", 1.0)]
    )
    assert gathered(problem, [1, 1, 1], [0, 1, 0]).gathered_s.tolist() == [[1.0], [5.0], [7.0]]


def test_cores_of_a_site_share_one_queue() -> None:
    problem = problem_of([["in"]], [8.0], [ChunkSite("a", 1.0, cores=2)])
    assert gathered(problem, [4], [0] * 4).gathered_s.tolist() == [[4.0]]
    assert gathered(problem, [1], [0]).gathered_s.tolist() == [[8.0]]


def test_external_load_slows_a_chunk_that_is_under_way() -> None:
    """Four cycles at full speed until 4 s, then half speed until 8 s for two more, then full speed again."""
    site = ChunkSite("a", 1.0, 1, (LoadStep(4.0, 0.5), LoadStep(8.0, 0.0)))
    assert gathered(problem_of([["in"]], [10.0], [site]), [1], [0]).gathered_s.tolist() == [[12.0]]


def test_frames_are_passed_on_in_order() -> None:
    """Frame 0 goes to a slow site, frame 1 to a fast one: it is done first and waits."""
    problem = problem_of(
        [["in"]], [10.0], [ChunkSite("slow", 1.0), ChunkSite("fast", 10.0)], frames_per_s=1.0
    )
    work = WorkTables(problem, 2).of([WHOLE])
    times = FrameSimulation(problem).assigned(work, np.array([[0], [1]]), 2)
    assert times.gathered_s.tolist() == [[10.0, 10.0]]


def test_a_moving_map_costs_each_frame_what_it_costs_then() -> None:
    busy = ComplexityMap(np.array([3.0, 1.0, 0.0, 0.0]), (2.0,))
    problem = ChunkProblem(
        (ArrayStream("in", (4,), 0.0),),
        (ArrayOperator("o", ("in",), (4,), busy, cell_bytes=0.0),),
        (ChunkSite("a", 1.0), ChunkSite("b", 2.0)),
        0.01,
        Switch(100.0, 0.0, 0.0),
    )
    work = WorkTables(problem, 2).of([Partitioning((2,))])
    assert FrameSimulation(problem).assigned(work, np.array([0, 1]), 2).latency_ms.tolist() == [
        4000.0,
        2000.0,
    ]


def test_many_chunks_may_wait_at_one_site() -> None:
    problem = problem_of([["in"]], [4.0], [ChunkSite("a", 1.0)], frames_per_s=100.0)
    assert gathered(problem, [4], [0] * 4, frames=300).gathered_s[0, -1] == pytest.approx(1200.0)


@pytest.mark.parametrize("seed", range(5))
def test_a_chain_takes_what_the_data_plane_simulator_says(seed: int) -> None:
    """Six operators of one chunk over three sites, one of which loses half its cores on the way, at nine
    tenths of the load that the fullest site can bear."""
    rng = np.random.default_rng(seed)
    costs, sites = rng.uniform(0.5, 1.5, 6), rng.permutation([0, 1, 2, 0, 1, 2])
    fullest = max(costs[sites == site].sum() for site in range(3))
    frames, period_s, latency_s = 200, fullest / 0.9, 0.03
    change_s = 100 * period_s
    problem = problem_of(
        [["in"], *([f"o{k}"] for k in range(5))],
        costs.tolist(),
        [ChunkSite("s0", 1.0, 1, (LoadStep(change_s, 0.3),)), ChunkSite("s1", 1.0), ChunkSite("s2", 1.0)],
        frames_per_s=1 / period_s,
        latency_ms=1e3 * latency_s,
    )
    ours = gathered(problem, [1] * 6, sites.tolist(), frames).latency_ms

    model = Model()
    model.site(1.0, oldest_first=True, changes=((change_s, 0.7),))
    model.site(1.0, oldest_first=True)
    model.site(1.0, oldest_first=True)
    steps = [model.operator(int(site)) for site in sites]
    source = model.source(Replay(np.arange(frames) * period_s))
    waits = [latency_s] + [2 * latency_s] * 5
    readers = [
        Reader(operator=step, cost_us=1e6 * cost, latency_s=wait)
        for step, cost, wait in zip(steps, costs.tolist(), waits, strict=True)
    ]
    model.from_source(source, readers[0])
    for step, reader in zip(
        steps, [*readers[1:], Reader(query=model.query(), latency_s=latency_s)], strict=True
    ):
        model.from_operator(step, reader)
    simulation = Simulation(model, rng, horizon_s=10 * frames * period_s, bins=1, limits=NO_LIMITS)
    simulation.run(10 * frames * period_s)
    theirs = simulation.latency()
    assert theirs.tuples == frames
    assert ours.mean() == pytest.approx(theirs.mean_ms, rel=1e-9)
    assert ours.max() == pytest.approx(theirs.max_ms, rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_chunks_take_what_the_data_plane_simulator_says(seed: int) -> None:
    """One operator of twelve chunks over three sites: every chunk is an operator of its own there, and the
    frame is done with the last of them."""
    rng = np.random.default_rng(seed)
    shape, cells = (12,), rng.uniform(0.5, 1.5, 12)
    sites = rng.integers(0, 3, 12)
    period_s = max(cells[sites == site].sum() for site in range(3)) / 0.95
    problem = ChunkProblem(
        (ArrayStream("in", shape, 0.0),),
        (ArrayOperator("o", ("in",), shape, ComplexityMap(cells), cell_bytes=0.0),),
        tuple(ChunkSite(f"s{k}", 1.0) for k in range(3)),
        1 / period_s,
        Switch(100.0, 0.0, 0.0),
    )
    work = WorkTables(problem, 1).of([Partitioning((12,))])
    ours = FrameSimulation(problem).assigned(work, sites, 50).latency_ms

    model = Model()
    for _ in range(3):
        model.site(1.0, oldest_first=True)
    source = model.source(Replay(np.arange(50) * period_s))
    for site, cost in zip(sites.tolist(), cells.tolist(), strict=True):
        chunk = model.operator(site)
        model.from_source(source, Reader(operator=chunk, cost_us=1e6 * cost))
        model.from_operator(chunk, Reader(query=model.query()))
    simulation = Simulation(model, rng, horizon_s=100 * period_s, bins=1, limits=NO_LIMITS)
    simulation.run(100 * period_s)
    last = max(simulation.latency([query]).mean_ms for query in range(12))
    assert ours.mean() == pytest.approx(last, rel=1e-9)
