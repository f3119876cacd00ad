"""Feasible sets: the paper's examples by hand, its theorem and bounds, and the estimator's promises."""

from __future__ import annotations

from fractions import Fraction
from math import gamma, pi

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from lab.oracles.exact_volume import exact_ratio
from mooring.errors import InfeasibleError, InputError
from mooring.model.load.feasible.directions import Directions
from mooring.model.load.feasible.feasible_set import FeasibleSet
from mooring.model.load.model import Arcs, LoadModel

EXAMPLE_2 = [[14, 0], [6, 0], [0, 9], [0, 7]]
PLANS = {"a": [0, 0, 1, 1], "b": [0, 1, 0, 1], "c": [0, 1, 1, 0]}


def random_model(rng: np.random.Generator, variables: int, *, lower: bool = False) -> LoadModel:
    """Operators of all sorts on 2 to 10 unequal sites: few to many, on one stream each or on several."""
    sites = int(rng.integers(2, 11))
    coarse = rng.random() < 0.5
    operators = int(rng.integers(variables, 3 * variables + 1) if coarse else rng.integers(sites, 20 * sites))
    matrix = rng.random((operators, variables))
    matrix *= rng.random((operators, variables)) < rng.choice([0.2, 0.5, 1])
    if rng.random() < 0.5:
        matrix = np.zeros((operators, variables))
        matrix[np.arange(operators), np.arange(operators) % variables] = rng.lognormal(0, 1, operators)
    matrix[rng.integers(operators), matrix.sum(axis=0) == 0] = 1.0
    capacity = rng.uniform(0.5, 2.0, sites)
    bound = None
    if lower:
        bound = rng.dirichlet(np.ones(variables)) * rng.uniform(0, 0.3) * capacity.sum() / matrix.sum(axis=0)
    return LoadModel.from_coefficients(matrix, capacity, lower=bound)


def random_placement(rng: np.random.Generator, model: LoadModel) -> np.ndarray:
    """Anywhere, or greedily where the plane stays farthest from the origin."""
    if rng.random() < 0.5:
        return rng.integers(model.site_count, size=model.fragment_count)
    parts = model.coefficients.toarray() / model.totals
    weights = np.zeros((model.site_count, parts.shape[1]))
    placement = np.zeros(model.fragment_count, dtype=np.int64)
    for j in np.argsort(-np.linalg.norm(parts, axis=1)):
        candidates = weights + parts[j] / model.capacity_cores[:, None]
        placement[j] = np.linalg.norm(candidates, axis=1).argmin()
        weights[placement[j]] = candidates[placement[j]]
    return placement


def random_set(variables: int, seed: int, *, lower: bool = False) -> FeasibleSet:
    rng = np.random.default_rng([variables, seed])
    model = random_model(rng, variables, lower=lower)
    return FeasibleSet.of(model, random_placement(rng, model))


def plain_set(weights: object, lower: object = None) -> FeasibleSet:
    rows = np.array(weights, dtype=float, ndmin=2)
    bound = np.zeros(rows.shape[1]) if lower is None else np.asarray(lower)
    return FeasibleSet(rows, bound, tuple(f"x{k}" for k in range(rows.shape[1])))


def sets(most_variables: int = 5) -> st.SearchStrategy[FeasibleSet]:
    return st.builds(random_set, st.integers(1, most_variables), st.integers(0, 10**6))


class TestThePapersExample:
    """Example 2, Table 2, Figures 5 and 6, with both capacities one."""

    model = LoadModel.from_coefficients(EXAMPLE_2, [1, 1])

    @pytest.mark.parametrize(
        ("plan", "loads"),
        [("a", [[20, 0], [0, 16]]), ("b", [[14, 9], [6, 7]]), ("c", [[14, 7], [6, 9]])],
    )
    def test_table_2_gives_the_node_load_coefficients(self, plan: str, loads: list[list[float]]) -> None:
        assert self.model.site_coefficients(np.array(PLANS[plan])).tolist() == loads

    @pytest.mark.parametrize(
        ("plan", "weights"),
        [
            ("a", [[2, 0], [0, 2]]),
            ("b", [[Fraction(7, 5), Fraction(9, 8)], [Fraction(3, 5), Fraction(7, 8)]]),
            ("c", [[Fraction(7, 5), Fraction(7, 8)], [Fraction(3, 5), Fraction(9, 8)]]),
        ],
    )
    def test_weights_are_parts_of_load_over_parts_of_capacity(
        self, plan: str, weights: list[list[Fraction]]
    ) -> None:
        assert_allclose(FeasibleSet.of(self.model, PLANS[plan]).weights, np.array(weights, float), rtol=1e-15)

    # Areas in rate space under the lines of Figure 5, by hand: (a) the rectangle 1/20 x 1/16; (b) line 1 is
    # below line 2 everywhere, so the triangle 1/14 x 1/9 / 2; (c) the lines meet at (1/42, 2/21), leaving the
    # quadrilateral (0,0), (1/14,0), (1/42,2/21), (0,1/9). Ideal: the triangle 2/20 x 2/16 / 2.
    AREA_A = Fraction(1, 320)
    AREA_B = Fraction(1, 252)
    AREA_C = Fraction(1, 2) * (Fraction(1, 14) * Fraction(2, 21) + Fraction(1, 42) * Fraction(1, 9))
    IDEAL = Fraction(1, 160)

    @pytest.mark.parametrize("plan", "abc")
    def test_figures_5_and_6_give_the_areas(self, plan: str) -> None:
        ratio = float(getattr(self, f"AREA_{plan.upper()}") / self.IDEAL)
        feasible = FeasibleSet.of(self.model, PLANS[plan])
        assert exact_ratio(feasible.weights) == pytest.approx(ratio, rel=1e-12)
        assert feasible.ratio().value == pytest.approx(ratio, abs=1e-6)

    def test_axis_and_plane_distances_of_plan_c(self) -> None:
        feasible = FeasibleSet.of(self.model, PLANS["c"])
        assert_allclose(feasible.axis_distances, [5 / 7, 8 / 9])
        assert_allclose(feasible.plane_distances, [(1.4**2 + 0.875**2) ** -0.5, (0.6**2 + 1.125**2) ** -0.5])
        assert feasible.plane_distance == feasible.plane_distances[0]

    def test_plan_b_saturates_at_its_first_site_in_every_direction(self) -> None:
        assert FeasibleSet.of(self.model, PLANS["b"]).binding_shares().tolist() == [1.0, 0.0]

    def test_plan_a_saturates_at_either_site_equally_often(self) -> None:
        assert_allclose(FeasibleSet.of(self.model, PLANS["a"]).binding_shares(), [0.5, 0.5], atol=1e-3)


class TestTheorem1:
    @given(sets())
    @settings(max_examples=60, deadline=None)
    def test_no_set_is_larger_than_the_ideal_one(self, feasible: FeasibleSet) -> None:
        assert 0.0 < feasible.ratio(2**10).value <= 1.0

    @given(sets(), st.integers(0, 100))
    @settings(max_examples=60, deadline=None)
    def test_every_feasible_point_is_in_the_ideal_set(self, feasible: FeasibleSet, seed: int) -> None:
        """On each ray the nearest plane is no farther than the ideal one, so clipping is idle."""
        directions = Directions.draw(len(feasible.variables), 32, seed)
        assert ((feasible.weights @ directions.values).max(axis=0) >= 1 - 1e-12).all()

    @given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 1000))
    @settings(max_examples=30, deadline=None)
    def test_perfect_balance_reaches_the_ideal_set(self, sites: int, variables: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        capacity = rng.uniform(0.5, 2, sites)
        loads = np.outer(capacity, rng.uniform(0.1, 10, variables))
        model = LoadModel.from_coefficients(loads, capacity)
        assert FeasibleSet.of(model, np.arange(sites)).ratio(64).value == pytest.approx(1.0, rel=1e-12)


class TestBounds:
    @given(sets())
    @settings(max_examples=60, deadline=None)
    def test_the_product_of_axis_distances_is_a_lower_bound(self, feasible: FeasibleSet) -> None:
        """Section 4.1: the simplex through the nearest axis points lies inside the set."""
        assert np.prod(feasible.axis_distances) <= exact_ratio(feasible.weights) * (1 + 1e-9)

    @given(sets(most_variables=4))
    @settings(max_examples=60, deadline=None)
    def test_the_hypersphere_of_the_plane_distance_is_a_lower_bound(self, feasible: FeasibleSet) -> None:
        """Section 4.2: 1/2^d of the ball, relative to the simplex's 1/d!."""
        d = len(feasible.variables)
        ball = pi ** (d / 2) / gamma(d / 2 + 1) * feasible.plane_distance**d / 2**d * gamma(d + 1)
        assert ball <= exact_ratio(feasible.weights) * (1 + 1e-9)

    def test_one_plane_has_the_product_of_its_axis_distances_exactly(self) -> None:
        weights = np.array([[1.5, 2.0, 4.0, 1.0]])
        assert plain_set(weights).ratio(2**8).value == pytest.approx(1 / 12, rel=1e-12)
        assert exact_ratio(weights) == pytest.approx(1 / 12, rel=1e-9)


class TestInvariance:
    @given(st.integers(2, 4), st.integers(0, 1000), st.floats(1e-6, 1e6), st.floats(1e-3, 1e3))
    @settings(max_examples=40, deadline=None)
    def test_units_of_rate_and_of_capacity_do_not_matter(
        self, variables: int, seed: int, rate_unit: float, core_unit: float
    ) -> None:
        rng = np.random.default_rng(seed)
        model = random_model(rng, variables, lower=True)
        placement = random_placement(rng, model)
        units = np.ones(variables)
        units[0] = rate_unit
        scaled = LoadModel.from_coefficients(
            model.coefficients.toarray() * units * core_unit,
            model.capacity_cores * core_unit,
            lower=model.lower / units,
        )
        one, other = FeasibleSet.of(model, placement), FeasibleSet.of(scaled, placement)
        assert other.ratio(2**9).value == pytest.approx(one.ratio(2**9).value, rel=1e-9)
        assert other.plane_distance == pytest.approx(one.plane_distance, rel=1e-9)

    @given(sets(), st.integers(0, 9), st.floats(0, 3))
    @settings(max_examples=60, deadline=None)
    def test_more_load_on_a_site_never_grows_the_set(
        self, feasible: FeasibleSet, site: int, more: float
    ) -> None:
        directions = Directions.draw(len(feasible.variables), 2**8, 0)
        weights = feasible.weights.copy()
        weights[site % len(weights)] += more
        largest = (feasible.weights @ directions.values).max(axis=0)
        assert ((weights @ directions.values).max(axis=0) >= largest).all()
        if len(feasible.variables) <= 3:
            assert exact_ratio(weights) <= exact_ratio(feasible.weights) * (1 + 1e-9)

    def test_the_same_seed_gives_the_same_estimate_and_another_seed_another(self) -> None:
        feasible = random_set(4, 1)
        assert feasible.ratio(2**8, seed=3) == feasible.ratio(2**8, seed=3)
        assert feasible.ratio(2**8, seed=3) != feasible.ratio(2**8, seed=4)

    def test_given_directions_are_used_as_drawn(self) -> None:
        feasible = random_set(4, 1)
        assert feasible.ratio(directions=Directions.draw(4, 2**8, 3)) == feasible.ratio(2**8, seed=3)


class TestLowerBound:
    def test_plan_c_above_a_minimum_rate_by_hand(self) -> None:
        """r1 >= 1/28: what is left of plan (c) is a triangle, over the ideal triangle.

        At r1 = 1/28 line 1 leaves r2 <= 1/14 and line 2 r2 <= 11/126 > 1/14, so line 1 alone bounds the
        set: the triangle 1/28 x 1/14 / 2. The ideal one has legs 1/10 - 1/28 = 9/140 and 9/140 x 20/16.
        """
        model = LoadModel.from_coefficients(EXAMPLE_2, [1, 1], lower=[1 / 28, 0])
        ratio = float(Fraction(1, 28 * 14) / (Fraction(9, 140) ** 2 * Fraction(20, 16)))
        feasible = FeasibleSet.of(model, PLANS["c"])
        assert exact_ratio(feasible.weights, feasible.lower) == pytest.approx(ratio, rel=1e-12)
        assert feasible.ratio().value == pytest.approx(ratio, abs=1e-6)

    @given(st.integers(2, 4), st.integers(0, 10**6))
    @settings(max_examples=40, deadline=None)
    def test_the_set_above_the_bound_is_the_whole_set_cut_there(self, variables: int, seed: int) -> None:
        """Hit or miss from uniform points above the bound, at four standard deviations."""
        feasible = random_set(variables, seed, lower=True)
        points = np.random.default_rng(seed).dirichlet(np.ones(variables + 1), 20_000)[:, :-1]
        points = feasible.lower + points * (1 - feasible.lower.sum())
        hits = (points @ feasible.weights.T <= 1).all(axis=1).mean()
        slack = 4 * np.sqrt(hits * (1 - hits) / len(points)) + 3e-4
        assert abs(feasible.ratio(2**12).value - hits) <= slack

    def test_plane_distance_is_measured_from_the_bound(self) -> None:
        feasible = plain_set([[2.0, 0.0], [0.0, 2.0]], [0.25, 0.125])
        assert_allclose(feasible.plane_distances, [0.25, 0.375])

    def test_a_bound_that_overloads_a_site_leaves_nothing(self) -> None:
        feasible = plain_set([[4.0, 0.0], [0.0, 1.0]], [0.3, 0.1])
        assert feasible.ratio().value == 0.0
        assert feasible.ratio().interval() == (0.0, 0.0)
        assert feasible.plane_distance < 0
        assert feasible.binding_shares().tolist() == [1.0, 0.0]
        assert exact_ratio(feasible.weights, feasible.lower) == 0.0

    def test_minimum_rates_beyond_the_ideal_set_are_infeasible(self) -> None:
        model = LoadModel.from_coefficients([[1, 0], [0, 1]], [1, 1], lower=[1.5, 0.6])
        with pytest.raises(InfeasibleError, match="minimum rates"):
            FeasibleSet.of(model, [0, 1])


class TestFixedLoad:
    def test_it_shrinks_the_capacity_left_on_its_site(self) -> None:
        """Half of site 0 is gone: c = (1/3, 2/3), w = (3/2, 3/4) on one stream split evenly, ratio 2/3."""
        model = LoadModel.from_coefficients([[1], [1]], [1, 1], fixed_cores=[0.5, 0.0])
        feasible = FeasibleSet.of(model, [0, 1])
        assert_allclose(feasible.weights, [[1.5], [0.75]])
        assert feasible.ratio().value == pytest.approx(2 / 3, rel=1e-12)
        assert feasible.ratio().standard_error == 0.0

    @pytest.mark.parametrize("fixed", [1.0, 1.25])
    def test_a_site_without_capacity_left_for_its_load_leaves_nothing(self, fixed: float) -> None:
        model = LoadModel.from_coefficients([[1, 0], [0, 1]], [1, 1], fixed_cores=[fixed, 0.0])
        feasible = FeasibleSet.of(model, [0, 1])
        assert feasible.ratio().value == 0.0
        assert feasible.overloaded.tolist() == [True, False]
        assert feasible.plane_distance == 0.0
        assert feasible.axis_distances.tolist() == [0.0, 0.0]

    def test_a_full_site_without_load_costs_nothing_more(self) -> None:
        model = LoadModel.from_coefficients([[0.0], [1.0]], [1, 1], fixed_cores=[1.0, 0.0])
        assert FeasibleSet.of(model, [0, 1]).ratio().value == 1.0

    def test_an_overloaded_site_counts_even_when_no_stream_loads_anything(self) -> None:
        model = LoadModel.from_coefficients(np.zeros((2, 1)), [1, 1], fixed_cores=[1.5, 0.0])
        assert FeasibleSet.of(model, [0, 1]).ratio().value == 0.0

    def test_fixed_load_beyond_all_capacity_is_infeasible(self) -> None:
        model = LoadModel.from_coefficients([[1]], [1], fixed_cores=[2.0])
        with pytest.raises(InfeasibleError, match="-1 cores"):
            FeasibleSet.of(model, [0])


class TestWhatIsLeftOut:
    def test_variables_that_load_nothing_are_left_out(self) -> None:
        model = LoadModel.from_coefficients([[2, 0, 1], [1, 0, 1]], [1, 1])
        feasible = FeasibleSet.of(model, [0, 1])
        assert feasible.variables == ("s1", "s3")
        assert feasible.weights.shape == (2, 2)

    def test_without_variables_the_set_is_everything(self) -> None:
        model = LoadModel.from_coefficients(np.zeros((2, 1)), [1, 1])
        feasible = FeasibleSet.of(model, [0, 1])
        assert feasible.ratio().value == 1.0
        assert feasible.plane_distance == np.inf
        assert feasible.binding_shares().tolist() == [0.0, 0.0]

    def test_communication_makes_crossing_worse(self) -> None:
        """1000 us per tuple at each end: two operators of .001 cores per tuple/s double their load apart."""
        arcs = Arcs(
            source_fragment=np.array([0]),
            source_site=np.array([-1]),
            target_fragment=np.array([1]),
            target_site=np.array([-1]),
            rates=LoadModel.from_coefficients([[1.0]], [1]).coefficients,
            comm_us=1000.0,
        )
        model = LoadModel.from_coefficients([[0.001], [0.001]], [1, 1], arcs=arcs)
        assert FeasibleSet.of(model, [0, 1]).ratio().value == pytest.approx(0.5)
        assert FeasibleSet.of(model, [0, 0]).ratio().value == pytest.approx(0.5)


class TestBadInput:
    @pytest.mark.parametrize("points", [0, 16, 1000, 2**14 + 1])
    def test_points_must_be_a_power_of_two(self, points: int) -> None:
        with pytest.raises(InputError, match="power of two"):
            random_set(3, 0).ratio(points)

    def test_directions_must_match_the_variables(self) -> None:
        with pytest.raises(InputError, match="3 dimensions for 2 variables"):
            random_set(2, 0).ratio(directions=Directions.draw(3, 32, 0))

    def test_shapes_and_signs_are_checked(self) -> None:
        with pytest.raises(InputError, match="shape"):
            FeasibleSet(np.ones((2, 3)), np.zeros(2), ("a", "b"))
        with pytest.raises(InputError, match="at least zero"):
            plain_set([[-1.0, 1.0]])


class TestTheEstimatorsPromises:
    @pytest.mark.parametrize("variables", [2, 3, 4, 5])
    def test_it_is_within_a_thousandth_and_its_interval_covers_the_truth(self, variables: int) -> None:
        """200 random cases, coarse ones and lower bounds included: all within .001, 90% or more covered."""
        errors, covered = [], 0
        for seed in range(200):
            feasible = random_set(variables, seed, lower=seed % 4 == 0)
            truth = exact_ratio(feasible.weights, feasible.lower)
            estimate = feasible.ratio(seed=seed)
            low, high = estimate.interval()
            errors.append(abs(estimate.value - truth))
            covered += low - 1e-12 <= truth <= high + 1e-12
        assert max(errors) <= 0.001
        assert covered >= 180

    def test_a_cube_is_known_in_any_dimension(self) -> None:
        """Every stream on a site of its own: ratio d! / d^d."""
        for d, rel in ((3, 1e-3), (6, 1e-2)):
            estimate = plain_set(d * np.eye(d)).ratio(2**16)
            assert estimate.value == pytest.approx(gamma(d + 1) / d**d, rel=rel)

    def test_hundreds_of_variables_stay_finite(self) -> None:
        estimate = random_set(300, 1).ratio(2**6)
        assert np.isfinite(estimate.value)
        assert np.isfinite(estimate.standard_error)

    def test_twenty_streams_with_many_operators_are_within_two_percent(self) -> None:
        """At the default points, against independent runs of at least eight times as many."""
        rng = np.random.default_rng(20)
        for _ in range(6):
            matrix = np.kron(rng.uniform(0.1, 1.0, (30, 1)), np.eye(20)) * rng.uniform(0.5, 2.0, 20)
            model = LoadModel.from_coefficients(matrix, rng.uniform(0.5, 2.0, 8))
            feasible = FeasibleSet.of(model, random_placement(rng, model))
            truth = feasible.ratio_within(0.004, seed=1)
            estimate = feasible.ratio()
            assert estimate.value == pytest.approx(truth.value, rel=0.02)
            assert 0.0 < estimate.half_width() < 0.1 * estimate.value

    def test_twenty_streams_with_few_operators_are_within_two_percent_when_asked(self) -> None:
        """Coarse placements hang on few directions: sample on until it is small, or say it is not."""
        reached = 0
        for seed in range(8):
            feasible = random_set(20, seed)
            truth = feasible.ratio_within(0.005, seed=1, most_points=2**20)
            estimate = feasible.ratio_within(0.01, seed=2, most_points=2**19)
            if estimate.half_width() <= 0.01 * estimate.value:
                reached += 1
                assert estimate.value == pytest.approx(truth.value, rel=0.02)
            else:
                assert abs(estimate.value - truth.value) <= 2 * estimate.half_width()
        assert reached >= 6

    def test_sampling_on_stops_at_the_most_points_and_reports_the_error_it_has(self) -> None:
        estimate = random_set(20, 0).ratio_within(1e-9, most_points=2**18)
        assert estimate.degrees_of_freedom == 15
        assert estimate.half_width() > 1e-9 * estimate.value
