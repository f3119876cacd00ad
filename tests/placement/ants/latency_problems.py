"""Problems whose queries' latency matters, drawn from a seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from mooring.problem.problem import Problem


def chains(
    rng: np.random.Generator,
    sites: int,
    queries: int,
    tasks: tuple[int, int],
    cost_us: tuple[float, float] = (1000, 6000),
) -> Problem:
    """Chains of operators between random sites of a plane."""
    place = rng.random((sites, 2)) * 80.0
    apart = np.sqrt(((place[:, None] - place[None]) ** 2).sum(axis=2)) + 1.0
    names = [f"s{i}" for i in range(sites)]
    data: dict[str, Any] = {
        "sites": {name: {"capacity": float(rng.choice([1, 2, 4]))} for name in names},
        "latency_ms": {
            a: {b: float(apart[i, j]) for j, b in enumerate(names) if i != j} for i, a in enumerate(names)
        },
        "streams": {},
        "operators": {},
        "queries": {},
    }
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
