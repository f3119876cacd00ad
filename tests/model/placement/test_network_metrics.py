"""Bytes in flight, bandwidth and latencies, worked out by hand."""

from __future__ import annotations

from itertools import product
from typing import Any

import msgspec
import numpy as np
import pytest

from mooring.model.placement.network_metrics import least_latencies_ms, network_metrics, query_latencies_ms
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem

BASE: dict[str, Any] = {
    "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}, "c": {"capacity": 1}},
    "latency_ms": {"a": {"b": 10, "c": 100}, "b": {"c": 20}},
    "streams": {"x": {"rate": 100, "site": "a", "bytes": 50}},
    "operators": {
        "f": {"inputs": ["x"], "cost_us": 1, "selectivity": 0.5},
        "g": {"inputs": ["f"], "cost_us": 1, "selectivity": 0.1, "bytes": 8},
    },
    "queries": {"q": {"reads": "g", "site": "c", "max_latency_ms": 40}},
}


def metrics(sites: dict[str, str], **changes: Any) -> dict[str, Any]:
    problem = Problem.from_dict(BASE | changes)
    found: dict[str, Any] = msgspec.to_builtins(network_metrics(Placement.from_dict(problem, sites)))
    return found


def test_every_hop_counts_its_bytes_and_its_latency() -> None:
    result = metrics({"f": "b", "g": "b"})
    # x to b: 100/s x 50 B over 10 ms; g to the query at c: 5/s x 8 B over 20 ms.
    assert result["bandwidth"] == pytest.approx(5000 + 40)
    assert result["network_usage"] == pytest.approx(5000 * 0.010 + 40 * 0.020)
    assert result["latency_ms"] == {"q": pytest.approx(30)}
    assert result["delay_penalty"] == pytest.approx(30 / 100 - 1)
    assert result["qos_met"] == 1.0


def test_a_limit_that_is_broken_shows() -> None:
    assert metrics({"f": "a", "g": "a"})["qos_met"] == 0.0


def test_channels_between_fragments_delay_even_at_one_site() -> None:
    apart = metrics({"f": "b", "g": "b"}, network={"channel_ms": 500})
    assert apart["latency_ms"] == {"q": pytest.approx(530)}
    assert apart["delay_penalty"] == pytest.approx(30 / 100 - 1), "the penalty is the network's alone"
    label = {name: fields | {"fragment": "one"} for name, fields in BASE["operators"].items()}
    together = metrics({"f": "b", "g": "b"}, network={"channel_ms": 500}, operators=label)
    assert together["latency_ms"] == {"q": pytest.approx(30)}


def test_an_output_read_twice_at_one_site_is_delivered_there_once() -> None:
    twice = BASE["operators"] | {"h": {"inputs": ["f"], "cost_us": 1}}
    once = metrics({"f": "a", "g": "b"})["bandwidth"]
    assert metrics({"f": "a", "g": "b", "h": "b"}, operators=twice)["bandwidth"] == once
    assert metrics({"f": "a", "g": "b", "h": "c"}, operators=twice)["bandwidth"] == once + 50 * 50


def test_instances_receive_only_their_shares() -> None:
    split = {"f": {"inputs": ["x"], "cost_us": 1, "selectivity": 0.5, "instances": 2, "shares": [0.2, 0.8]}}
    result = metrics({"f#1": "b", "f#2": "a"}, operators=split, queries={"q": {"reads": "f", "site": "a"}})
    assert result["bandwidth"] == pytest.approx(0.2 * 100 * 50 + 0.2 * 50 * 50)


def test_what_the_problem_does_not_state_is_not_made_up() -> None:
    assert "bandwidth" not in metrics({"f": "b", "g": "b"}, streams={"x": {"rate": 1, "site": "a"}})
    problem = Problem.from_dict({key: value for key, value in BASE.items() if key != "latency_ms"})
    result = msgspec.to_builtins(network_metrics(Placement.from_dict(problem, {"f": "b", "g": "b"})))
    assert "network_usage" not in result
    assert "latency_ms" not in result


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"network": {"channel_ms": 50}},
        {"latency_ms": {"a": {"b": 10, "c": 5}, "b": {"c": 20}}},
        {"streams": {"x": {"rate": 100}}},
        {"operators": {name: fields | {"fragment": "one"} for name, fields in BASE["operators"].items()}},
        {"operators": {"f": BASE["operators"]["f"] | {"site": "c"}, "g": BASE["operators"]["g"]}},
    ],
)
def test_no_placement_is_below_the_least_latency_and_the_best_reaches_it(changes: dict[str, Any]) -> None:
    problem = Problem.from_dict(BASE | changes)
    fragments, pin = len(problem.fragments), problem.operators[0].site
    reached = [
        query_latencies_ms(placement, channel_ms=problem.network.channel_ms)[0]
        for where in product(range(3), repeat=fragments)
        for placement in [Placement(problem, np.array(where))]
        if pin is None or problem.sites[int(placement.site_of_operator[0])].name == pin
    ]
    assert least_latencies_ms(problem)[0] == pytest.approx(min(reached))
