"""A chunk problem knows its graph, and says what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

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
from mooring.chunks.partitioning import Bounds
from mooring.errors import InputError

EVEN = ComplexityMap.even(10.0, 2)


def operator(name: str, *inputs: str) -> ArrayOperator:
    return ArrayOperator(name, inputs, (4, 4), EVEN)


SIMPLE = ChunkProblem(
    streams=(ArrayStream("left", (4, 4)), ArrayStream("right", (4, 4))),
    operators=(operator("a", "left"), operator("b", "right"), operator("join", "a", "b")),
    sites=(ChunkSite("one", 160.0), ChunkSite("two", 80.0, 2, (LoadStep(5.0, 0.5),))),
    frames_per_s=0.5,
)


def test_tiers_are_counted_from_the_outputs() -> None:
    longer = replace(SIMPLE, operators=(*SIMPLE.operators, operator("end", "join"), operator("side", "left")))
    assert longer.tiers == (2, 2, 1, 0, 0)
    assert longer.outputs == (3, 4)
    assert longer.ancestors[3] == {0, 1, 2}
    assert SIMPLE.readers == ((2,), (2,), ())


def test_load_is_what_frames_need_of_all_cores() -> None:
    assert SIMPLE.load() == pytest.approx(3 * 160 * 0.5 / 320)
    assert SIMPLE.sites[1].cycles_per_s_left(4.0) == 160.0
    assert SIMPLE.sites[1].cycles_per_s_left(5.0) == 80.0


def test_a_chunk_is_given_what_its_mapping_needs() -> None:
    corner = Bounds((0, 0), (2, 2))
    by_class = {
        kind: ArrayOperator("o", ("left",), (4, 4), EVEN, kind, (1, 1)).needs(corner, (4, 4)).cells
        for kind in MappingClass
    }
    assert list(by_class.values()) == [4, 9, 16, 16]


def test_what_cannot_be_cut_is_one_chunk() -> None:
    whole = ArrayOperator("o", ("left",), (4, 4), EVEN, MappingClass.WHOLE)
    assert [each.count for each in whole.partitionings(16)] == [1]


def test_a_message_occupies_its_port_for_its_bits() -> None:
    assert Switch(100.0, header_bytes=0.0).transfer_s(12_500) == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda p: replace(p, sites=()), "no sites"),
        (lambda p: replace(p, frames_per_s=0.0), "frames per second"),
        (lambda p: replace(p, operators=(operator("a", "b"), operator("b", "a"))), "wait for one another"),
        (lambda p: replace(p, operators=(operator("a", "middle"),)), "found input 'middle'"),
        (lambda p: replace(p, operators=(operator("left", "right"),)), "more than once"),
        (lambda p: replace(p, sites=(ChunkSite("one", 1.0, 1, (LoadStep(0, 1.0),)),)), "external load"),
        (lambda p: replace(p, streams=(ArrayStream("left", (4, 5)), p.streams[1])), "expected the same"),
    ],
)
def test_a_wrong_problem_is_refused_with_the_reason(
    change: Callable[[ChunkProblem], ChunkProblem], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        change(SIMPLE)
