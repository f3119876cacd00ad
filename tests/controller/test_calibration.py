"""Costs are re-estimated from what fragments and sites use, robustly, and only where it matters."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mooring.contracts.decider import Observation
from mooring.contracts.engine import FragmentReport, Measurement, SiteReport
from mooring.controller.calibration import Calibration
from mooring.controller.known_model import KnownModel
from mooring.model.load.build import build_load_model
from mooring.model.load.feasible.headroom import growth_by_site
from mooring.model.placement.placement import FragmentSites
from mooring.model.problem.problem import Problem

PROBLEM = Problem.from_dict(
    {
        "sites": {"a": {"capacity": 2}, "b": {"capacity": 2}},
        "streams": {"x": {"rate": 100}},
        "operators": {
            "f": {"inputs": ["x"], "cost_us": 2000, "selectivity": 0.5, "fixed_cores": 0.1},
            "g": {"inputs": ["f"], "cost_us": 4000},
        },
    }
)
HOMES = FragmentSites({"f": "a", "g": "b"})


def looked(rate: float, f: float, g: float, g_rate: float | None = None, **options: Any) -> Observation:
    came = rate * 0.5 if g_rate is None else g_rate
    fragments = {
        "f": FragmentReport("a", True, rate, came, f, **options),
        "g": FragmentReport("b", True, came, came, g, **options),
    }
    sites = {"a": SiteReport(f / 2.0, None, 2.0), "b": SiteReport(g / 2.0, None, 2.0)}
    measured = Measurement(0.0, 5.0, {"x": rate}, sites, fragments)
    return Observation(0.0, HOMES, measured, placement=HOMES)


def calibrated(look: Callable[[float], Observation], rates: list[float]) -> Calibration:
    found = Calibration(PROBLEM)
    for rate in rates:
        found.take(look(rate))
    return found


def test_statistics_that_are_right_stay_as_they_are() -> None:
    rng = np.random.default_rng(0)
    found = calibrated(
        lambda rate: looked(rate, 0.1 + rate * 2e-3 * rng.normal(1, 0.05), rate * 2e-3), [100.0] * 24
    )
    assert found.factors.tolist() == [1.0, 1.0]
    assert found.in_words() == "as the problem states them"
    assert found.problem is PROBLEM


def test_a_cost_that_is_wrong_is_found_although_some_looks_are_far_off() -> None:
    odd = iter([1.0, 1.0, 9.0, 1.0, 1.0, 0.1] * 4)
    found = calibrated(lambda rate: looked(rate, 0.1 + rate * 6e-3 * next(odd), rate * 2e-3), [100.0] * 24)
    assert found.factors == pytest.approx([3.0, 1.0], rel=0.01)
    assert found.problem.operators[0].cost_us == pytest.approx(6000.0, rel=0.01)
    assert "f x 3.00" in found.in_words()


def test_rates_that_vary_tell_the_fixed_part_from_the_part_per_tuple() -> None:
    rates = [50.0 + 10 * k for k in range(20)]
    found = calibrated(lambda rate: looked(rate, 0.4 + rate * 1e-3, rate * 2e-3), rates)
    assert found.fixed_cores[0] == pytest.approx(0.4, rel=0.01)
    assert found.factors[0] == pytest.approx(0.5, rel=0.01)
    assert found.model.fixed_cores[0] == pytest.approx(0.4, rel=0.01)


def test_a_selectivity_that_is_wrong_is_found_where_its_tuples_arrive() -> None:
    found = calibrated(lambda rate: looked(rate, 0.1 + rate * 2e-3, rate * 4e-3, rate), [100.0] * 12)
    assert found.factors == pytest.approx([1.0, 2.0], rel=0.01)


def test_behind_a_site_that_is_held_up_too_few_arrive_and_nothing_is_concluded() -> None:
    found = calibrated(lambda rate: looked(rate, 2.0, rate * 0.25 * 4e-3, rate * 0.25), [950.0] * 12)
    assert found.factors[1] == 1.0


def test_where_fragments_cannot_be_seen_their_site_tells() -> None:
    rates = [60.0 + 20.0 * (k // 3 % 5) for k in range(60)]
    found = calibrated(lambda rate: looked(rate, 0.1 + rate * 3e-3, rate * 2e-3, cores_estimated=True), rates)
    assert found.factors == pytest.approx([1.5, 1.0], rel=0.1)
    assert found.fixed_cores == pytest.approx([0.1, 0.0], abs=0.03)


def test_at_steady_rates_a_site_tells_its_load_and_not_how_it_divides() -> None:
    found = calibrated(
        lambda rate: looked(rate, 0.1 + rate * 3e-3, rate * 2e-3, cores_estimated=True), [100.0] * 30
    )
    load = found.model.fixed_cores + found.model.coefficients @ np.array([100.0])
    assert load == pytest.approx([0.4, 0.2], rel=0.05)
    room = found.room("a", np.array([100.0]), 1.0)
    assert room is not None
    assert room[0] < 1.0 / 0.4 < (1.0 - 0.1) / 0.3 < room[1]


JOINED = Problem.from_dict(
    {
        "sites": {"a": {"capacity": 2}, "b": {"capacity": 1}},
        "streams": {"x": {"rate": 100}, "y": {"rate": 100}},
        "operators": {
            "j": {"inputs": ["x", "y"], "cost_us": 1000, "moves_as": "join", "fixed_cores": 0.05},
            "after": {"inputs": ["j"], "cost_us": 100},
        },
    }
)


def test_pairs_of_a_join_grow_with_the_product_of_its_inputs() -> None:
    """A fifth of a pair per product of the rates, each 50 us: 0.05 + 0.2 k + 0.1 k^2 fills 2 at k = 3.5."""
    homes, found = FragmentSites({"j": "a", "after": "b"}), Calibration(JOINED)
    for k in range(60):
        rate = 60.0 + 30.0 * (k // 3 % 5)
        pairs = 0.2 * rate * rate
        used = 0.05 + 2e-3 * rate + 50e-6 * pairs
        fragments = {
            "j": FragmentReport("a", True, 2.0 * rate, pairs, used, cores_estimated=True),
            "after": FragmentReport("b", True, pairs, pairs, 0.01, cores_estimated=True),
        }
        sites = {"a": SiteReport(used / 2.0, None, 2.0), "b": SiteReport(pairs * 1e-4, None, 1.0)}
        measured = Measurement(0.0, 5.0, {"x": rate, "y": rate}, sites, fragments)
        found.take(Observation(0.0, homes, measured, placement=homes))

    assert found.pairs["j"].per_product_s == pytest.approx(0.2, rel=0.01)
    rates, at = np.array([100.0, 100.0]), np.array([0, 1])
    (factor, further) = growth_by_site(found.model, at, rates)
    assert factor == pytest.approx(3.53, rel=0.2)  # a line alone says 5.0
    assert further == pytest.approx((1.0 / 0.2) ** 0.5, rel=0.1)  # its reader gets the pairs
    room = found.room("a", rates, 2.0)
    assert room is not None
    assert room[0] < 3.53 < room[1] < 6.0
    # What is kept in a status makes the same model, wherever it is read.
    known = KnownModel({"x": 100.0, "y": 100.0}, {}, **json.loads(json.dumps(found.as_json())))
    assert growth_by_site(build_load_model(known.problem(JOINED)), at, rates) == pytest.approx(
        [factor, further]
    )


def test_a_stream_that_was_not_measured_teaches_nothing() -> None:
    found = Calibration(PROBLEM)
    seen = looked(100.0, 5.0, 5.0)
    blind = Measurement(0.0, 5.0, {}, seen.measured.sites, seen.measured.fragments)
    for _ in range(20):
        found.take(Observation(0.0, HOMES, blind, placement=HOMES))
    assert found.factors.tolist() == [1.0, 1.0]
