"""A plan that overloads a site or a link at the rates of now says so first, and whether that has to be."""

from __future__ import annotations

from typing import Any

import pytest

import mooring
from mooring.model.problem.problem import Problem


def problem_with(**changed: Any) -> Problem:
    data: dict[str, Any] = {
        "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
        "streams": {"x": {"rate": 100, "bytes": 100, "site": "a"}},
        "operators": {
            "one": {"inputs": ["x"], "cost_us": 6000},
            "two": {"inputs": ["x"], "cost_us": 6000},
        },
    }
    return Problem.from_dict({**data, **changed})


def judged(problem: Problem, **sites: str) -> mooring.Plan:
    from mooring.model.load.build import build_load_model
    from mooring.model.placement.placement import Placement

    return mooring.Plan(
        problem, "given", "resilience", Placement.from_dict(problem, sites), build_load_model(problem)
    )


def test_an_overload_that_another_placement_avoids_is_called_so() -> None:
    found = judged(problem_with(), one="a", two="a").overload
    assert found is not None
    assert found.avoidable
    assert found.sites == {"a": pytest.approx(1.2)}
    assert found.sentence.startswith(
        "This placement overloads: at the present rates a needs 120% of its cores."
    )


def test_an_overload_of_all_sites_together_is_called_unavoidable() -> None:
    streams = {"x": {"rate": 200, "min_rate": 180}}
    found = judged(problem_with(streams=streams), one="a", two="b").overload
    assert found is not None
    assert found.avoidable is False
    assert set(found.minimum) == {"a", "b"}
    assert "all sites together have 2" in found.why


def test_a_link_beyond_its_bandwidth_is_an_overload() -> None:
    network = {"bandwidth": {"a": {"b": 5000}}}
    found = judged(problem_with(network=network), one="a", two="b").overload
    assert found is not None
    assert found.links == {"a to b": (10_000.0, 5_000.0)}
    assert not found.sites
    assert "a to b carries 10 kB/s of 5 kB/s" in found.sentence


def test_a_plan_that_carries_the_present_says_nothing() -> None:
    assert judged(problem_with(), one="a", two="b").overload is None
