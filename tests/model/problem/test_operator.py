"""Operators split by key (sections 7.3.1 and 7.3.5 of the ROD paper)."""

from __future__ import annotations

import pytest

from mooring.model.problem.operator import InputStatistics, Operator, split_by_key
from mooring.model.problem.problem import Problem

COUNT = Operator(name="count", inputs=("s",), cost_us=5.0, memory_mb=80.0, state_bytes=400.0, fixed_cores=0.1)


def test_memory_and_state_divide_with_the_input_and_the_fixed_cost_does_not() -> None:
    light, heavy = split_by_key(COUNT, (0.25, 0.75))
    assert (light.name, heavy.name) == ("count#1", "count#2")
    assert (light.share, heavy.share) == (0.25, 0.75)
    assert (light.memory_mb, heavy.memory_mb) == (20.0, 60.0)
    assert (light.state_bytes, heavy.state_bytes) == (100.0, 300.0)
    assert light.fixed_cores == heavy.fixed_cores == 0.1
    assert light.cost_us == 5.0
    assert light.logical_name == heavy.logical_name == "count"


def test_the_instances_of_a_fragment_run_together_number_by_number() -> None:
    problem = Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1}},
            "streams": {"s": {"rate": 1}},
            "operators": {
                "o": {"inputs": ["s"], "cost_us": 1, "instances": 2, "fragment": "f"},
                "p": {"inputs": ["o"], "cost_us": 1, "instances": 2, "fragment": "f"},
            },
        }
    )
    assert problem.fragments == ((0, 2), (1, 3))
    assert problem.fragment_names == ("f#1", "f#2")


def test_shares_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(ValueError, match="add up to"):
        split_by_key(COUNT, (0.5, 0.6))


def test_figures_per_input_override_the_operators_own() -> None:
    operator = Operator(
        name="u",
        inputs=("a", "b"),
        cost_us=3.0,
        selectivity=0.5,
        per_input={"a": InputStatistics(cost_us=7.0)},
    )
    assert (operator.cost_us_of("a"), operator.cost_us_of("b")) == (7.0, 3.0)
    assert (operator.selectivity_of("a"), operator.selectivity_of("b")) == (0.5, 0.5)
