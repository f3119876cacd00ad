"""Problems whose queries' latency matters, drawn from a seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from mooring.model.problem.problem import Problem


def chains(
    rng: np.random.Generator,
    sites: int,
    queries: int,
    tasks: tuple[int, int],
    cost_us: tuple[float, float] = (1000, 6000),
) -> Problem:
    """Chains of operators between random sites of a plane."""
    data = _on_a_plane(rng, sites)
    data |= {"streams": {}, "operators": {}, "queries": {}}
    names = list(data["sites"])
    for q in range(queries):
        before = f"x{q}"
        data["streams"][before] = {"rate": float(rng.uniform(20, 100)), "site": str(rng.choice(names))}
        for i in range(int(rng.integers(tasks[0], tasks[1] + 1))):
            data["operators"][f"o{q}_{i}"] = {
                "inputs": [before],
                "cost_us": float(rng.uniform(*cost_us)),
                "selectivity": float(rng.choice([0.5, 0.8, 1.0])),
                "variability": 1.0,
            }
            before = f"o{q}_{i}"
        data["queries"][f"q{q}"] = {"reads": before, "site": str(rng.choice(names))}
    return Problem.from_dict(data)


def _on_a_plane(rng: np.random.Generator, sites: int) -> dict[str, Any]:
    place = rng.random((sites, 2)) * 80.0
    apart = np.sqrt(((place[:, None] - place[None]) ** 2).sum(axis=2)) + 1.0
    names = [f"s{i}" for i in range(sites)]
    return {
        "sites": {name: {"capacity": float(rng.choice([1, 2, 4]))} for name in names},
        "latency_ms": {
            a: {b: float(apart[i, j]) for j, b in enumerate(names) if i != j} for i, a in enumerate(names)
        },
    }


def diamond() -> dict[str, Any]:
    """Two streams meet in a join, whose results fan out to two queries."""
    return {
        "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}, "c": {"capacity": 2}, "d": {"capacity": 1}},
        "latency_ms": {"a": {"b": 9, "c": 4, "d": 12}, "b": {"c": 6, "d": 8}, "c": {"d": 5}},
        "streams": {"x": {"rate": 60, "site": "a"}, "y": {"rate": 30, "site": "b"}},
        "operators": {
            "clean": {"inputs": ["x"], "cost_us": 2000, "selectivity": 0.5},
            "parse": {"inputs": ["clean"], "cost_us": 3000},
            "other": {"inputs": ["y"], "cost_us": 2500},
            "pairs": {
                "inputs": ["parse", "other"],
                "kind": "join",
                "window_s": 0.1,
                "cost_us": 300,
                "selectivity": 0.4,
            },
            "top": {"inputs": ["pairs"], "cost_us": 900},
            "log": {"inputs": ["pairs"], "cost_us": 500, "selectivity": 0.2},
        },
        "queries": {"tops": {"reads": "top", "site": "d"}, "logs": {"reads": "log", "site": "b"}},
    }


def overlapping(rng: np.random.Generator, sites: int, queries: int, cost_us: float = 4000.0) -> Problem:
    """Queries over three streams that clean and parse them in the same way, and then each has its own end."""
    data = _on_a_plane(rng, sites)
    names = list(data["sites"])
    data["streams"] = {f"x{k}": {"rate": 50.0, "site": str(rng.choice(names))} for k in range(3)}
    data["operators"], data["queries"] = {}, {}
    for q in range(queries):
        data["operators"] |= {
            f"clean{q}": {"inputs": [f"x{q % 3}"], "cost_us": cost_us, "selectivity": 0.8},
            f"parse{q}": {"inputs": [f"clean{q}"], "cost_us": cost_us},
            f"end{q}": {"inputs": [f"parse{q}"], "cost_us": cost_us / 4 + q, "selectivity": 0.5},
        }
        data["queries"][f"q{q}"] = {"reads": f"end{q}", "site": str(rng.choice(names))}
    return Problem.from_dict(data)
