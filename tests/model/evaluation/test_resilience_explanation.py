"""An explanation names the true bottleneck, and its suggestion helps when it is followed."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.model.evaluation.metrics import evaluate_placement
from mooring.model.evaluation.resilience_explanation import ResilienceExplanation, explain_resilience
from mooring.model.evaluation.suggestion import MoreCapacity, Relocation, Yardstick
from mooring.model.load.build import build_load_model
from mooring.model.placement.checker import violations
from mooring.model.placement.placement import Placement
from mooring.model.problem.generate import GraphParameters, generate_problem
from mooring.model.problem.problem import Problem


def explained(placement: Placement) -> ResilienceExplanation:
    model = build_load_model(placement.problem)
    return explain_resilience(model, placement, evaluate_placement(model, placement))


def volume(placement: Placement) -> float:
    model = build_load_model(placement.problem)
    return float(np.exp(Yardstick.draw(model, seed=7, finer=8).log_size(model, placement)))


def ratio(placement: Placement) -> float:
    metrics = evaluate_placement(build_load_model(placement.problem), placement)
    return cast("float", metrics.feasible_ratio)


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), sites=st.integers(2, 5), operators=st.sampled_from([6, 12, 30]))
def test_following_the_suggestion_enlarges_the_feasible_set_by_what_it_promised(
    seed: int, sites: int, operators: int
) -> None:
    rng = np.random.default_rng(seed)
    problem = generate_problem(GraphParameters(streams=3, operators=operators, sites=sites), rng)
    placement = Placement(problem, rng.integers(0, sites, len(problem.fragments)))
    suggestion = explained(placement).suggestion
    assert suggestion is not None
    after = suggestion.apply(placement)
    assert not violations(after.problem, build_load_model(after.problem), after)
    assert volume(after) / volume(placement) - 1 == pytest.approx(suggestion.gain, rel=0.05, abs=0.002)
    assert suggestion.gain > 0
    if isinstance(suggestion, Relocation):
        assert ratio(after) > ratio(placement)


def two_sites(operators: dict[str, Any], **sections: Any) -> Problem:
    return Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
            "streams": {"x": {"rate": 100}, "y": {"rate": 100}},
            "operators": operators,
            **sections,
        }
    )


def test_the_bottleneck_and_what_presses_on_it_are_named() -> None:
    problem = two_sites(
        {
            "x1": {"inputs": ["x"], "cost_us": 100},
            "x2": {"inputs": ["x"], "cost_us": 100},
            "y1": {"inputs": ["y"], "cost_us": 10},
            "y2": {"inputs": ["y"], "cost_us": 10},
        }
    )
    found = explained(Placement.from_dict(problem, {"x1": "a", "x2": "a", "y1": "a", "y2": "b"}))
    assert found.bottleneck == 0
    stream, weight = found.pressing[0]
    assert stream == "x"
    assert weight == pytest.approx(2.0)
    assert isinstance(found.suggestion, Relocation)
    assert found.suggestion.sites == ((0, 1),)
    text = " ".join(found.sentences)
    assert "Site a is the bottleneck" in text
    assert "Moving x1 to b" in text


def test_where_no_move_helps_more_capacity_is_suggested_and_helps() -> None:
    problem = two_sites({"x1": {"inputs": ["x"], "cost_us": 100}, "y1": {"inputs": ["y"], "cost_us": 100}})
    placement = Placement.from_dict(problem, {"x1": "a", "y1": "b"})
    suggestion = explained(placement).suggestion
    assert isinstance(suggestion, MoreCapacity)
    assert volume(suggestion.apply(placement)) > volume(placement)
    assert "more cores" in suggestion.sentence(problem)


def test_a_pinned_fragment_is_never_suggested() -> None:
    operators = {f"x{i}": {"inputs": ["x"], "cost_us": 100, "site": "a"} for i in range(3)}
    problem = two_sites(operators | {"y1": {"inputs": ["y"], "cost_us": 1}})
    everything_at_a = Placement(problem, np.zeros(4, dtype=np.int64))
    suggestion = explained(everything_at_a).suggestion
    assert suggestion is not None
    assert not isinstance(suggestion, Relocation) or suggestion.sites == ((3, 1),)


def test_streams_that_load_nothing_are_said_to_be_left_out() -> None:
    problem = two_sites({"x1": {"inputs": ["x"], "cost_us": 100}})
    assert any(
        "left out of the feasible set: y" in s
        for s in explained(Placement.from_dict(problem, {"x1": "a"})).sentences
    )


def many_streams(streams: int, sites: int) -> Problem:
    """An operator per stream and one that reads them all, on equal sites with a thousand cores each."""
    names = [f"x{k}" for k in range(streams)]
    return Problem.from_dict(
        {
            "sites": {f"s{i}": {"capacity": 1000} for i in range(sites)},
            "streams": {name: {"rate": 1e6} for name in names},
            "operators": {
                **{f"o{name}": {"inputs": [name], "cost_us": 100} for name in names},
                "all": {"inputs": names, "kind": "union", "cost_us": 1},
            },
        }
    )


def test_over_hundreds_of_streams_the_suggestion_is_said_in_how_far_rates_can_grow() -> None:
    """The set's size is beyond all numbers: 480 variables of millions each, and a ratio of 10^-400."""
    problem = many_streams(480, 20)
    sites = np.arange(481) % 19  # nothing at the last site
    found = explained(Placement(problem, sites))
    assert isinstance(found.suggestion, Relocation)
    assert found.suggestion.measure == "reach"
    assert 0.0 < found.suggestion.gain < 1.0
    assert found.suggestion.sites[0][1] == 19
    text = " ".join(found.sentences)
    assert "10^-" in text
    assert "Over 480 variables" in text
    assert "let mixed rates grow" in text
    after = found.suggestion.apply(Placement(problem, sites))
    model = build_load_model(problem)
    yardstick = Yardstick.draw(model, seed=7, finer=8)
    grown = yardstick.log_size(model, after) - yardstick.log_size(model, Placement(problem, sites))
    assert np.expm1(grown) == pytest.approx(found.suggestion.gain, rel=0.3)


def test_a_change_that_first_makes_anything_feasible_is_said_so() -> None:
    problem = two_sites(
        {f"x{i}": {"inputs": ["x"], "cost_us": 100} for i in range(2)},
        streams={"x": {"rate": 9000, "min_rate": 9000}, "y": {"rate": 1}},
    )
    found = explained(Placement.from_dict(problem, {"x0": "a", "x1": "a"}))
    assert "Moving x0 to b would make some rates feasible (now none are)." in found.sentences
