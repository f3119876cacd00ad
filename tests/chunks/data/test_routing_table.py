"""Everybody who looks a frame up finds the same route, from the frame on that a version was made for."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.chunks.data.routing_table import KEPT_VERSIONS, Route, RoutingTable
from mooring.errors import InputError


def halves(*nodes: int) -> dict[str, Route]:
    return {"blur": Route((2, 1), nodes)}


def test_a_version_holds_from_its_frame_until_the_next_one() -> None:
    table = RoutingTable.starting_with(halves(0, 1)).then(10, halves(1, 0)).then(20, halves(1, 1))
    assert [table.at(frame).number for frame in (0, 9, 10, 19, 20, 1000)] == [0, 0, 1, 1, 2, 2]
    assert table.at(10).routes == halves(1, 0)


def test_a_version_that_never_began_is_replaced() -> None:
    table = RoutingTable.starting_with(halves(0, 1)).then(20, halves(1, 0)).then(15, halves(1, 1))
    assert [version.number for version in table.versions] == [0, 2]


def test_old_versions_are_forgotten_and_their_frames_get_the_oldest_that_is_kept() -> None:
    table = RoutingTable.starting_with(halves(0, 1))
    for number in range(1, 40):
        table = table.then(10 * number, halves(number % 2, 1))
    assert len(table.versions) == KEPT_VERSIONS
    assert table.at(0) == table.versions[0]


def test_a_table_comes_back_from_its_file(tmp_path: Path) -> None:
    table = RoutingTable.starting_with(halves(0, 1)).then(7, {"edges": Route((1, 3, 1), (0, 2, 1))})
    table.save(tmp_path / "routes.json")
    assert RoutingTable.load(tmp_path / "routes.json") == table
    with pytest.raises(InputError, match="no routing table"):
        RoutingTable.load(tmp_path / "elsewhere.json")


def test_a_frame_smaller_than_the_route_expects_is_cut_into_single_cells_at_most() -> None:
    boxes = Route((2, 4), (0,) * 8).bounds((2, 3))
    assert [box.cells for box in boxes] == [1] * 6


def test_every_chunk_has_a_node() -> None:
    with pytest.raises(InputError, match="for 4 chunks"):
        Route((2, 2), (0, 1))
