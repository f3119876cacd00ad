"""The compiled latencies are those of the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.model.load.queued.latencies import queued_latencies
from mooring.model.load.queued.many_placements import ManyPlacements
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem


def random_graph(rng: np.random.Generator) -> Problem:
    """Maps, filters, unions, joins, windows, splits and fragments with several operators, on sites with fixed
    load and links with bandwidth."""
    names = [f"s{i}" for i in range(int(rng.integers(2, 6)))]
    data: dict[str, Any] = {
        "sites": {name: {"capacity": float(rng.choice([1, 2, 4]))} for name in names},
        "latency_ms": {a: {b: float(rng.uniform(0.2, 5)) for b in names if b != a} for a in names},
        "network": {"channel_ms": float(rng.choice([0, 0, 1]))},
        "streams": {},
        "operators": {},
        "queries": {},
    }
    if rng.random() < 0.5:
        data["network"]["bandwidth"] = {
            a: {b: float(rng.uniform(2e4, 1e6)) for b in names if b != a} for a in names
        }
    known = []
    for k in range(3):
        data["streams"][f"in{k}"] = {"rate": float(rng.uniform(10, 90)), "bytes": 100}
        if rng.random() < 0.8:
            data["streams"][f"in{k}"] |= {"site": str(rng.choice(names)), "variability": 2.0}
        known.append(f"in{k}")
    for i in range(int(rng.integers(3, 9))):
        operator: dict[str, Any] = {
            "inputs": [known[-1 - int(rng.integers(min(3, len(known))))]],
            "cost_us": float(rng.uniform(100, 1500)),
            "selectivity": float(rng.choice([0.3, 1, 1, 1.5])),
            "variability": float(rng.choice([0, 1, 3])),
            "fixed_cores": float(rng.choice([0, 0.01])),
        }
        kind = str(rng.choice(["map", "union", "join", "aggregate", "split"]))
        if kind in ("union", "join"):
            other = [name for name in known if name != operator["inputs"][0]]
            operator["inputs"].append(str(rng.choice(other)))
        operator |= {"kind": kind} if kind in ("union", "join", "aggregate") else {}
        operator |= {"window_s": 0.2} if kind in ("join", "aggregate") else {}
        operator |= {"instances": 2} if kind == "split" else {}
        operator |= {"fragment": "together"} if i >= 5 and kind != "split" else {}
        data["operators"][f"o{i}"] = operator
        known.append(f"o{i}")
    for q, name in enumerate(known[-3:]):
        data["queries"][f"q{q}"] = {"reads": name, "site": str(rng.choice(names))}
    return Problem.from_dict(data)


@pytest.mark.parametrize("seed", range(40))
def test_it_agrees_with_the_model_on_any_graph(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_graph(rng)
    many = ManyPlacements.of(problem)
    for _ in range(4):
        sites = rng.integers(len(problem.sites), size=len(problem.fragments))
        expected = queued_latencies(problem, Placement(problem, sites).site_of_operator.tolist())
        found = many.latencies(sites)
        assert found.query_s == pytest.approx(expected.query_s, rel=1e-7)
        assert found.site_wait_s == pytest.approx(expected.site_wait_s, rel=1e-7, abs=1e-12)
        assert found.site_utilisation == pytest.approx(expected.site_utilisation)


def test_a_site_without_speed_has_no_end_of_waiting() -> None:
    problem = Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
            "latency_ms": {"a": {"b": 1}},
            "streams": {"x": {"rate": 10, "site": "a"}},
            "operators": {"f": {"inputs": ["x"], "cost_us": 10, "fixed_cores": 1.0}},
            "queries": {"q": {"reads": "f", "site": "b"}},
        }
    )
    assert np.isinf(ManyPlacements.of(problem).latencies(np.array([0])).query_s[0])


def test_the_weights_say_how_much_the_mean_latency_grows_with_an_arc() -> None:
    """Of two queries, one gets three quarters of its results over one input of a union."""
    problem = Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1}},
            "streams": {"x": {"rate": 30}, "y": {"rate": 10}},
            "operators": {
                "both": {"inputs": ["x", "y"], "kind": "union", "cost_us": 10},
                "half": {"inputs": ["both"], "cost_us": 10, "selectivity": 0.5},
            },
            "queries": {"all": {"reads": "both", "site": "a"}, "some": {"reads": "half", "site": "a"}},
        }
    )
    many = ManyPlacements.of(problem)
    by_arc = {
        (arc.producer, arc.reader, arc.query): w for arc, w in zip(many.arcs, many.weights, strict=True)
    }
    assert by_arc[0, 2, None] == pytest.approx(0.75)
    assert by_arc[1, 2, None] == pytest.approx(0.25)
    assert by_arc[2, 3, None] == pytest.approx(0.5)
    assert by_arc[2, None, 0] == pytest.approx(0.5)
