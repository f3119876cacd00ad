"""The bound as a logarithm: never below a plan, and close to the best one where operators stay apart."""

from __future__ import annotations

from itertools import product
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.oracles.exact_volume import exact_ratio
from mooring.algorithms.rod.policy import rod_assign
from mooring.model.bounds.log_bound import log_upper_bound
from mooring.model.load.feasible.feasible_set import FeasibleSet
from mooring.model.load.model import LoadModel

FEW_VISITS = 2_000_000


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 3), st.integers(2, 4), st.integers(2, 5))
def test_no_plan_of_few_fragments_exceeds_it(seed: int, sites: int, streams: int, fragments: int) -> None:
    """Against all plans, their volumes exact; lower bounds, fixed load and pins included."""
    rng = np.random.default_rng(seed)
    dense = rng.uniform(0.0, 1.0, (fragments, streams)) * (rng.random((fragments, streams)) < 0.6) + 1e-3
    pinned = np.where(rng.random(fragments) < 0.2, 0, -1)
    model = LoadModel.from_coefficients(
        dense,
        rng.uniform(0.5, 2.0, sites),
        lower=rng.uniform(0.0, 0.1, streams) / fragments,
        fixed_cores=rng.uniform(0.0, 0.02, fragments) * (rng.random() < 0.5),
        pinned_site=pinned,
    )
    plans = (np.array(plan) for plan in product(range(sites), repeat=fragments))
    sets = [FeasibleSet.of(model, plan) for plan in plans if ((pinned < 0) | (plan == pinned)).all()]
    best = max(exact_ratio(each.weights, each.lower) for each in sets)
    assert log_upper_bound(model, visits=FEW_VISITS) >= log(best) - 1e-9


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6), st.integers(66, 120), st.integers(2, 30))
def test_no_plan_over_many_streams_exceeds_it(seed: int, streams: int, sites: int) -> None:
    rng = np.random.default_rng(seed)
    model = LoadModel.from_coefficients(
        rng.uniform(0.1, 1.0, (2 * streams, streams)) * (rng.random((2 * streams, streams)) < 0.03)
        + np.tile(np.eye(streams), (2, 1)),
        rng.uniform(0.5, 2.0, sites),
    )
    bound = log_upper_bound(model, visits=FEW_VISITS)
    for plan in (rod_assign(model), rng.integers(0, sites, 2 * streams)):
        reached = FeasibleSet.of(model, plan).log_ratio(visits=FEW_VISITS)
        assert bound >= reached.value - 4.0 * reached.standard_error


def test_it_meets_the_best_plan_where_every_operator_has_a_site_of_its_own() -> None:
    """A hundred queries over four streams each, on 150 sites: apart is best, and no plan can do better."""
    operators = np.repeat(np.eye(100), 4, axis=1)
    model = LoadModel.from_coefficients(operators, np.ones(150))
    apart = FeasibleSet.of(model, np.arange(100)).log_ratio()
    assert apart.standard_error == 0.0
    assert apart.value < log(1e-100)
    assert log_upper_bound(model) == pytest.approx(apart.value, rel=1e-12)


def test_where_no_plan_carries_the_minimum_rates_it_says_so() -> None:
    model = LoadModel.from_coefficients(np.eye(70), np.full(140, 0.5), lower=[0.6] + [0.0] * 69)
    assert log_upper_bound(model) == -np.inf
