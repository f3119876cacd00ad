"""The exact optimum agrees with trying every placement, shared outputs and limits included."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from mooring.algorithms.exact.network_optimum import network_optimum
from mooring.errors import InfeasibleError, UnsupportedError
from mooring.model.load.build import build_load_model
from mooring.model.placement.network_metrics import network_metrics
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem


def small(seed: int, shared: bool, capacity: float) -> Problem:
    rng = np.random.default_rng(seed)
    place = rng.random((5, 2)) * 100
    apart = np.round(np.linalg.norm(place[:, None] - place[None], axis=2), 2)
    names = [f"n{i}" for i in range(5)]
    second: dict[str, Any] = {"inputs": ["a", "z"], "cost_us": 100, "selectivity": 0.5}
    third: dict[str, Any] = {"inputs": ["a" if shared else "b"], "cost_us": 100, "selectivity": 0.2}
    return Problem.from_dict(
        {
            "sites": {name: {"capacity": capacity} for name in names},
            "latency_ms": {names[i]: {names[j]: float(apart[i, j]) for j in range(i)} for i in range(1, 5)},
            "streams": {
                s: {"site": names[int(rng.integers(5))], "rate": float(rng.integers(10, 100)), "bytes": 10}
                for s in "xyz"
            },
            "operators": {
                "a": {"inputs": ["x", "y"], "cost_us": 100, "selectivity": 0.6},
                "b": second,
                "c": third,
            },
            "queries": {
                "q": {"reads": "c", "site": names[0]},
                **({"r": {"reads": "b", "site": names[1]}} if shared else {}),
            },
        }
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("capacity", [4.0, 0.03])
def test_it_agrees_with_trying_all(seed: int, shared: bool, capacity: float) -> None:
    problem = small(seed, shared, capacity)
    model = build_load_model(problem)
    best = np.inf
    for sites in product(range(5), repeat=3):
        where = np.array(sites)
        if np.all(model.site_loads(where, problem.rates) <= model.capacity_cores):
            best = min(best, float(network_metrics(Placement(problem, where)).network_usage))  # type: ignore[arg-type]
    if not np.isfinite(best):
        with pytest.raises(InfeasibleError):
            network_optimum(problem, model)
        return
    found = Placement(problem, network_optimum(problem, model))
    assert float(network_metrics(found).network_usage) == pytest.approx(best)  # type: ignore[arg-type]
    assert np.all(model.site_loads(found.site_of_fragment, problem.rates) <= model.capacity_cores)


def test_more_fragments_than_it_can_search_are_refused_at_once() -> None:
    sites = {name: {"capacity": 1.0} for name in "ab"}
    operators = {f"o{k}": {"inputs": ["x"], "cost_us": 1000, "selectivity": 0.5} for k in range(900)}
    data = {
        "sites": sites,
        "latency_ms": {"a": {"b": 10}},
        "streams": {"x": {"site": "a", "rate": 1, "bytes": 10}},
        "operators": operators,
        "queries": {f"q{k}": {"reads": f"o{k}", "site": "b"} for k in range(900)},
    }
    problem = Problem.from_dict(data)
    with pytest.raises(UnsupportedError, match="900 fragments are too many to search"):
        network_optimum(problem, build_load_model(problem))
