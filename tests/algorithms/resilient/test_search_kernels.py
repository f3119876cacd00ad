"""What the search keeps from step to step is what a plan is worth from scratch."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.algorithms.resilient.annealing import Annealer, MoveRules
from mooring.algorithms.rod.policy import rod_assign
from mooring.model.load.build import build_load_model
from mooring.model.load.feasible.feasible_set import FeasibleSet
from mooring.model.load.feasible.true_feasible_set import true_ratio
from mooring.model.load.model import LoadModel
from mooring.model.problem.generate import GraphParameters, generate_problem
from mooring.model.rate_scenarios.scenarios import scenario_value, volume_scenarios
from mooring.model.rate_scenarios.true_rate_space import TrueVolume


def model_of(seed: int = 0, **parameters: object) -> LoadModel:
    settings = {"operators": 30, "sites": 4} | parameters
    return build_load_model(generate_problem(GraphParameters(**settings), np.random.default_rng(seed)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "parameters", [{}, {"comm_us": 100.0, "queries": 3}, {"sites": 2}, {"capacity": (0.5, 2.0)}]
)
def test_values_carried_along_agree_with_values_from_scratch(parameters: dict[str, object]) -> None:
    model = model_of(1, **parameters)
    rng = np.random.default_rng(0)
    scenarios = volume_scenarios(model, 300, rng)
    annealer = Annealer(model, scenarios, MoveRules.fresh(model), rod_assign(model), rng)
    for temperature in (0.1, 0.01, 0.001):
        annealer.stretch(3000, temperature)
        scratch = scenario_value(model, scenarios, annealer.sites)
        assert np.exp(annealer.score) == pytest.approx(scratch, rel=2e-4)
        best = scenario_value(model, scenarios, annealer.best)
        assert np.exp(annealer.best_score) == pytest.approx(best, rel=2e-4)


@pytest.mark.parametrize("parameters", [{}, {"comm_us": 100.0}, {"capacity": (0.5, 2.0)}])
def test_the_value_on_many_directions_is_the_feasible_ratio(parameters: dict[str, object]) -> None:
    model = model_of(2, **parameters)
    sites = rod_assign(model)
    value = scenario_value(model, volume_scenarios(model, 4096, np.random.default_rng(0)), sites)
    assert value == pytest.approx(FeasibleSet.of(model, sites).ratio().value, rel=0.02)


def test_lower_bounds_and_fixed_load_count_as_in_the_feasible_ratio() -> None:
    rng = np.random.default_rng(3)
    coefficients = rng.uniform(0.0, 1.0, (20, 3))
    model = LoadModel.from_coefficients(
        coefficients, [1.0, 2.0, 1.5], lower=[0.01, 0.1, 0.02], fixed_cores=np.full(20, 0.02)
    )
    sites = rod_assign(model)
    value = scenario_value(model, volume_scenarios(model, 4096, rng), sites)
    assert value == pytest.approx(FeasibleSet.of(model, sites).ratio().value, rel=0.02)


def test_the_value_in_true_rate_space_is_the_true_feasible_ratio() -> None:
    model = model_of(4, streams=3, joins=5, join_cost_us=(0.5, 5.0))
    sites = rod_assign(model)
    value = scenario_value(model, TrueVolume(model).scenarios(4096, np.random.default_rng(0)), sites)
    assert value == pytest.approx(true_ratio(model, sites, 2**12).value, rel=0.02)
