"""The baselines of section 4.1 do what their names say."""

from __future__ import annotations

from typing import Any

from mooring.algorithms.catalogue import make_policy
from mooring.contracts.policy import Context
from mooring.model.problem.problem import Problem

LINE: dict[str, Any] = {
    "sites": {name: {"capacity": 1} for name in "abcd"},
    "latency_ms": {"a": {"b": 10, "c": 20, "d": 30}, "b": {"c": 10, "d": 20}, "c": {"d": 10}},
    "network": {"routes": {"a": {"d": ["b", "c"]}, "b": {"d": ["c"]}}},
    "streams": {"x": {"site": "a", "rate": 10, "bytes": 8}, "y": {"site": "b", "rate": 10, "bytes": 8}},
    "operators": {"f": {"inputs": ["x", "y"], "cost_us": 1, "selectivity": 0.1}},
    "queries": {"q": {"reads": "f", "site": "d"}},
}


def placed(policy: str, data: dict[str, Any], seed: int = 0) -> str:
    problem = Problem.from_dict(data)
    return make_policy(policy).place(problem, Context.of(problem, seed)).as_dict()["f"]


def test_producer_takes_a_site_of_its_streams_by_chance() -> None:
    assert {placed("producer", LINE, seed) for seed in range(10)} == {"a", "b"}


def test_consumer_takes_the_site_of_the_query() -> None:
    assert placed("consumer", LINE) == "d"


def test_ip_multicast_takes_the_best_site_on_all_routes() -> None:
    assert placed("ip_multicast", LINE) == "b"
    assert placed("ip_multicast", {**LINE, "network": {}}) == "d"


def test_a_full_site_is_replaced_by_the_nearest_with_room() -> None:
    fixed = {"f": {**LINE["operators"]["f"], "fixed_cores": 0.5}}
    sites = {**LINE["sites"], "d": {"capacity": 0.2}}
    assert placed("consumer", {**LINE, "operators": fixed, "sites": sites}) == "c"
