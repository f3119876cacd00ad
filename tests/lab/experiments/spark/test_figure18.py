"""Figure 18 on Spark: what is asked of the sites, what is predicted, and whether the ranking agrees."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lab.experiments.spark.figure18 import (
    SPARK_FIGURE_18,
    Trace,
    asked_problem,
    bracket,
    climb_steps,
    compare_ranks,
    conclude,
    draw,
    is_over,
    refinement,
    simulated,
    spread,
    stage,
    trace_rates,
)
from lab.experiments.spark.quota_trials import (
    POLICIES,
    MeasuredBench,
    spread_placement,
    statistics_rates,
    utilisations,
)
from lab.experiments.summary import summarise
from lab.experiments.trials import Row
from lab.quota_bench.operator_costs import MeasuredCosts
from lab.quota_bench.workload import draw_workload
from mooring.model.load.build import build_load_model
from mooring.model.problem.problem import Problem

QUOTAS = {"ada": 0.5, "bea": 0.5, "cleo": 0.5}


def test_close_predictions_are_not_ranked_and_clear_ones_can_be_wrong() -> None:
    predicted = {"rod": 3.0, "llf": 2.9, "connected": 2.0}
    assert compare_ranks(predicted, {"rod": 2.7, "llf": 2.8, "connected": 2.1}) == (2, [], [])
    assert compare_ranks(predicted, {"rod": 2.1, "llf": 2.0, "connected": 2.1}) == (
        2,
        ["rod with connected"],
        ["llf before connected"],
    )
    assert compare_ranks(predicted, {"rod": math.nan, "llf": 2.0, "connected": 1.0}) == (1, [], [])


def test_the_stretch_is_the_one_that_tells_placements_apart() -> None:
    problem = asked_problem(draw_workload(np.random.default_rng(5)), QUOTAS)
    even = np.array([10.0, 10.0, 10.0])
    bursts = np.array([[10.0, 10.0, 10.0], [40.0, 2.0, 2.0], [2.0, 40.0, 2.0]])
    scene = stage(problem, Trace(even, bursts), POLICIES, 0)
    others = [stage(problem, Trace(even, burst[None]), POLICIES, 0) for burst in bursts]
    assert spread(scene.first_overloads) == max(spread(other.first_overloads) for other in others)
    assert set(scene.placements) == set(POLICIES)


def test_the_simulator_breaks_where_the_planner_says_a_site_is_full() -> None:
    problem = asked_problem(draw_workload(np.random.default_rng(5)), QUOTAS)
    scene = stage(problem, trace_rates(0, 3), POLICIES, 0)
    measured = MeasuredBench(problem, MeasuredCosts(0.0, 0.0, {}, 0.0), trigger_s=4.0)
    for policy in POLICIES:
        placement, edge = scene.placements[policy], scene.first_overloads[policy]
        assert utilisations(measured.model, placement, edge * scene.rates).max() == pytest.approx(1.0)
        below, above = (simulated(measured, placement, share * edge * scene.rates) for share in (0.85, 1.15))
        assert not below.overloaded
        assert above.overloaded
        assert below.latency.mean_ms > 4000.0, "one channel at least, and each adds a trigger"


def test_sub_streams_of_the_trace_have_a_mean_and_stretches() -> None:
    trace = trace_rates(0, 3)
    assert trace.mean.shape == (3,)
    assert trace.stretches.shape[1] == 3
    assert len(trace.stretches) >= 10


def test_statistics_are_gathered_at_rates_that_fit_and_tell_streams_apart() -> None:
    operators = draw_workload(np.random.default_rng(0))
    problem = asked_problem(operators, QUOTAS)
    model = build_load_model(problem)
    rates = np.array(statistics_rates(model.totals, model.capacity_left_cores, 7))
    assert np.linalg.matrix_rank(rates) == 3
    assert ((rates @ model.totals) < 0.7 * model.capacity_left_cores).all()
    named = Problem.from_dict(
        {
            "sites": {name: {"capacity": cores} for name, cores in QUOTAS.items()},
            "streams": {f"{o.name} rows": {"rate": 1.0} for o in operators if o.reads is None},
            "operators": {
                o.name: {"inputs": [o.reads or f"{o.name} rows"], "cost_us": 1.0, "fragment": o.name}
                for o in operators
            },
        }
    )
    sites = spread_placement(operators, named)
    for tree in "abc":
        own = [site for name, site in sites.items() if name.startswith(tree)]
        assert len(set(own)) == 3, "rows of one site's fragments come from different streams"


def row(policy: str, multiplier: float, kept_up: int, first: float, predicted: float) -> Row:
    return {
        "policy": policy,
        "multiplier": multiplier,
        "kept_up": kept_up,
        "mean_ms": 5000.0,
        "max_ms": 9000.0,
        "utilisation": 0.7,
        "overloaded_site": "",
        "first_overload": first,
        "predicted_overload": predicted,
        "predicted_utilisation": 0.8,
        "predicted_site": "ada",
        "load_error": 0.12,
        "simulated_kept_up": 1,
        "simulated_mean_ms": 6000.0,
        "load_average": 0.5,
    }


def test_the_conclusion_says_whether_the_ranking_agrees() -> None:
    agreeing = [row("rod", 3.0, 0, 2.75, 3.1), row("connected", 2.0, 0, 1.75, 2.0)]
    assert "the ranking agrees" in conclude(agreeing)[0]
    assert "1 of 2 looks" not in " ".join(conclude(agreeing))
    otherwise = [row("rod", 3.0, 0, 1.25, 3.1), row("connected", 2.0, 0, 1.75, 2.0)]
    assert "1 came out otherwise (rod before connected)" in conclude(otherwise)[0]
    unknown = [row("rod", 3.0, 1, math.nan, 3.1)]
    assert "Undecided" in conclude(unknown)[1]
    assert len(draw(agreeing).axes) == 2


def test_the_summary_has_the_first_overload_beside_the_predicted_one_and_every_look() -> None:
    rows = [row("rod", 2.0, 1, 2.75, 3.1), row("rod", 3.0, 0, 2.75, 3.1), row("llf", 2.0, -1, math.nan, 2.0)]
    first, looks = (summarise(summary, rows) for summary in SPARK_FIGURE_18.summaries)
    assert first.rows == (
        ("rod", "2.750", "3.100", "0.120", "0.120", "2"),
        ("llf", "", "2.000", "0.120", "0.120", "1"),
    )
    assert [line[:3] for line in looks.rows] == [("rod", "2", "1"), ("rod", "3", "0"), ("llf", "2", "-1")]


def test_a_full_climb_starts_at_one_and_a_quick_one_below_the_predicted_edge() -> None:
    assert climb_steps(3.2, quick=False)[:3] == [1.0, 1.5, 2.0]
    assert climb_steps(3.2, quick=True)[0] == 2.5


@pytest.mark.parametrize(
    ("feasible", "expected"),
    [
        ({1.0: True, 1.5: True, 2.0: False}, (1.5, 2.0)),
        ({1.0: True, 1.5: None, 2.0: False}, (1.0, 2.0)),
        ({1.0: False, 1.5: True}, (0.0, 1.0)),
        ({1.0: True}, (1.0, math.inf)),
        ({1.0: None}, (0.0, math.inf)),
    ],
)
def test_the_bracket_lies_below_every_overload(
    feasible: dict[float, bool | None], expected: tuple[float, float]
) -> None:
    assert bracket(feasible) == expected


@pytest.mark.parametrize(
    ("feasible", "quick", "expected"),
    [
        ({1.0: True, 1.5: False}, False, 1.25),
        ({1.0: True, 1.25: True, 1.5: False}, False, None),
        ({1.0: True, 1.5: False}, True, None),
        ({2.5: False}, True, 2.0),
        ({0.5: False}, False, None),
        ({1.0: True, 1.5: None}, False, None),
    ],
)
def test_a_broken_step_is_looked_at_more_closely_until_both_sides_are_known(
    feasible: dict[float, bool | None], quick: bool, expected: float | None
) -> None:
    assert refinement(feasible, quick) == expected


def test_a_climb_ends_with_an_overload_or_on_a_machine_that_spoils_it() -> None:
    assert is_over([True, False])
    assert is_over([True, None, None])
    assert not is_over([True, None])
    assert not is_over([None, True])
