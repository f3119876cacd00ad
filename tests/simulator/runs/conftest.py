"""A small scenario that every way of adapting can be tried on."""

from __future__ import annotations

from typing import Any, Protocol

import pytest

from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem
from mooring.simulator.data_plane.workload import workload
from mooring.simulator.runs.adapted_run import Circumstances

PROBLEM: dict[str, Any] = {
    "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}, "c": {"capacity": 1}},
    "latency_ms": {"a": {"b": 10, "c": 10}, "b": {"c": 10}},
    "streams": {"x": {"rate": 50, "site": "a"}, "y": {"rate": 20, "site": "b"}},
    "operators": {
        "f": {"inputs": ["x"], "cost_us": 3000, "reuse": False},
        "g": {"inputs": ["x"], "cost_us": 3000},
        "h": {"inputs": ["y"], "cost_us": 3000},
    },
    "queries": {
        "top": {"reads": "f", "site": "a", "max_latency_ms": 200},
        "low": {"reads": "g", "site": "a"},
        "end": {"reads": "h", "site": "b"},
    },
}
START = {"f": "a", "g": "a", "h": "b"}


class MakeScenario(Protocol):
    def __call__(
        self,
        *changes: dict[str, Any],
        seconds: float = 300.0,
        rates: dict[str, float] | None = None,
        **options: Any,
    ) -> Circumstances: ...


@pytest.fixture(scope="session")
def scenario() -> MakeScenario:
    def make(
        *changes: dict[str, Any],
        seconds: float = 300.0,
        rates: dict[str, float] | None = None,
        **options: Any,
    ) -> Circumstances:
        streams = {
            name: {**fields, "rate": (rates or {}).get(name, fields["rate"])}
            for name, fields in PROBLEM["streams"].items()
        }
        problem = Problem.from_dict({**PROBLEM, "streams": streams, "changes": list(changes)})
        arrivals = workload(problem, changes=problem.changes)
        return Circumstances(
            problem,
            Placement.from_dict(problem, START),
            problem.changes,
            seconds,
            tuple(arrivals),
            **options,
        )

    return make
