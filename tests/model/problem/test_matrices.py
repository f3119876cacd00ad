"""Latencies, bandwidths and routes between sites."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.errors import InputError
from mooring.model.problem.matrices import _row_of_numbers
from mooring.model.problem.network import Network
from mooring.model.problem.problem import Problem


def data(**sections: Any) -> dict[str, Any]:
    return {
        "sites": {name: {"capacity": 1} for name in "abc"},
        "streams": {"s": {"rate": 1}},
        "operators": {"o": {"inputs": ["s"], "cost_us": 1}},
        **sections,
    }


def network(**sections: Any) -> Network:
    return Problem.from_dict(data(**sections)).network


def refused(**sections: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        network(**sections)
    return caught.value


def test_a_latency_given_once_holds_both_ways_and_given_twice_each_way() -> None:
    given = {"a": {"b": 1, "c": 2}, "c": {"b": 3, "a": 4}}
    assert np.array_equal(
        network(latency_ms=given).latency_ms,  # type: ignore[arg-type]
        [[0, 1, 2], [1, 0, 3], [4, 3, 0]],
    )


def test_nothing_is_assumed_where_nothing_is_stated() -> None:
    plain = network()
    assert plain.latency_ms is None
    assert plain.bandwidth is None
    assert plain.routes == {}


def test_an_incomplete_matrix_names_a_missing_pair_and_counts_them() -> None:
    error = refused(latency_ms={"a": {"b": 1}})
    assert "no latency between 'a' and 'c' (2 pairs lack one)" in str(error)
    assert "add latency_ms: {a: {c: ...}}" in str(error)


@pytest.mark.parametrize(
    ("latency_ms", "field", "words"),
    [
        ({"a": {"b": -1}}, "latency_ms.a.b", "not negative"),
        ({"a": {"b": float("inf")}}, "latency_ms.a.b", "finite"),
        ({"a": {"a": 3}}, "latency_ms.a.a", "zero from a site to itself"),
        ({"a": {"d": 3}}, "latency_ms.a", "a site"),
        ({"a": 3}, "latency_ms.a", "a mapping of sites"),
        ({"a": {"\x1b": -1}}, "latency_ms.a", "a site"),
    ],
)
def test_bad_latencies_are_refused(latency_ms: Any, field: str, words: str) -> None:
    error = refused(latency_ms=latency_ms)
    assert error.field == field
    assert words in str(error)


def test_one_bandwidth_serves_all_pairs_and_missing_pairs_have_no_limit() -> None:
    everywhere = network(network={"bandwidth": 5})
    assert everywhere.bandwidth is not None
    assert everywhere.bandwidth[0, 1] == everywhere.bandwidth[2, 0] == 5
    assert np.isinf(everywhere.bandwidth.diagonal()).all()
    some = network(network={"bandwidth": {"a": {"b": 7}}})
    assert some.bandwidth is not None
    assert some.bandwidth[1, 0] == 7
    assert np.isinf(some.bandwidth[0, 2])


@pytest.mark.parametrize(
    ("section", "field"),
    [
        ({"bandwidth": 0}, "network.bandwidth"),
        ({"bandwidth": [1]}, "network.bandwidth"),
        ({"bandwidth": {"a": {"b": "x"}}}, "network.bandwidth.a.b"),
        ({"routes": {"a": {"b": "c"}}}, "network.routes.a.b"),
        ({"routes": {"a": {"b": ["d"]}}}, "network.routes.a.b"),
        ({"routes": {"a": ["b"]}}, "network.routes.a"),
        ({"routes": {"z": {}}}, "network.routes"),
    ],
)
def test_bad_network_fields_are_refused(section: Any, field: str) -> None:
    assert refused(network=section).field == field


def test_a_route_holds_backwards_unless_that_is_given_too() -> None:
    assert network(network={"routes": {"a": {"c": ["b"]}}}).routes == {(0, 2): (1,), (2, 0): (1,)}
    both = network(network={"routes": {"a": {"c": ["b"]}, "c": {"a": []}}})
    assert both.routes == {(0, 2): (1,), (2, 0): ()}


def test_matrices_between_too_many_sites_are_refused() -> None:
    sites = {f"s{k}": {"capacity": 1} for k in range(10_001)}
    assert "at most 10000" in str(refused(sites=sites, latency_ms={}))
    assert len(Problem.from_dict(data(sites=sites)).sites) == 10_001


def load_matrix(folder: Path, content: str) -> Network:
    (folder / "m.csv").write_text(content)
    (folder / "p.yaml").write_text(
        "sites: {a: {capacity: 1}, b: {capacity: 1}}\nlatency_ms: {file: m.csv}\nstreams: {s: {rate: 1}}\n"
        "operators: {o: {inputs: [s], cost_us: 1}}\n"
    )
    return Problem.load(folder / "p.yaml").network


def test_a_matrix_file_may_hold_more_sites_and_half_of_the_cells(tmp_path: Path) -> None:
    found = load_matrix(tmp_path, "ms,b,z,a\nz,1,0,1\na,5.5,9,\n")
    assert np.array_equal(found.latency_ms, [[0, 5.5], [5.5, 0]])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "no latency between 'a' and 'b'"),
        ("ms,a\na,0\n", "no latency between"),
        ("ms,a,b\na,0,x\n", "found 'x' in line 2, column 'b'"),
        ("ms,a,b\na,0,-3\n", "not negative"),
        ("ms,a,b\na,0,nan\n", "found 'nan'"),
        ("ms,a,b\na,1,2\n", "zero from a site to itself"),
    ],
)
def test_a_bad_matrix_file_is_refused(content: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        load_matrix(tmp_path, content)


@given(
    st.lists(
        st.lists(st.sampled_from(["", "1", "2.5", " 3", "4e-1", "07"]), min_size=4, max_size=4), max_size=3
    )
)
def test_a_row_read_at_once_is_as_its_cells_are(rows: list[list[str]]) -> None:
    for cells in rows:
        found = _row_of_numbers(",".join(["b", *cells]) + "\n", 4)
        expected = [float(cell) if cell.strip() else math.nan for cell in cells]
        assert found is None or (found[0] == "b" and np.array_equal(found[1], expected, equal_nan=True))
        assert found is not None or any(cell.startswith("0") for cell in cells)  # looked at cell by cell


def test_quoted_names_and_other_forms_of_numbers_are_read_cell_by_cell(tmp_path: Path) -> None:
    found = load_matrix(tmp_path, 'ms,"b",a\n"b",0,+05.5\n\na,.5,0\n')
    assert np.array_equal(found.latency_ms, [[0, 0.5], [5.5, 0]])  # type: ignore[arg-type]


def test_a_file_and_latencies_do_not_go_together(tmp_path: Path) -> None:
    assert "not both" in str(refused(latency_ms={"file": "m.csv", "a": {"b": 1}}))


def test_a_site_may_be_called_file() -> None:
    plain = data(latency_ms={"file": {"b": 3}})
    plain["sites"] = {"file": {"capacity": 1}, "b": {"capacity": 1}}
    assert Problem.from_dict(plain).network.latency_ms is not None
