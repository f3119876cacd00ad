"""Frames through a graph of steps on nodes that are slow, fail or vanish: all arrive, in order, unchanged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.arrays import Cells
from mooring.chunks.data.array_frame import ArrayFrame
from mooring.chunks.data.array_function import ArrayFunction, CellToCell, RegionToCell, shifted_sum
from mooring.chunks.data.chunk import ComputedChunk
from mooring.chunks.data.chunk_flow import ArrayStep, ChunkFlow, GatheredFrame, Router, Sent
from mooring.chunks.data.chunk_time import ChunkTime
from mooring.chunks.data.learned_routes import LearnedRoutes
from mooring.chunks.data.routers import EarliestFinishRouter, EqualRouter, TableRouter
from mooring.chunks.data.routing_table import Route, RoutingTable
from mooring.chunks.data.scatter_gather import compute
from mooring.chunks.partitioning import Bounds
from mooring.errors import EngineError, InputError


def smooth(window: Cells, where: Bounds) -> Cells:
    return shifted_sum(window.astype(np.float64), np.full((3, 3), 1 / 9))


def difference(left: Cells, right: Cells, where: Bounds) -> Cells:
    return left - right


BLUR = ArrayFunction("blur", RegionToCell.window(1, 1), smooth)
MORE = ArrayFunction("more", RegionToCell.window(1, 1, boundary="wrap"), smooth)
EDGES = ArrayFunction("edges", CellToCell(), difference)
STEPS = [ArrayStep(BLUR, ("camera",)), ArrayStep(MORE, ("blur",)), ArrayStep(EDGES, ("blur", "more"))]
FUNCTIONS = {step.name: step.function for step in STEPS}


def camera(number: int) -> ArrayFrame:
    return ArrayFrame(number, 10.0 * number, np.random.default_rng(number).integers(0, 99, (9, 8)))


def expected(number: int) -> Cells:
    blurred = BLUR.whole(camera(number).cells)
    return EDGES.whole(blurred, MORE.whole(blurred))


def results(node: int, sent: Sequence[Sent]) -> list[tuple[ComputedChunk, ChunkTime]]:
    made = []
    for each in sent:
        header = each.chunk.header
        bounds = header.writes
        took = ChunkTime(
            header.operator, header.plan, header.chunk, node, bounds.start, bounds.stop, bounds.cells, 0, 0, 0
        )
        made.append((compute(each.chunk, FUNCTIONS), took))
    return made


def made_router(kind: str) -> Router:
    if kind == "equal":
        return EqualRouter(3)
    if kind == "earliest finish":
        return EarliestFinishRouter(LearnedRoutes((1.0, 0.5, 0.2), most_chunks=6))
    route = Route((3, 2), (2, 1, 0, 2, 2, 1))
    return TableRouter(RoutingTable.starting_with(dict.fromkeys(FUNCTIONS, route)))


@pytest.mark.parametrize("kind", ["equal", "earliest finish", "table"])
@settings(max_examples=30)
@given(seed=st.integers(0, 2**32))
def test_every_frame_arrives_once_in_order_and_unchanged(kind: str, seed: int) -> None:
    """Nodes take turns in any order; some fail now and then, and up to two are lost, perhaps with work."""
    rng = np.random.default_rng(seed)
    flow = ChunkFlow(STEPS, 3, made_router(kind))
    count = int(rng.integers(1, 4))
    alive, to_come = [0, 1, 2], list(range(count))
    out: list[GatheredFrame] = []
    while len(out) < count:
        if to_come and rng.random() < 0.3:
            flow.arrive("camera", camera(to_come.pop(0)), now_ms=0.0)
        node = int(rng.choice(alive))
        sent, fate = flow.take(node), rng.random()
        if fate < 0.1 and len(alive) > 1:
            alive.remove(node)
            flow.lose(node)
        elif fate < 0.3:
            flow.give_back(node)
        elif sent:
            flow.done(node, results(node, sent), now_ms=1.0)
        out += [made for made in flow.gathered() if made.operator == "edges"]
    assert [made.frame.number for made in out] == list(range(count))
    for made in out:
        assert made.frame.cells.tobytes() == expected(made.frame.number).tobytes()
        assert made.frame.entered_ms == 10.0 * made.frame.number


def test_a_node_takes_the_oldest_chunks_first_whatever_the_operator() -> None:
    flow = ChunkFlow(STEPS[:2], 1, EqualRouter(1))
    for number in (1, 0):
        flow.arrive("camera", camera(number), now_ms=0.0)
    taken = []
    while sent := flow.take(0):
        taken.append((sent[0].chunk.header.frame, sent[0].chunk.header.operator))
        flow.done(0, results(0, sent), now_ms=1.0)
    assert taken == [(0, "blur"), (0, "more"), (1, "blur"), (1, "more")]


def test_chunks_of_a_lost_node_go_where_the_least_waits() -> None:
    flow = ChunkFlow(STEPS[:1], 2, TableRouter(RoutingTable.starting_with({"blur": Route((2, 1), (0, 1))})))
    flow.arrive("camera", camera(0), now_ms=0.0)
    assert len(flow.take(0)) == 1
    assert flow.lose(0) == 1
    sent = flow.take(1)
    assert len(sent) == 2
    flow.done(1, results(1, sent), now_ms=5.0)
    (made,) = flow.gathered()
    assert isinstance(made, GatheredFrame)
    assert (made.scattered_ms, made.gathered_ms, len(made.times)) == (0.0, 5.0, 2)
    flow.arrive("camera", camera(1), now_ms=6.0)
    assert len(flow.take(1)) == 2
    with pytest.raises(EngineError, match="every node is lost"):
        flow.lose(1)


def test_steps_come_after_what_they_read_and_have_names_of_their_own() -> None:
    with pytest.raises(InputError, match="found 'more' before 'blur'"):
        ChunkFlow([STEPS[1], STEPS[0]], 1, EqualRouter(1))
    with pytest.raises(InputError, match="two steps named 'blur'"):
        ChunkFlow([STEPS[0], STEPS[0]], 1, EqualRouter(1))
