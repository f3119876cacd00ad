"""A wide area without a matrix: sites with coordinates, from a file and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mooring.errors import InputError
from mooring.model.problem.fingerprint import fingerprint
from mooring.model.problem.generate import GraphParameters, generate_problem
from mooring.model.problem.latencies import Coordinates, same_latencies
from mooring.model.problem.problem import Problem
from mooring.model.problem.write import problem_to_data, write_problem


def data(a: dict[str, Any], b: dict[str, Any], **sections: Any) -> dict[str, Any]:
    return {
        "sites": {"a": {"capacity": 1, **a}, "b": {"capacity": 1, **b}},
        "streams": {"s": {"rate": 1, "site": "a"}},
        "operators": {"o": {"inputs": ["s"], "cost_us": 1}},
        **sections,
    }


def test_the_latency_is_the_distance_and_both_heights() -> None:
    problem = Problem.from_dict(data({"at_ms": [0, 3], "height_ms": 1}, {"at_ms": [-4, 0.0]}))
    latency_ms = problem.network.latency_ms
    assert isinstance(latency_ms, Coordinates)
    assert latency_ms[:, :].tolist() == [[0.0, 6.0], [6.0, 0.0]]


@pytest.mark.parametrize(
    ("a", "b", "sections", "said"),
    [
        ({"at_ms": [1, 2]}, {}, {}, "sites.b.at_ms: found nothing, expected 2 coordinates, as 'a' has"),
        ({}, {"at_ms": [1, 2]}, {}, "sites.b.at_ms: found a list of 2, expected no coordinates, as 'a' has"),
        (
            {"at_ms": [1, 2]},
            {"at_ms": [1, 2, 3]},
            {},
            "sites.b.at_ms: found a list of 3, expected 2 coordinates, as 'a' has",
        ),
        ({"at_ms": [1]}, {}, {}, "sites.a.at_ms: found a list of 1, expected a list of 2 to 5 coordinates"),
        (
            {"at_ms": [1, "x"]},
            {},
            {},
            "sites.a.at_ms[1]: found 'x', expected a finite number of milliseconds",
        ),
        ({"at_ms": [1, True]}, {}, {}, "sites.a.at_ms[1]: found True, expected a finite number"),
        ({"height_ms": 2}, {}, {}, "sites.a.at_ms: found nothing, expected the site's coordinates"),
        ({"at_ms": [1, 2], "height_ms": -1}, {}, {}, "sites.a.height_ms: found -1, expected a finite number"),
        (
            {"at_ms": [1, 2]},
            {"at_ms": [1, 3]},
            {"latency_ms": {"a": {"b": 1}}},
            "sites.a.at_ms: found both latency_ms and coordinates of sites",
        ),
    ],
)
def test_wrong_coordinates_are_refused(
    a: dict[str, Any], b: dict[str, Any], sections: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError) as caught:
        Problem.from_dict(data(a, b, **sections))
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["p.yaml", "p.json"])
@pytest.mark.parametrize("sites", [10, 400])
def test_what_is_written_reads_back_with_the_same_fingerprint(name: str, sites: int, tmp_path: Path) -> None:
    drawn = GraphParameters(streams=2, operators=10, sites=sites, plane_ms=80.0)
    problem = generate_problem(drawn, np.random.default_rng(1))
    write_problem(problem, tmp_path / name)
    again = Problem.load(tmp_path / name)
    assert same_latencies(again.network.latency_ms, problem.network.latency_ms)
    assert fingerprint(again) == fingerprint(problem)
    content = problem_to_data(problem)
    assert "latency_ms" not in content
    moved = {**content, "sites": {**content["sites"], "site1": {"capacity": 1, "at_ms": [0, 0]}}}
    assert fingerprint(Problem.from_dict(moved)) != fingerprint(problem)
    backwards = {**content, "sites": dict(reversed(content["sites"].items()))}
    assert fingerprint(Problem.from_dict(backwards)) == fingerprint(problem)


def test_a_large_matrix_counts_in_the_fingerprint_whatever_the_order() -> None:
    rng = np.random.default_rng(2)
    names = [f"s{i}" for i in range(301)]
    pairs = {a: {b: float(rng.integers(1, 99)) for b in names[i + 1 :]} for i, a in enumerate(names)}

    def named(order: list[str], latency_ms: dict[str, Any]) -> str:
        content = data({}, {}, latency_ms=latency_ms, streams={"s": {"rate": 1}})
        return fingerprint(Problem.from_dict({**content, "sites": {n: {"capacity": 1} for n in order}}))

    first = named(names, pairs)
    assert named(names[::-1], pairs) == first
    assert named(names, {**pairs, "s0": {**pairs["s0"], "s1": 100.0}}) != first
