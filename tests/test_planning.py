"""The story as a whole: plan, evaluate and compare through the public names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mooring
from mooring.algorithms.catalogue import POLICIES
from mooring.model.problem.generate import GraphParameters, generate_problem

SMALL: dict[str, Any] = {
    "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
    "streams": {"x": {"rate": 100}, "y": {"rate": 50}},
    "operators": {f"{s}{i}": {"inputs": [s], "cost_us": 50 * i} for s in "xy" for i in (1, 2, 3)},
}


def small(**changes: Any) -> mooring.Problem:
    return mooring.Problem.from_dict(SMALL | changes)


def test_the_same_seed_gives_the_same_plan() -> None:
    problem = generate_problem(GraphParameters(operators=50), np.random.default_rng(3))
    for policy in ("rod", "random", "correlation"):
        first, second = (mooring.plan(problem, policy, seed=5) for _ in range(2))
        assert first.placement == second.placement
        assert first.metrics == second.metrics
        assert first.explanation == second.explanation


def test_no_plan_beats_the_optimal_one() -> None:
    results = mooring.compare(small(), ["optimal", "rod", "llf", "random", "connected", "max_rate"])
    ratios = {n: r.metrics.feasible_ratio for n, r in results.items() if isinstance(r, mooring.Plan)}
    assert len(ratios) == 6
    assert max(ratios.values()) <= ratios["optimal"] + 1e-9  # type: ignore[type-var, operator]


def test_fixed_load_beyond_all_capacity_is_infeasible() -> None:
    operators = {name: fields | {"fixed_cores": 0.5} for name, fields in SMALL["operators"].items()}
    with pytest.raises(mooring.InfeasibleError, match="fixed load of all fragments is 3 cores"):
        mooring.plan(small(operators=operators))


def test_minimum_rates_beyond_all_capacity_are_infeasible_to_plan_and_reported_by_evaluate() -> None:
    problem = small(streams={"x": {"rate": 1e9, "min_rate": 1e6}, "y": {"rate": 50}})
    with pytest.raises(mooring.InfeasibleError, match="minimum rates need"):
        mooring.plan(problem)
    placement = mooring.Placement(problem, np.zeros(6, dtype=np.int64))
    assert mooring.evaluate(problem, placement).feasible_ratio == 0.0


def test_a_rate_history_gives_the_share_of_samples_survived() -> None:
    from dataclasses import replace

    from mooring.model.problem.history import RateHistory

    # All of x's operators at a: x costs it 300 us a tuple, so a holds up to 3333 tuples/s.
    problem = replace(
        small(), history=RateHistory(np.array([[3000.0, 0.0], [3300.0, 0.0], [3400.0, 0.0], [9e9, 0.0]]))
    )
    placement = mooring.Placement(problem, np.array([0, 0, 0, 1, 1, 1]))
    assert mooring.evaluate(problem, placement).survived_share == 0.5


def test_headroom_is_the_factor_to_the_first_full_site() -> None:
    problem = small()
    placement = mooring.Placement(problem, np.array([0, 0, 0, 1, 1, 1]))
    room = mooring.headroom(problem, placement)
    assert room.factor == pytest.approx(1 / (100 * 300e-6))
    assert room.site == "a"


def test_every_function_takes_objects_plain_data_and_file_names(tmp_path: Path) -> None:
    problem_file, plan_file = tmp_path / "problem.json", tmp_path / "plan.json"
    problem_file.write_text(json.dumps(SMALL))
    made = mooring.plan(small(), seed=1)
    plan_file.write_text(json.dumps(made.document(0.0)))
    sites = dict(made.placement.as_dict())
    for problem in (small(), SMALL, problem_file, str(problem_file)):
        assert mooring.plan(problem, seed=1).placement == made.placement
        assert mooring.compare(problem, ["rod"], seed=1).keys() == {"rod"}
        for placement in (made, made.placement, sites, plan_file, str(plan_file)):
            assert mooring.evaluate(problem, placement) == mooring.evaluate(small(), made.placement)
            assert mooring.headroom(problem, placement) == mooring.headroom(small(), made.placement)
            assert mooring.plan(problem, current=placement, max_moves=0).placement == made.placement
            report = mooring.simulate(problem, placement, seconds=0.2)
            assert report.as_json() == mooring.simulate(small(), made.placement, seconds=0.2).as_json()


def test_what_is_neither_problem_nor_placement_is_refused_with_what_would_be() -> None:
    made = mooring.plan(small())
    with pytest.raises(mooring.InputError, match="problem: found Plan, expected a Problem"):
        mooring.evaluate(made, small())  # type: ignore[arg-type]
    with pytest.raises(mooring.InputError, match="placement: found Problem, expected a Placement"):
        mooring.evaluate(small(), small())  # type: ignore[arg-type]


def test_all_policies_are_compared_if_none_are_named() -> None:
    assert tuple(mooring.compare(small())) == POLICIES


def test_settings_are_python_values_or_words() -> None:
    for settings in ({"balanced": False}, {"balanced": "false"}):
        assert mooring.plan(small(), "random", settings=settings) is not None
    with pytest.raises(mooring.InputError, match="expected true or false"):
        mooring.plan(small(), "random", settings={"balanced": 3})
    with pytest.raises(mooring.InputError, match="balanced"):
        mooring.plan(small(), "random", settings={"balanecd": True})


def test_what_is_shown_of_a_plan_fits_on_a_line() -> None:
    problem = generate_problem(GraphParameters(operators=50), np.random.default_rng(3))
    made = mooring.plan(problem)
    assert repr(made) == "Plan(rod: 50 operators on 10 sites)"
    assert repr(problem).startswith("Problem(50 operators, ")
    assert repr(made.placement).endswith(", and 42 more)")


def test_a_plan_that_leaves_out_queries_is_a_start_only_for_a_policy_that_may() -> None:
    queries = {
        "near": {"reads": "x1", "site": "a"},
        "fast": {"reads": "y1", "site": "b", "max_latency_ms": 1},
    }
    streams = {"x": {"rate": 100, "site": "a"}, "y": {"rate": 50, "site": "a"}}
    problem = small(queries=queries, streams=streams, latency_ms={"a": {"b": 90}})
    running = mooring.plan(problem, "overlay")
    assert set(running.rejected) == {"fast"}
    assert set(mooring.plan(problem, "overlay", current=running).rejected) == {"fast"}
    with pytest.raises(mooring.InputError, match="leaves out fast, expected all queries"):
        mooring.plan(problem, "rod", current=running)
