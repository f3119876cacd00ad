"""Volumes in hundreds of dimensions, against sets whose volume is known exactly."""

from __future__ import annotations

from fractions import Fraction
from math import comb, lgamma, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.oracles.exact_volume import exact_ratio
from mooring.arrays import Floats
from mooring.model.load.feasible.feasible_set import FeasibleSet
from mooring.model.load.feasible.log_volume import LogEstimate, log_volume
from mooring.model.load.model import LoadModel

FEW_VISITS = 2_000_000


def within(found: LogEstimate, exact: float, errors: float = 5.0) -> bool:
    """Eight walks tell their spread roughly: five standard errors are as seldom as four would be."""
    return abs(found.value - exact) <= errors * found.standard_error + 1e-9


def cut_cube(variables: int, side: Fraction) -> tuple[Floats, float]:
    """The unit simplex within a cube, and the logarithm of what is left of it, by inclusion and exclusion."""
    left = sum(
        (-1) ** j * comb(variables, j) * (1 - j * side) ** variables
        for j in range(variables + 1)
        if j * side < 1
    )
    planes = np.vstack([np.ones(variables), np.eye(variables) / float(side)])
    return planes, log(left.numerator) - log(left.denominator)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 400))
def test_sites_that_share_no_variable_are_simplices_whose_volumes_multiply(seed: int, variables: int) -> None:
    rng = np.random.default_rng(seed)
    site = rng.integers(0, max(variables // 3, 1), variables)
    planes = np.zeros((site.max() + 1, variables))
    planes[site, np.arange(variables)] = rng.uniform(0.5, 300.0, variables)
    found = log_volume(planes)
    sizes = np.bincount(site)
    exact = lgamma(variables + 1) - np.log(planes[planes > 0]).sum() - sum(lgamma(n + 1) for n in sizes)
    assert found.standard_error == 0.0
    assert found.value == pytest.approx(exact, rel=1e-12, abs=1e-9)


@pytest.mark.parametrize(
    ("variables", "side"), [(65, Fraction(1, 20)), (100, Fraction(1, 60)), (150, Fraction(1, 100))]
)
def test_a_simplex_within_a_cube_is_measured_to_a_tenth_of_an_order_of_magnitude(
    variables: int, side: Fraction
) -> None:
    planes, exact = cut_cube(variables, side)
    found = log_volume(planes)
    assert within(found, exact)
    assert 0.0 < found.log10_error < 0.1


@pytest.mark.parametrize("seed", range(12))
def test_few_variables_agree_with_the_exact_polytope(seed: int) -> None:
    rng = np.random.default_rng(seed)
    variables, sites = int(rng.integers(2, 6)), int(rng.integers(2, 6))
    planes = np.vstack([rng.uniform(0.1, 3.0, (sites, variables)), np.ones(variables)])
    assert within(log_volume(planes, seed), log(exact_ratio(planes)))


def test_a_hundred_variables_agree_with_directions_where_these_still_find_the_volume() -> None:
    """Planes that hardly differ from the ideal one: the radius is nearly the same along all directions."""
    rng = np.random.default_rng(1)
    parts = rng.dirichlet(np.full(4, 400.0), size=100).T  # each of four sites has about a quarter
    feasible = FeasibleSet(4.0 * parts, np.zeros(100), tuple(f"x{k}" for k in range(100)))
    sampled = feasible.ratio(2**14)
    found = feasible.log_ratio()
    error = np.hypot(found.standard_error, sampled.standard_error / sampled.value)
    assert abs(found.value - log(sampled.value)) <= 5.0 * error


@settings(max_examples=10)
@given(st.integers(0, 10**6))
def test_units_and_implied_planes_change_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    planes = rng.uniform(0.0, 2.0, (6, 80)) * (rng.random((6, 80)) < 0.5)
    planes = np.vstack([planes, np.ones(80)])
    found = log_volume(planes, seed, FEW_VISITS)
    units = rng.uniform(0.1, 10.0, 80)
    stretched = log_volume(planes * units, seed, FEW_VISITS)
    assert stretched.value == pytest.approx(found.value - np.log(units).sum(), rel=1e-6, abs=1e-4)
    between = 0.5 * planes[:3] + 0.5 * planes[3:6]
    implied = log_volume(np.vstack([planes, between]), seed, FEW_VISITS)
    error = np.hypot(found.standard_error, implied.standard_error)
    assert abs(implied.value - found.value) <= 6.0 * error


def test_errors_are_honest() -> None:
    """Over many seeds the estimates scatter as they say."""
    planes, exact = cut_cube(80, Fraction(1, 40))
    found = [log_volume(planes, seed, FEW_VISITS) for seed in range(30)]
    off = np.array([(each.value - exact) / each.standard_error for each in found])
    assert abs(off.mean()) < 0.8
    assert 0.6 < off.std() < 1.9


def test_the_same_seed_gives_the_same_bytes() -> None:
    planes, _ = cut_cube(70, Fraction(1, 30))
    assert log_volume(planes, 3) == log_volume(planes, 3)
    assert log_volume(planes, 3) != log_volume(planes, 4)


def test_numbers_too_small_for_one_are_none_and_an_empty_set_is_zero() -> None:
    assert LogEstimate.of_log10(-350.0).number is None
    assert LogEstimate.of_log10(-350.0).number_error is None
    assert LogEstimate.of_log10(-20.0).number == pytest.approx(1e-20)
    assert LogEstimate(0.01).number == 1.0  # a ratio, sampled a little too large
    model = LoadModel.from_coefficients(np.eye(70), np.ones(70), lower=np.full(70, 0.9))
    together = FeasibleSet.of(model, np.zeros(70, dtype=np.int64))
    assert together.log_ratio() == LogEstimate(-np.inf)
    assert together.log_ratio().number == 0.0


def test_plans_of_many_variables_are_compared_by_numbers_that_differ() -> None:
    """Both ratios are too small for a number; the better plan has the larger one to compare."""
    model = LoadModel.from_coefficients(np.ones((480, 480)) * 1e-5 + np.eye(480), np.ones(480))
    better, worse = (FeasibleSet.of(model, np.arange(480) % sites) for sites in (60, 40))
    assert better.ratio(2**6).value == worse.ratio(2**6).value == 0.0
    assert 0.0 < worse.comparable_ratio() < better.comparable_ratio()
    assert worse.log_ratio().log10 < better.log_ratio().log10 < -300.0


def test_few_variables_are_compared_by_the_ratio_itself() -> None:
    model = LoadModel.from_coefficients([[14, 0], [6, 0], [0, 9], [0, 7]], [1, 1])
    feasible = FeasibleSet.of(model, [0, 1, 0, 1])
    assert feasible.comparable_ratio() == feasible.ratio().value
