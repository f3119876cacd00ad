"""Who reads whom, and in which order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.errors import InputError
from mooring.model.problem.problem import Problem


def problem(**inputs: Any) -> Problem:
    operators = {
        name: own if isinstance(own, dict) else {"inputs": own, "cost_us": 1} for name, own in inputs.items()
    }
    return Problem.from_dict(
        {"sites": {"a": {"capacity": 1}}, "streams": {"s": {"rate": 1}}, "operators": operators}
    )


def test_producers_come_before_their_readers_whatever_the_order_in_the_file() -> None:
    graph = problem(last=["middle", "first"], middle=["first"], first=["s"]).graph
    assert graph.order == (2, 1, 0)
    assert graph.ports[0] == ((2,), (3,))
    assert graph.readers[0] == (2,)


def test_a_reader_of_a_split_operator_reads_every_instance() -> None:
    graph = problem(o={"inputs": ["s"], "cost_us": 1, "instances": 3}, p=["o", "s"]).graph
    assert graph.ports[3] == ((1, 2, 3), (0,))
    assert graph.readers[0] == (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("inputs", "loop"),
    [
        ({"o": ["o"]}, "o -> o"),
        ({"o": ["p"], "p": ["o"]}, "p -> o -> p"),
        ({"x": ["s"], "o": ["q", "x"], "p": ["o"], "q": ["p"], "y": ["q"]}, "p -> q -> o -> p"),
    ],
)
def test_a_cycle_is_refused_and_shown(inputs: dict[str, list[str]], loop: str) -> None:
    with pytest.raises(InputError) as caught:
        problem(**inputs)
    assert caught.value.field is not None
    assert caught.value.field.startswith("operators.")
    found = str(caught.value).split("cycle: ")[1].split(";")[0].split(" -> ")
    assert found[0] == found[-1]
    # The same loop, wherever it is entered.
    around = loop.split(" -> ")[:-1]
    assert found[:-1] in [around[k:] + around[:k] for k in range(len(around))]


def test_a_long_cycle_is_cut_short_in_the_message() -> None:
    inputs = {f"o{k}": [f"o{(k + 1) % 5000}"] for k in range(5000)}
    with pytest.raises(InputError) as caught:
        problem(**inputs)
    assert len(str(caught.value)) < 200


@given(st.lists(st.lists(st.integers(0, 9), max_size=3, unique=True), min_size=1, max_size=10))
def test_an_order_is_found_exactly_when_there_is_no_cycle(edges: list[list[int]]) -> None:
    count = len(edges)
    inputs = {f"o{j}": ["s", *[f"o{i}" for i in own if i < count]] for j, own in enumerate(edges)}
    reach = {j: {i for i in own if i < count} for j, own in enumerate(edges)}
    for k in range(count):  # Warshall's closure
        for j in range(count):
            if k in reach[j]:
                reach[j] |= reach[k]
    if any(j in reach[j] for j in range(count)):
        with pytest.raises(InputError, match="cycle"):
            problem(**inputs)
    else:
        graph = problem(**inputs).graph
        position = {j: at for at, j in enumerate(graph.order)}
        assert sorted(position) == list(range(count))
        assert all(position[i] < position[j] for j in range(count) for i in reach[j])


def test_instances_that_would_need_too_many_arcs_are_refused() -> None:
    wide = {"cost_us": 1, "instances": 100_000}
    with pytest.raises(InputError, match="arcs between instances"):
        problem(o={"inputs": ["s"], **wide}, p={"inputs": ["o"], **wide})
