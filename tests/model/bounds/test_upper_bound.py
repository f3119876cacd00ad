"""The upper bound: never below a plan, close to the optimum on small problems, below one when it has to
be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.algorithms.exact.policy import optimal_assign
from mooring.algorithms.rod.policy import rod_assign
from mooring.model.bounds.crowded_site import crowded_bound
from mooring.model.bounds.upper_bound import axis_bound, coarseness, corner_bound, root_bound, upper_bound
from mooring.model.load.build import build_load_model
from mooring.model.load.feasible.feasible_set import FeasibleSet
from mooring.model.load.model import LoadModel
from mooring.model.problem.generate import GraphParameters, generate_problem


def ratio(model: LoadModel, sites: np.ndarray) -> float:
    return FeasibleSet.of(model, sites).ratio().value


def test_on_two_sites_it_is_within_a_tenth_of_the_optimum_and_never_below() -> None:
    gaps = []
    for seed in range(12):
        streams = 2 + seed % 4
        parameters = GraphParameters(streams=streams, operators=streams * (16 // streams), sites=2)
        model = build_load_model(generate_problem(parameters, np.random.default_rng(seed)))
        best = ratio(model, optimal_assign(model))
        bound = upper_bound(model, rod_assign(model))
        assert bound >= best
        gaps.append(bound / best - 1.0)
    assert np.mean(gaps) <= 0.1


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(2, 4), st.integers(2, 7))
def test_no_random_plan_exceeds_it(seed: int, sites: int, streams: int, fragments: int) -> None:
    rng = np.random.default_rng(seed)
    coefficients = (
        rng.uniform(0.0, 1.0, (fragments, streams)) * (rng.random((fragments, streams)) < 0.7) + 1e-3
    )
    model = LoadModel.from_coefficients(
        coefficients,
        rng.uniform(0.5, 2.0, sites),
        lower=rng.uniform(0.0, 0.1, streams) / fragments,
        fixed_cores=rng.uniform(0.0, 0.02, fragments),
        pinned_site=np.where(rng.random(fragments) < 0.2, 0, -1),
    )
    pinned = model.pinned_site
    plans = [np.where(pinned >= 0, pinned, rng.integers(0, sites, fragments)) for _ in range(40)]
    best = max(ratio(model, plan) for plan in plans)
    assert upper_bound(model, plans[0], nodes=200) >= best - 1e-9
    assert root_bound(model) >= best - 0.01


@pytest.mark.parametrize("parts", [[14.0, 6.0], [3.0, 3.0, 3.0], [5.0, 4.0, 2.0]])
def test_it_is_below_one_when_operators_are_too_coarse_to_balance(parts: list[float]) -> None:
    rows = [[part, 0.0] for part in parts] + [[0.0, 1.0]] * 200
    model = LoadModel.from_coefficients(rows, capacity_cores=[1.0, 1.0])
    assert coarseness(model)[0] > 0.0
    assert root_bound(model) < 1.0
    assert upper_bound(model, rod_assign(model)) < 1.0


def test_few_fragments_of_a_stream_on_many_sites_bound_every_plan() -> None:
    """Two equal fragments per stream on four sites: two sites have all of a stream. Placed apart, a stream is
    on one half of the sites or the other; the bound of single sites alone would be 1.0 less a corner."""
    model = LoadModel.from_coefficients(np.kron(np.eye(2), np.ones((2, 1))), capacity_cores=[1.0] * 4)
    best = ratio(model, optimal_assign(model))
    assert best <= axis_bound(model) <= 1.15 * best


def test_it_is_one_when_every_stream_can_be_balanced() -> None:
    model = LoadModel.from_coefficients(np.kron(np.eye(3), np.ones((4, 1))), capacity_cores=[1.0, 1.0])
    assert upper_bound(model, rod_assign(model)) == 1.0


def test_the_corners_cut_off_are_those_of_the_exact_volume() -> None:
    """Two parts of 14 and 6 on two equal sites: nothing beyond 1 / 1.4 of the axis, a corner of (1 - 1 /
    1.4)^2."""
    rows = [[14.0, 0.0], [6.0, 0.0]] + [[0.0, 1.0]] * 2
    model = LoadModel.from_coefficients(rows, capacity_cores=[1.0, 1.0])
    corners = corner_bound(model, coarseness(model))
    assert corners == pytest.approx(1.0 - (1.0 - 1.0 / 1.4) ** 2)
    assert ratio(model, optimal_assign(model)) <= axis_bound(model) < corners


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(2, 6), st.floats(0.05, 3.0))
def test_a_crowded_bounds_every_plan_that_has_it(
    seed: int, sites: int, variables: int, excess: float
) -> None:
    """Loads as if fragments could be divided, so that the plans are the best there could be: one site has
    1 + excess of its share of a variable and anything of the others; the rest is spread evenly."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(sites, 3.0))
    excess = min(excess, 1.0 / shares[0] - 1.0)
    bound = crowded_bound(excess, float(shares.min()), variables)
    directions = rng.dirichlet(np.ones(variables), 4000)
    for _ in range(20):
        crowded = 1.0 + rng.uniform(-1.0, 0.2, variables) * rng.uniform(0.0, 1.0)
        crowded[0] = 1.0 + excess
        others = (1.0 - shares[0] * crowded) / (1.0 - shares[0])
        worst = np.maximum(directions @ crowded, directions @ others)
        values = worst ** -float(variables)
        assert values.mean() - 4.0 * values.std() / len(values) ** 0.5 <= bound


def test_the_bound_of_crowded_sites_is_reached_by_dividing_the_rest_evenly() -> None:
    directions = np.random.default_rng(0).dirichlet(np.ones(4), 200_000)
    reached = []
    for others in np.linspace(-0.5, 0.0, 101):
        over = directions @ np.array([0.6, others, others, others])
        reached.append(float(((1.0 + np.maximum(over, -over / 4.0)) ** -4.0).mean()))
    assert crowded_bound(0.6, 0.2, 4) == pytest.approx(max(reached), abs=2e-3)
