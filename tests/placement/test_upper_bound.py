"""The upper bound: never below a plan, close to the optimum on small problems, below one when it has to
be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.load.build import build_load_model
from mooring.load.feasible_set import FeasibleSet
from mooring.load.model import LoadModel
from mooring.placement.optimal import optimal_assign
from mooring.placement.rod import rod_assign
from mooring.placement.upper_bound import axis_bound, coarseness, root_bound, upper_bound
from mooring.problem.generate import GraphParameters, generate_problem


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


def test_it_is_one_when_every_stream_can_be_balanced() -> None:
    model = LoadModel.from_coefficients(np.kron(np.eye(3), np.ones((4, 1))), capacity_cores=[1.0, 1.0])
    assert upper_bound(model, rod_assign(model)) == 1.0


def test_the_corners_cut_off_are_those_of_the_exact_volume() -> None:
    """Two parts of 14 and 6 on two equal sites: nothing beyond 1 / 1.4 of the axis, a corner of (1 - 1 /
    1.4)^2."""
    rows = [[14.0, 0.0], [6.0, 0.0]] + [[0.0, 1.0]] * 2
    model = LoadModel.from_coefficients(rows, capacity_cores=[1.0, 1.0])
    assert axis_bound(model) == pytest.approx(1.0 - (1.0 - 1.0 / 1.4) ** 2)
