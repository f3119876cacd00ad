"""Scatter, compute and gather as Spark's workers run them, over Arrow batches and without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from mooring.arrays import Cells
from mooring.chunks.data.array_frame import ArrayFrame
from mooring.chunks.data.array_function import ArrayFunction, CellToCell, RegionToCell, shifted_sum
from mooring.chunks.data.chunk import header_from_bytes
from mooring.chunks.data.chunk_time import ChunkTime
from mooring.chunks.data.learned_routes import LearnedRoutes
from mooring.chunks.data.routing_table import Route, RoutingTable
from mooring.chunks.partitioning import Bounds
from mooring.errors import EngineError, InputError
from mooring.spark.chunks.bins import Bins, FixedBins, LearningBins
from mooring.spark.chunks.chunk_rows import computer
from mooring.spark.chunks.chunked import gatherer, scatterer
from mooring.spark.chunks.frame_rows import frame_table, frames_of, times_of


def smooth(window: Cells, where: Bounds) -> Cells:
    return shifted_sum(window.astype(np.float64), np.full((3, 3), 1 / 9))


BLUR = ArrayFunction("blur", RegionToCell.window(1, 1, boundary="wrap"), smooth)
FRAMES = [
    ArrayFrame(n, 100.0 + n, np.random.default_rng(n).integers(0, 255, (12, 10)).astype("u1"))
    for n in range(4)
]


def micro_batch(bins: Bins, frames: list[ArrayFrame], function: ArrayFunction = BLUR) -> list[pa.RecordBatch]:
    chunks = list(scatterer(function, bins, ("cells",))(iter(frame_table(frames).to_batches())))
    by_bin: dict[int, list[pa.RecordBatch]] = {}
    for chunk in chunks:
        by_bin.setdefault(chunk.column("node")[0].as_py() % bins.count, []).append(chunk)
    computing = computer({function.name: function})
    results = [result for own in reversed(by_bin.values()) for result in computing(iter(own))]
    return list(gatherer(function.name, bins)(iter(results)))


def table(*routes: tuple[int, Route]) -> RoutingTable:
    made = RoutingTable.starting_with({"blur": routes[0][1]})
    for from_frame, route in routes[1:]:
        made = made.then(from_frame, {"blur": route})
    return made


def test_frames_come_out_whole_and_in_order_whatever_the_route() -> None:
    bins = FixedBins(2, table((0, Route((2, 1), (0, 1))), (2, Route((3, 4), (1, 0, 1) * 4))))
    batches = micro_batch(bins, FRAMES[::-1])
    out = [frame for batch in batches for frame in frames_of(batch)]
    assert [(frame.number, frame.entered_ms) for frame in out] == [(n, 100.0 + n) for n in range(4)]
    assert [frame.cells.tobytes() for frame in out] == [BLUR.whole(frame.cells).tobytes() for frame in FRAMES]
    times = [times_of(batch.column("chunk_times")[0].as_py()) for batch in batches]
    assert [len(own) for own in times] == [2, 2, 12, 12]
    assert {(took.plan, took.node) for took in times[2]} == {(1, 0), (1, 1)}
    assert all(took.scattered_ms <= took.began_ms <= took.ended_ms for own in times for took in own)


def test_a_bin_computes_the_oldest_chunk_first() -> None:
    bins = FixedBins(1, table((0, Route((2, 1), (0, 0)))))
    chunks = list(scatterer(BLUR, bins, ("cells",))(iter(frame_table(FRAMES[::-1]).to_batches())))
    results = computer({"blur": BLUR})(iter(chunks))
    headers = [header_from_bytes(batch.column("header")[0].as_py()) for batch in results]
    assert [(header.frame, header.chunk) for header in headers] == [
        (n, c) for n in range(4) for c in range(2)
    ]


def test_a_frame_without_all_of_its_cells_is_never_handed_on() -> None:
    bins = FixedBins(1, table((0, Route((2, 1), (0, 0)))))
    chunks = list(scatterer(BLUR, bins, ("cells",))(iter(frame_table(FRAMES[:1]).to_batches())))
    half = computer({"blur": BLUR})(iter(chunks[:1]))
    with pytest.raises(EngineError, match="frame 0 came without 60 of its cells"):
        list(gatherer("blur", bins)(half))


def test_routes_are_learned_from_one_micro_batch_for_the_next(tmp_path: Path) -> None:
    """The upper half of the frames is busy: the first route gives it to one bin, the next one to both."""

    def took(chunk: int, cpu_ms: float, bounds: Bounds) -> ChunkTime:
        return ChunkTime("blur", 0, chunk, chunk, bounds.start, bounds.stop, cpu_ms, 0.0, 0.0, 0.0)

    bins = LearningBins(tmp_path / "routes", LearnedRoutes((1.0, 1.0), most_chunks=8, chunk_ms=0.1))
    equal = Route((2, 1), (0, 1))
    assert bins.routes("blur").at(0, (12, 10)) == (0, equal)
    upper, lower = equal.bounds((12, 10))
    bins.learn("blur", [(7, (12, 10), [took(0, 90.0, upper), took(1, 10.0, lower)])])
    _, route = bins.routes("blur").at(8, (12, 10))
    shares_ms = [0.0, 0.0]
    for box, node in zip(route.bounds((12, 10)), route.nodes, strict=True):
        rows = np.arange(box.start[0], box.stop[0])
        shares_ms[node] += float(np.where(rows < 6, 1.5, 1 / 6).sum()) * (box.stop[1] - box.start[1])
    assert max(shares_ms) < 55.0
    assert bins.routes("blur").at(7, (12, 10)) == (0, equal)
    assert bins.routes("edges").at(8, (12, 10)) == (0, equal)
    out = [frame for batch in micro_batch(bins, FRAMES) for frame in frames_of(batch)]
    assert [frame.cells.tobytes() for frame in out] == [BLUR.whole(frame.cells).tobytes() for frame in FRAMES]


def test_costs_that_cannot_be_read_are_learned_anew(tmp_path: Path) -> None:
    bins = LearningBins.on_cores(tmp_path, 2)
    (tmp_path / "blur.costs").write_bytes(b"half a fi")
    assert len(micro_batch(bins, FRAMES[:2])) == 2
    assert (tmp_path / "blur.costs").stat().st_size > 100


def test_an_operator_without_a_route_is_named() -> None:
    bins = FixedBins(1, RoutingTable.starting_with({"edges": Route((1, 1), (0,))}))
    with pytest.raises(InputError, match="no route for the operator 'blur'"):
        micro_batch(bins, FRAMES[:1])


def test_a_join_of_two_array_columns(tmp_path: Path) -> None:
    def difference(left: Cells, right: Cells, where: Bounds) -> Cells:
        return left.astype(np.int16) - right

    function = ArrayFunction("blur", CellToCell(), difference)
    rows = frame_table(FRAMES[:1]).append_column("background", pa.array([FRAMES[1].cells.tobytes()]))
    bins = FixedBins(2, table((0, Route((2, 1), (0, 1)))))

    def stages() -> Iterator[pa.RecordBatch]:
        chunks = scatterer(function, bins, ("cells", "background"))(iter(rows.to_batches()))
        return gatherer("blur", bins)(computer({"blur": function})(chunks))

    (out,) = [frame for batch in stages() for frame in frames_of(batch)]
    np.testing.assert_array_equal(out.cells, FRAMES[0].cells.astype(np.int16) - FRAMES[1].cells)
