"""A file of links stands for the latencies between the sites that it joins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mooring.errors import InputError
from mooring.model.problem.problem import Problem

LINKS = """a,b,latency_ms
berkeley,r1,10
r1,r2,30
r2,mit,5
r1,zurich,80
r2,zurich,45.5
berkeley,r1,12
"""


def problem(folder: Path, links: str, **more: Any) -> Problem:
    (folder / "links.csv").write_text(links)
    sites = {name: {"capacity": 1} for name in ("zurich", "berkeley", "mit")}
    streams, operators = {"s": {"rate": 1}}, {"o": {"inputs": ["s"], "cost_us": 1}}
    stated = {"topology": "links.csv", **more}
    data = {"sites": sites, "streams": streams, "operators": operators, "latency_ms": stated}
    (folder / "problem.json").write_text(json.dumps(data))
    return Problem.load(folder / "problem.json")


def test_latencies_are_those_of_the_least_ways_over_routers(tmp_path: Path) -> None:
    found = problem(tmp_path, LINKS).network.latency_ms
    assert isinstance(found, np.ndarray)
    assert found.tolist() == [[0.0, 85.5, 50.5], [85.5, 0.0, 45.0], [50.5, 45.0, 0.0]]


@pytest.mark.parametrize(
    ("links", "said"),
    [
        ("from,to,ms\n", "expected a,b,latency_ms"),
        ("a,b,latency_ms\nberkeley,mit\n", "line 2"),
        ("a,b,latency_ms\nberkeley,mit,0\n", "above zero"),
        ("a,b,latency_ms\nberkeley,mit,9\n", "no link of 'zurich'"),
        ("a,b,latency_ms\nberkeley,mit,9\nzurich,r,9\n", "no way between 'zurich' and 'berkeley'"),
    ],
)
def test_what_is_no_topology_of_the_sites_is_refused(tmp_path: Path, links: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        problem(tmp_path, links)


def test_a_topology_and_latencies_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="either topology or latencies"):
        problem(tmp_path, LINKS, mit={"zurich": 5})
