"""Whatever the partitioning: the same bytes as the operator on the whole frame, in order, each frame once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.arrays import Cells
from mooring.chunks.data.array_frame import ArrayFrame, cells_from_bytes
from mooring.chunks.data.array_function import (
    ArrayFunction,
    CellToCell,
    GlobalToCell,
    RegionToCell,
    Uncut,
    shifted_sum,
)
from mooring.chunks.data.boundary import MODES, Boundary
from mooring.chunks.data.chunk import Chunk, ComputedChunk, chunk_from_bytes, chunk_to_bytes
from mooring.chunks.data.scatter_gather import Gather, Scatter, compute
from mooring.chunks.partitioning import Bounds
from mooring.errors import InputError

KINDS = ("u1", "<i2", ">i4", "<f4", "<f8", "?")


def identity(cells: Cells, where: Bounds) -> Cells:
    return cells


def brightness(cells: Cells, where: Bounds) -> Cells:
    return np.sqrt(cells.astype(np.float64)) * 1.1 + 0.3


def difference(left: Cells, right: Cells, where: Bounds) -> Cells:
    return left.astype(np.float64) - right.astype(np.float64)


def share_of_total(cells: Cells, where: Bounds) -> Cells:
    """The total is summed over all cells in one order, whatever the chunk."""
    return cells[where.slices].astype(np.float64) / (1.0 + float(np.abs(cells.astype(np.float64)).sum()))


def weighted(window: Cells, where: Bounds, *, lengths: tuple[int, ...], stride: tuple[int, ...]) -> Cells:
    weights = np.linspace(0.1, 1.7, int(np.prod(lengths))).reshape(lengths)
    return np.asarray(
        shifted_sum(window.astype(np.float64), weights)[tuple(slice(None, None, s) for s in stride)]
    )


@st.composite
def frames(draw: st.DrawFn, most_axes: int = 3) -> Cells:
    shape = draw(st.lists(st.integers(1, 9), min_size=1, max_size=most_axes))
    kind = np.dtype(draw(st.sampled_from(KINDS)))
    values = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 200, shape)
    return values.astype(kind)


@st.composite
def region_to_cell(draw: st.DrawFn, axes: int) -> ArrayFunction:
    counts = st.tuples(*[st.integers(0, 3)] * axes)
    before, after = draw(counts), draw(counts)
    stride = draw(st.tuples(*[st.integers(1, 3)] * axes))
    boundary = Boundary(draw(st.sampled_from(MODES)), draw(st.integers(0, 9)))
    lengths = tuple(b + a + 1 for b, a in zip(before, after, strict=True))

    def kernel(window: Cells, where: Bounds) -> Cells:
        return weighted(window, where, lengths=lengths, stride=stride)

    return ArrayFunction("window", RegionToCell(before, after, boundary, stride), kernel)


@st.composite
def partitions(draw: st.DrawFn, shape: tuple[int, ...]) -> list[Bounds]:
    """Boxes that cover an array: cut anywhere along every axis, finer than any regular partitioning could."""
    cuts = [sorted({0, length, *draw(st.lists(st.integers(0, length), max_size=3))}) for length in shape]
    boxes = itertools.product(*(itertools.pairwise(each) for each in cuts))
    return [Bounds(tuple(a for a, _ in box), tuple(b for _, b in box)) for box in boxes]


def travelled(chunk: Chunk) -> Chunk:
    return chunk_from_bytes(*chunk_to_bytes(chunk))


def computed_chunks(
    operator: ArrayFunction, cells: list[Cells], regions: list[Bounds], frame: int = 0
) -> list[ComputedChunk]:
    inputs = [ArrayFrame(frame, 10.0 * frame, each) for each in cells]
    chunks = Scatter(operator, "gather").cut(inputs, regions)
    return [compute(travelled(chunk), {operator.name: operator}) for chunk in chunks]


def gathered(chunks: list[ComputedChunk]) -> Cells:
    gather = Gather()
    for chunk in chunks:
        gather.add(chunk)
    (frame,) = gather.complete()
    return frame.cells


def assert_same(left: Cells, right: Cells) -> None:
    assert left.dtype == right.dtype
    assert left.shape == right.shape
    assert left.tobytes() == right.tobytes()


@given(st.data())
def test_scatter_then_gather_is_the_identity(data: st.DataObject) -> None:
    cells = data.draw(frames())
    regions = data.draw(partitions(cells.shape))
    assert_same(
        gathered(computed_chunks(ArrayFunction("same", CellToCell(), identity), [cells], regions)), cells
    )


@given(st.data())
def test_a_chunked_operator_equals_the_whole_frame_one_for_any_partitioning(data: st.DataObject) -> None:
    cells = data.draw(frames())
    operator = data.draw(
        st.one_of(
            st.just(ArrayFunction("cells", CellToCell(), brightness)),
            st.just(ArrayFunction("all", GlobalToCell(), share_of_total)),
            st.just(ArrayFunction("uncut", Uncut(), share_of_total)),
            region_to_cell(cells.ndim),
        )
    )
    regions = data.draw(partitions(operator.output_shape([cells.shape])))
    assert_same(gathered(computed_chunks(operator, [cells], regions)), operator.whole(cells))


@given(st.data())
def test_a_join_of_two_frames_is_cut_like_one(data: st.DataObject) -> None:
    left = data.draw(frames())
    operator = ArrayFunction("join", CellToCell(), difference)
    regions = data.draw(partitions(left.shape))
    right = np.flip(left).astype("<f4")
    assert_same(gathered(computed_chunks(operator, [left, right], regions)), operator.whole(left, right))


@given(st.data())
def test_replay_under_another_chunk_plan_gives_the_same_frames(data: st.DataObject) -> None:
    """Chunks of two plans, in any order, some of the first lost and some twice: the same bytes, in order."""
    count = data.draw(st.integers(1, 3))
    cells = [np.random.default_rng(n).integers(0, 9, (5, 6)) for n in range(count)]
    operator = ArrayFunction(
        "window", RegionToCell.window(1, 2), lambda w, at: weighted(w, at, lengths=(3, 5), stride=(1, 1))
    )
    first = [
        c
        for n in range(count)
        for c in computed_chunks(operator, [cells[n]], data.draw(partitions((5, 6))), n)
    ]
    replay = [
        c
        for n in range(count)
        for c in computed_chunks(operator, [cells[n]], data.draw(partitions((5, 6))), n)
    ]
    survived = data.draw(st.lists(st.sampled_from(first), max_size=12))
    gather, out = Gather(), []
    for chunk in data.draw(st.permutations(survived + replay)):
        gather.add(chunk)
        out += list(gather.complete())
    assert [frame.number for frame in out] == list(range(count))
    for frame, given_cells in zip(out, cells, strict=True):
        assert_same(frame.cells, operator.whole(given_cells))


@pytest.mark.parametrize("mode", MODES)
def test_boundaries_are_those_of_scipy(mode: str) -> None:
    from scipy import ndimage

    cells = np.arange(12.0).reshape(3, 4)
    weights = np.arange(1.0, 36.0).reshape(5, 7)  # a window larger than the frame
    operator = ArrayFunction(
        "w", RegionToCell.window(2, 3, boundary=mode, value=5.0), lambda w, _: shifted_sum(w, weights)
    )
    expected = ndimage.correlate(cells, weights, mode=mode, cval=5.0)
    np.testing.assert_allclose(operator.whole(cells), expected)


def test_a_header_says_all_that_is_needed() -> None:
    cells = np.zeros((6, 8), dtype="<f4")
    operator = ArrayFunction("blur", RegionToCell.window(1, 1), lambda window, where: window[1:-1, 1:-1])
    chunk = Scatter(operator, "sc://gather").cut(
        [ArrayFrame(7, 70.0, cells)], [Bounds((0, 4), (3, 8))], plan=3
    )[0]
    header = travelled(chunk).header
    assert header == chunk.header
    assert (header.frame, header.entered_ms, header.operator, header.plan) == (7, 70.0, "blur", 3)
    assert (header.reads, header.halo) == (Bounds((-1, 3), (4, 9)), ((1, 1), (1, 1)))
    assert (header.writes, header.shape, header.gather) == (Bounds((0, 4), (3, 8)), (6, 8), "sc://gather")


def test_an_operator_that_cannot_be_cut_is_one_chunk() -> None:
    operator = ArrayFunction("uncut", Uncut(), share_of_total)
    halves = [Bounds((0,), (2,)), Bounds((2,), (4,))]
    (chunk,) = Scatter(operator, "gather").cut([ArrayFrame(0, 0.0, np.ones(4))], halves)
    assert chunk.header.writes == Bounds.whole((4,))


def test_a_frame_waits_for_the_one_before_it() -> None:
    operator = ArrayFunction("same", CellToCell(), identity)
    regions = [Bounds((0,), (2,)), Bounds((2,), (4,))]
    (a0, b0), (a1, b1) = (computed_chunks(operator, [np.arange(4) + n], regions, n) for n in range(2))
    gather = Gather()
    for chunk in (a1, b1, a0):
        gather.add(chunk)
        assert list(gather.complete()) == []
    assert gather.missing(0) == 2
    gather.add(b0)
    assert [frame.number for frame in gather.complete()] == [0, 1]


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (lambda: ArrayFrame(0, 0.0, np.zeros((0, 3))), "with cells along every axis"),
        (lambda: ArrayFrame(0, 0.0, np.array(["a"])), "expected numbers or booleans"),
        (lambda: Boundary("mirrored"), "expected one of constant"),
        (lambda: RegionToCell((1,), (1, 2)), "one per axis"),
        (lambda: cells_from_bytes(b"abc", "<f4", (2,)), "expected 8 of shape"),
        (
            lambda: computed_chunks(
                ArrayFunction("x", CellToCell(), lambda c, w: c[1:]), [np.ones(3)], [Bounds.whole((3,))]
            ),
            "without the halo",
        ),
        (
            lambda: compute(
                Scatter(ArrayFunction("x", CellToCell(), identity), "").cut(
                    [ArrayFrame(0, 0.0, np.ones(3))], [Bounds.whole((3,))]
                )[0],
                {},
            ),
            "this node does not host",
        ),
        (
            lambda: computed_chunks(
                ArrayFunction("x", CellToCell(), difference), [np.ones(3), np.ones(2)], []
            ),
            "expected one shape",
        ),
    ],
)
def test_mistakes_are_said(mistake: object, said: str) -> None:
    assert callable(mistake)
    with pytest.raises(InputError, match=said):
        mistake()
