"""Policy `resilient`: better than ROD, never worse, repeatable, and obedient to every rule of a problem."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from mooring.algorithms.exact.policy import optimal_assign
from mooring.algorithms.resilient.policy import Resilient
from mooring.algorithms.rod.policy import Rod
from mooring.contracts.deadline import Deadline
from mooring.contracts.policy import Context
from mooring.model.evaluation.bounded_rates import ratio_below, upper_bounds
from mooring.model.evaluation.metrics import survived_share
from mooring.model.load.build import build_load_model
from mooring.model.load.feasible.feasible_set import FeasibleSet
from mooring.model.load.feasible.true_feasible_set import true_ratio
from mooring.model.load.model import LoadModel
from mooring.model.placement.checker import violations
from mooring.model.placement.placement import Placement
from mooring.model.problem.generate import GraphParameters, generate_problem
from mooring.model.problem.history import RateHistory
from mooring.model.problem.problem import Problem

STEPS = 40_000


def problem_of(seed: int, **parameters: object) -> Problem:
    return generate_problem(GraphParameters(**parameters), np.random.default_rng(seed))  # type: ignore[arg-type]


def place(problem: Problem, policy: Resilient | Rod, seed: int = 0, **changes: object) -> Placement:
    context = Context(load=build_load_model(problem), rng=np.random.default_rng(seed), steps=STEPS)
    return policy.place(problem, replace(context, **changes))  # type: ignore[arg-type]


def ratio(model: LoadModel, placement: Placement) -> float:
    return FeasibleSet.of(model, placement.site_of_fragment).ratio().value


@pytest.mark.parametrize(("operators", "least_gain"), [(25, 1.15), (50, 1.12), (100, 1.12)])
def test_the_feasible_set_is_larger_than_rods(operators: int, least_gain: float) -> None:
    gains = []
    for seed in range(4):
        problem = problem_of(seed, operators=operators)
        model = build_load_model(problem)
        gains.append(ratio(model, place(problem, Resilient())) / ratio(model, place(problem, Rod())))
    assert min(gains) >= 1.0
    assert np.mean(gains) >= least_gain


def test_on_two_sites_it_finds_the_optimum_or_nearly() -> None:
    for seed in range(8):
        streams = 2 + seed % 4
        problem = problem_of(seed, streams=streams, operators=streams * (16 // streams), sites=2)
        model = build_load_model(problem)
        best = FeasibleSet.of(model, optimal_assign(model)).ratio().value
        assert ratio(model, place(problem, Resilient())) >= 0.985 * best


def test_the_same_seed_and_steps_give_the_same_plan_and_another_seed_another() -> None:
    problem = problem_of(3, operators=50)
    first, again, other = (place(problem, Resilient(), seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_pins_memory_fixed_load_and_unequal_sites_are_respected() -> None:
    base = problem_of(5, operators=40, sites=4, capacity=(0.5, 2.0))
    rng = np.random.default_rng(0)
    operators = tuple(
        msgspec.structs.replace(
            operator,
            site="site2" if j % 7 == 0 else None,
            memory_mb=float(rng.uniform(1.0, 3.0)),
            fixed_cores=0.02,
        )
        for j, operator in enumerate(base.operators)
    )
    sites = tuple(msgspec.structs.replace(site, memory_mb=25.0) for site in base.sites)
    problem = replace(base, operators=operators, sites=sites).with_min_rates(0.2 * base.rates)
    placement = place(problem, Resilient())
    model = build_load_model(problem)
    assert violations(problem, model, placement) == []
    assert ratio(model, placement) >= ratio(model, place(problem, Rod()))


def test_knowing_the_lower_bound_pays() -> None:
    base = problem_of(2, operators=50)
    bounded = base.with_min_rates(base.rates * np.array([1.6, 0.1, 0.1, 0.1, 0.1]))
    model = build_load_model(bounded)
    assert ratio(model, place(bounded, Resilient())) > 1.02 * ratio(model, place(base, Resilient()))


def test_charging_crossings_beats_clustered_rod() -> None:
    gains = []
    for seed in range(3):
        problem = problem_of(seed, operators=50, cost_us=(500.0, 500.0), comm_us=125.0)
        model = build_load_model(problem)
        gains.append(ratio(model, place(problem, Resilient())) / ratio(model, place(problem, Rod())))
    assert np.mean(gains) >= 1.15


def test_the_true_set_is_worth_optimising_where_there_are_joins() -> None:
    gains = []
    for seed in range(3):
        problem = problem_of(40 + seed, operators=30, streams=3, sites=5, joins=8, join_cost_us=(0.5, 5.0))
        model = build_load_model(problem)
        true, linear = (
            true_ratio(model, place(problem, Resilient(objective=o), steps=15_000).site_of_fragment, 2**10)
            for o in ("true", "linear")
        )
        gains.append(true.value / linear.value)
    assert np.mean(gains) >= 1.1


def test_plans_for_statistics_with_errors_hold_better_for_the_truth() -> None:
    robust, plain, error = [], [], 0.5
    for seed in range(5):
        truth = problem_of(seed, operators=50)
        rng = np.random.default_rng(seed)
        measured = replace(
            truth,
            operators=tuple(
                msgspec.structs.replace(
                    operator,
                    cost_us=operator.cost_us * rng.uniform(1 - error, 1 + error),
                    selectivity=operator.selectivity * rng.uniform(1 - error, 1 + error),
                    error=error,
                )
                for operator in truth.operators
            ),
        )
        model = build_load_model(truth)
        robust.append(ratio(model, place(measured, Resilient())))
        plain.append(ratio(model, place(measured, Resilient(error=0.0))))
    assert np.mean(robust) > 1.05 * np.mean(plain)


def test_more_of_the_past_rates_are_survived_when_they_are_the_objective() -> None:
    base = problem_of(9, operators=40)
    rng = np.random.default_rng(0)
    model = build_load_model(base)
    # Bursts of the first two streams together, at seven tenths of what all sites can carry.
    spread = rng.exponential([8.0, 8.0, 1.0, 1.0, 1.0], size=(400, 5))
    history = 0.7 * spread / spread.sum(axis=1, keepdims=True) * base.capacity_cores.sum() / model.totals
    problem = replace(base, history=RateHistory(history))
    by_history = survived_share(model, place(problem, Resilient(objective="history")), history)
    by_volume = survived_share(model, place(problem, Resilient()), history)
    assert by_history > 1.2 * by_volume


def test_upper_bounds_on_rates_are_used() -> None:
    base = problem_of(4, operators=40)
    streams = tuple(
        msgspec.structs.replace(s, max_rate=s.rate * (0.8 if k else 5.0)) for k, s in enumerate(base.streams)
    )
    problem = replace(base, streams=streams)
    model = build_load_model(problem)
    upper = upper_bounds(problem, model)
    below, everywhere = (
        ratio_below(model, place(problem, Resilient(objective=o)).site_of_fragment, upper)
        for o in ("below_max_rates", "linear")
    )
    assert below > 1.01 * everywhere


def test_a_goal_without_its_figures_is_refused_in_words() -> None:
    problem = problem_of(1, operators=10)
    assert "past rates" in str(Resilient(objective="history").unsupported(problem))
    assert "max_rate" in str(Resilient(objective="below_max_rates").unsupported(problem))


def test_time_that_is_used_up_at_once_still_gives_a_plan() -> None:
    problem = problem_of(1, operators=50)
    placement = place(problem, Resilient(), steps=None, deadline=Deadline.in_seconds(0.0, lambda: 0.0))
    assert violations(problem, build_load_model(problem), placement) == []


def test_directions_grow_with_the_variables_until_memory_is_full() -> None:
    def directions(streams: int, operators: int) -> int:
        model = build_load_model(problem_of(0, streams=streams, operators=operators))
        return Resilient().count_for(model, 1024)

    assert directions(5, 50) == directions(10, 50) == 1024
    assert directions(20, 60) == 4 * 1024
    assert directions(50, 5000) == 40_000_000 // 5000


def test_progress_is_told_all_along_and_only_goes_up() -> None:
    told: list[float] = []
    place(problem_of(0, operators=50), Resilient(), progress=lambda done, what: told.append(done))
    assert len(told) > 20
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1.0)
