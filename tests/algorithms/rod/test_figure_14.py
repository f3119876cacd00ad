"""Section 7.3.1: how resilient the policies' placements are, against what was measured before.

Rates are ten random points of the ideal set per graph in the paper,
two here, since only the means over many graphs are compared.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mooring.algorithms.baselines.connected import connected_assign
from mooring.algorithms.baselines.correlation import correlation_assign
from mooring.algorithms.baselines.llf import least_loaded_assign
from mooring.algorithms.baselines.random_placement import random_assign
from mooring.algorithms.rod.policy import rod_assign
from mooring.arrays import Floats, Ints
from mooring.contracts.policy import Context
from mooring.model.load.feasible.directions import Directions
from mooring.model.load.feasible.feasible_set import FeasibleSet
from mooring.model.load.model import LoadModel
from mooring.model.problem.generate import GraphParameters, generate_problem

Assign = Callable[[LoadModel, np.random.Generator], Ints]
NET = Directions.draw(5, 2**10, seed=0)


def random_rates(model: LoadModel, rng: np.random.Generator) -> Floats:
    """A uniform point of the ideal feasible set."""
    return rng.dirichlet(np.ones(6))[:5] * model.capacity_left_cores / model.totals


def correlation(model: LoadModel, rng: np.random.Generator) -> Ints:
    return correlation_assign(model, random_rates(model, rng) * rng.uniform(0.0, 2.0, (100, 5)))


POLICIES: dict[str, Assign] = {
    "rod": lambda model, rng: rod_assign(model),
    "correlation": correlation,
    "llf": lambda model, rng: least_loaded_assign(model, random_rates(model, rng)),
    "random": random_assign,
    "connected": lambda model, rng: connected_assign(model, random_rates(model, rng)),
}


def mean_ratios(operators: int, names: list[str], graphs: int = 20) -> dict[str, float]:
    values: dict[str, list[float]] = {name: [] for name in names}
    for seed in range(graphs):
        rng = np.random.default_rng([seed, operators])
        model = Context.of(generate_problem(GraphParameters(operators=operators), rng)).load
        for name in names:
            for _ in range(1 if name == "rod" else 2):
                sites = POLICIES[name](model, rng)
                values[name].append(FeasibleSet.of(model, sites).ratio(directions=NET).value)
    return {name: float(np.mean(found)) for name, found in values.items()}


def test_rod_is_as_resilient_as_when_it_was_reproduced() -> None:
    """An earlier reproduction's row less .03. There is no bound from above, since sorting by normalised
    coefficients, as we do, is better from 100 operators up than sorting by the coefficients as they are."""
    row = [mean_ratios(operators, ["rod"])["rod"] for operators in (25, 50, 100, 150, 200)]
    assert (np.array(row) > np.array([0.080, 0.288, 0.585, 0.753, 0.811]) - 0.03).all(), row
    assert row == sorted(row)


def test_the_policies_rank_as_in_the_paper() -> None:
    for operators in (50, 100, 200):
        means = mean_ratios(operators, list(POLICIES))
        assert list(means.values()) == sorted(means.values(), reverse=True), means
