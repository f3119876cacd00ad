"""The model against tuples in virtual time, served as it assumes."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from mooring.arrays import Floats, Ints
from mooring.model.load.queued.latencies import queued_latencies
from mooring.model.problem.problem import Problem
from mooring.simulator.data_plane.binding import Behaviour
from mooring.simulator.data_plane.simulate import simulate

FULLEST = 0.9
AS_MODELLED = Behaviour(to_completion=True, drawn=True)


def random_chains(rng: np.random.Generator) -> Problem:
    """Chains of unlike operators over a few unlike sites, from regular to bursty."""
    count = int(rng.integers(3, 7))
    names = [f"s{i}" for i in range(count)]
    data: dict[str, Any] = {
        "sites": {name: {"capacity": float(rng.choice([1, 2, 4]))} for name in names},
        "latency_ms": {a: {b: float(rng.uniform(0.2, 5)) for b in names if b != a} for a in names},
        "streams": {},
        "operators": {},
        "queries": {},
    }
    for k in range(int(rng.integers(2, 5))):
        before = f"in{k}"
        data["streams"][before] = {
            "rate": float(rng.uniform(100, 400)),
            "site": str(rng.choice(names)),
            "variability": float(rng.choice([0.25, 0.5, 1, 2, 4])),
        }
        for i in range(int(rng.integers(1, 5))):
            data["operators"][f"o{k}_{i}"] = {
                "inputs": [before],
                "cost_us": float(rng.uniform(300, 2000)),
                "selectivity": float(rng.choice([0.3, 0.5, 1, 1, 1, 2])),
                "variability": float(rng.choice([0, 0.25, 0.7, 1, 4])),
            }
            before = f"o{k}_{i}"
        data["queries"][f"q{k}"] = {"reads": before, "site": str(rng.choice(names))}
    return Problem.from_dict(data)


def random_placement(problem: Problem, rng: np.random.Generator) -> tuple[Ints, Floats] | None:
    """Sites that are not too full, and what the model says of them in milliseconds."""
    for _ in range(200):
        sites = rng.integers(len(problem.sites), size=len(problem.operators))
        found = queued_latencies(problem, sites.tolist())
        if found.site_utilisation.max() <= FULLEST:
            return sites, 1000.0 * found.query_s
    return None


def simulated_ms(problem: Problem, sites: Ints) -> Floats:
    placement = {op.name: problem.sites[s].name for op, s in zip(problem.operators, sites, strict=True)}
    report = simulate(problem, placement, seconds=400, warm_up_s=20, behaviour=AS_MODELLED)
    return np.array([report.queries[query.name].latency.mean_ms for query in problem.queries])


def test_latencies_of_random_placements_are_near_and_ranked_right() -> None:
    rng = np.random.default_rng(3)
    errors, right = [], []
    for _ in range(8):
        problem = random_chains(rng)
        placed = [found for _ in range(3) if (found := random_placement(problem, rng)) is not None]
        means = [(simulated_ms(problem, sites).mean(), model.mean()) for sites, model in placed]
        errors += [abs(model / simulated - 1) for simulated, model in means]
        for one, other in combinations(means, 2):
            if abs(one[0] / other[0] - 1) > 0.1:
                right.append((one[0] < other[0]) == (one[1] < other[1]))
    assert len(errors) >= 20
    assert len(right) >= 8
    assert max(errors) <= 0.15
    assert np.mean(right) >= 0.95
