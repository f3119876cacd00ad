"""The metric `feasible_ratio_below_max`: what a placement carries of the rates that may come."""

from __future__ import annotations

import numpy as np
import pytest

import mooring
from mooring.model.evaluation.bounded_rates import ratio_below, upper_bounds
from mooring.model.load.build import build_load_model

SITES = np.array([0, 1, 0, 1])


def problem_below(x: float | None, y: float | None, min_rate: float = 0.0) -> mooring.Problem:
    def stream(limit: float | None) -> dict[str, float]:
        return {"rate": min_rate, "min_rate": min_rate} | ({} if limit is None else {"max_rate": limit})

    return mooring.Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
            "streams": {"x": stream(x), "y": stream(y)},
            "operators": {
                "x1": {"inputs": ["x"], "cost_us": 140},
                "x2": {"inputs": ["x"], "cost_us": 60},
                "y1": {"inputs": ["y"], "cost_us": 90},
                "y2": {"inputs": ["y"], "cost_us": 70},
            },
        }
    )


def metrics(problem: mooring.Problem) -> dict[str, object]:
    return mooring.evaluate(problem, mooring.Placement(problem, SITES)).as_json()


@pytest.mark.parametrize(
    ("x", "y", "min_rate"), [(6000, 9000, 0), (9500, None, 0), (4000, 14000, 0), (7000, 9000, 1500)]
)
def test_it_is_the_share_of_a_grid_of_rates_that_survives(x: float, y: float | None, min_rate: float) -> None:
    problem = problem_below(x, y, min_rate)
    model = build_load_model(problem)
    top = 2.0e6 / 160 if y is None else y  # without a maximum, as far as the ideal set reaches
    grid = np.stack(
        np.meshgrid(np.linspace(min_rate, x, 801), np.linspace(min_rate, top, 801)), axis=-1
    ).reshape(-1, 2)
    loads = grid @ (np.array([[140, 60], [90, 70]]) / 1e6)
    carried_by_some = loads.sum(axis=1) <= 2.0
    share = (loads[carried_by_some] <= 1.0).all(axis=1).mean()
    assert ratio_below(model, SITES, upper_bounds(problem, model)) == pytest.approx(share, abs=0.004)
    assert metrics(problem)["feasible_ratio_below_max"] == pytest.approx(share, abs=0.004)


def test_it_is_one_where_whatever_may_come_is_carried_and_the_ratio_to_the_ideal_set_is_not() -> None:
    found = metrics(problem_below(2000, 2000))
    assert found["feasible_ratio_below_max"] == pytest.approx(1.0)
    assert found["feasible_ratio"] < 0.95  # type: ignore[operator]


def test_maxima_beyond_the_ideal_set_leave_the_feasible_ratio() -> None:
    found = metrics(problem_below(1e9, 1e9))
    assert found["feasible_ratio_below_max"] == pytest.approx(found["feasible_ratio"], rel=0.002)


def test_without_a_maximum_rate_it_is_left_out() -> None:
    assert "feasible_ratio_below_max" not in metrics(problem_below(None, None))


def test_it_grows_as_the_maximum_falls_below_what_overloads_a_site() -> None:
    values = [metrics(problem_below(limit, limit))["feasible_ratio_below_max"] for limit in (9e3, 7e3, 5e3)]
    assert values == sorted(values)  # type: ignore[type-var]
    assert values[0] < values[-1]  # type: ignore[operator]
