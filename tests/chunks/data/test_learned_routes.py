"""Routes follow where the work is, and how fast the nodes are."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mooring.arrays import Floats
from mooring.chunks.assignment.earliest_finish_kernels import dispatch_chunk, largest_first
from mooring.chunks.data.chunk_time import ChunkTime
from mooring.chunks.data.learned_routes import CostMap, LearnedRoutes, earliest_finish, equal_chunks
from mooring.chunks.data.routing_table import Route
from mooring.chunks.partitioning import Partitioning

SHAPE = (64, 64)


def true_cost(busy_from: int) -> Floats:
    """CPU milliseconds per cell: ten times as much in a quarter of the columns."""
    cost = np.full(SHAPE, 0.001)
    cost[:, busy_from : busy_from + 16] *= 10
    return cost


def measured(route: Route, cost: Floats) -> list[ChunkTime]:
    return [
        ChunkTime("blur", 0, k, route.nodes[k], box.start, box.stop, float(cost[box.slices].sum()), 0, 0, 0)
        for k, box in enumerate(route.bounds(SHAPE))
    ]


def makespan_ms(route: Route, cost: Floats, speeds: tuple[float, ...]) -> float:
    ends = np.zeros(len(speeds))
    for took in measured(route, cost):
        ends[took.node] += took.cpu_ms / speeds[took.node]
    return float(ends.max())


def test_routes_follow_a_busy_region_that_moves() -> None:
    """Planned from the frames before it, a frame takes within a tenth of half its work, on average."""
    planner = LearnedRoutes((1.0, 1.0), most_chunks=16, chunk_ms=0.1)
    costs, route = CostMap.unknown(SHAPE), equal_chunks(SHAPE, 2)
    planned, equal = [], []
    for busy_from in range(0, 48, 2):
        cost = true_cost(busy_from)
        planned.append(makespan_ms(route, cost, planner.speeds))
        equal.append(makespan_ms(Route((1, 2), (0, 1)), cost, planner.speeds))
        costs = costs.learn(measured(route, cost))
        route = planner.best(costs)
    ideal_ms = true_cost(0).sum() / 2
    assert np.mean(planned[2:]) < 1.1 * ideal_ms < 1.5 * ideal_ms < np.mean(equal[2:])


def test_a_node_of_half_the_speed_gets_half_the_work() -> None:
    planner = LearnedRoutes((1.0, 0.5), most_chunks=16, chunk_ms=0.0, slack=0.0)
    even = np.full(SHAPE, 0.01)
    costs = CostMap.unknown(SHAPE).learn(measured(equal_chunks(SHAPE, 2), even))
    route = planner.best(costs)
    assert makespan_ms(route, even, planner.speeds) <= 1.02 * even.sum() / 1.5


def test_a_chunk_is_not_finer_than_it_is_worth() -> None:
    """Costs that are even need one chunk per node when every chunk costs something more."""
    costs = CostMap.unknown(SHAPE).learn(measured(equal_chunks(SHAPE, 2), np.full(SHAPE, 0.01)))
    assert len(LearnedRoutes((1.0, 1.0), chunk_ms=5.0).best(costs).nodes) == 2


def test_a_slow_node_that_costs_more_than_it_helps_gets_nothing() -> None:
    costs = CostMap.unknown(SHAPE).learn(measured(equal_chunks(SHAPE, 2), np.full(SHAPE, 0.01)))
    helps, costs_too_much = (
        LearnedRoutes((1.0, 0.1), chunk_ms=0.0, job_ms=ms).best(costs) for ms in (0.0, 10.0)
    )
    assert set(helps.nodes) == {0, 1}
    assert set(costs_too_much.nodes) == {0}


def test_nodes_that_are_busy_get_less() -> None:
    costs = CostMap.unknown(SHAPE).learn(measured(equal_chunks(SHAPE, 2), np.full(SHAPE, 0.01)))
    route = LearnedRoutes((1.0, 1.0), chunk_ms=0.0).best(costs, free_ms=[1000.0, 0.0])
    assert set(route.nodes) == {1}


def test_a_coarse_chunk_does_not_wipe_out_what_finer_ones_told() -> None:
    cost = true_cost(16)
    costs = CostMap.unknown(SHAPE).learn(measured(Route((4, 4), (0,) * 16), cost))
    for _ in range(2):
        costs = costs.learn(measured(Route((1, 2), (0, 1)), cost))
    quarters = costs.chunk_ms(Partitioning((1, 4)))
    assert quarters[1] > 2 * quarters[0]


def test_what_is_learned_of_one_partitioning_tells_of_another() -> None:
    cost = true_cost(16)
    fine = Route((4, 4), (0,) * 16)
    costs = CostMap.unknown(SHAPE).learn(measured(fine, cost))
    halves = [cost[:, :32].sum(), cost[:, 32:].sum()]
    np.testing.assert_allclose(costs.chunk_ms(Partitioning((1, 2))), halves)


@given(
    st.lists(st.floats(0.0, 10.0), min_size=1, max_size=12),
    st.lists(st.floats(0.1, 4.0), min_size=1, max_size=4),
)
def test_earliest_finish_places_every_chunk_and_is_within_twice_the_ideal(
    work: list[float], speeds: list[float]
) -> None:
    """Graham's guarantee for list scheduling on machines of different speed, the loose form."""
    nodes, last_ms = earliest_finish(np.array(work), speeds, [0.0] * len(speeds))
    assert len(nodes) == len(work)
    ideal = max(sum(work) / sum(speeds), max(work) / max(speeds))
    assert last_ms <= 2.0 * ideal + 1e-9


def test_earliest_finish_is_that_of_the_simulated_chunks() -> None:
    """Plans made while frames flow go by plain Python, simulated ones by a kernel: the same decisions."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        work, speeds = rng.random(9) * 10, rng.random(3) + 0.1
        free_s, order = np.zeros(3), np.empty(9, dtype=np.int64)
        largest_first(work, 0, 9, order)
        nodes = np.empty(9, dtype=np.int64)
        for chunk in order:
            nodes[chunk] = dispatch_chunk(
                work[chunk], 0.0, free_s, np.arange(4), speeds, np.ones(3, dtype=np.bool_)
            )
        made, last_ms = earliest_finish(work, list(speeds), [0.0] * 3)
        assert list(made) == nodes.tolist()
        assert np.isclose(last_ms, free_s.max())


def test_equal_chunks_are_one_per_node() -> None:
    assert equal_chunks((480, 640), 2) == Route((2, 1), (0, 1))
    assert equal_chunks((1, 1), 3) == Route((1, 1), (0,))
