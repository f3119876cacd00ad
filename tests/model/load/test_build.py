"""The load model agrees with the paper's examples and with rates followed through the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.model.load.build import build_load_model
from mooring.model.load.rates import output_rates
from mooring.model.problem.problem import Problem

SITES = {"a": {"capacity": 2}, "b": {"capacity": 1}}


def problem_of(operators: dict[str, Any], streams: tuple[str, ...] = ("x", "y"), **sections: Any) -> Problem:
    return Problem.from_dict(
        {
            "sites": SITES,
            "streams": {s: {"rate": 10.0 * (k + 1)} for k, s in enumerate(streams)},
            "operators": operators,
            **sections,
        }
    )


def test_example_2_gives_the_coefficients_of_table_2() -> None:
    model = build_load_model(
        problem_of(
            {
                "o1": {"inputs": ["x"], "cost_us": 14e6, "selectivity": 1},
                "o2": {"inputs": ["o1"], "cost_us": 6e6},
                "o3": {"inputs": ["y"], "cost_us": 9e6, "selectivity": 0.5},
                "o4": {"inputs": ["o3"], "cost_us": 14e6},
            }
        )
    )
    assert model.coefficients.toarray().tolist() == [[14, 0], [6, 0], [0, 9], [0, 7]]
    plans = {"a": [0, 0, 1, 1], "b": [0, 1, 0, 1], "c": [0, 1, 1, 0]}
    expected = {"a": [[20, 0], [0, 16]], "b": [[14, 9], [6, 7]], "c": [[14, 7], [6, 9]]}
    for plan, sites in plans.items():
        assert model.site_coefficients(np.array(sites)).tolist() == expected[plan]


def example_3(**changes: Any) -> Problem:
    """Figure 13: o1's selectivity varies, o5 joins both branches, o6 follows it."""
    operators: dict[str, Any] = {
        "o1": {"inputs": ["x"], "cost_us": 1e6, "selectivity": 0.5, "variable": True},
        "o2": {"inputs": ["o1"], "cost_us": 2e6, "selectivity": 0.5},
        "o3": {"inputs": ["y"], "cost_us": 3e6, "selectivity": 0.5},
        "o4": {"inputs": ["o3"], "cost_us": 4e6, "selectivity": 0.5},
        "o5": {"inputs": ["o2", "o4"], "kind": "join", "window_s": 2, "cost_us": 5e6, "selectivity": 0.1},
        "o6": {"inputs": ["o5"], "cost_us": 6e6},
    }
    return problem_of(operators | changes)


def test_example_3_needs_two_introduced_variables() -> None:
    model = build_load_model(example_3())
    assert [v.name for v in model.variables] == ["x", "y", "output of o1", "pairs of o5"]
    assert model.coefficients.toarray().tolist() == [
        [1, 0, 0, 0],
        [0, 0, 2, 0],
        [0, 3, 0, 0],
        [0, 2, 0, 0],
        [0, 0, 0, 5],
        [0, 0, 0, pytest.approx(0.6)],
    ]
    # x = 10, y = 20: o1 puts out 5, o2 2.5; o4 5; pairs = 2 x 2.5 x 5.
    assert model.present.tolist() == [10, 20, 5, 25]


def test_a_variable_is_introduced_only_where_some_load_depends_on_it() -> None:
    nobody_reads = {"o": {"inputs": ["x"], "cost_us": 1, "variable": True}}
    assert len(build_load_model(problem_of(nobody_reads)).variables) == 2
    free_reader = nobody_reads | {"r": {"inputs": ["o"], "cost_us": 0}}
    assert len(build_load_model(problem_of(free_reader)).variables) == 2
    # With communication, what it puts out does load something.
    communicating = problem_of(free_reader, network={"comm_us": 5})
    assert len(build_load_model(communicating).variables) == 3


def test_joins_whose_pairs_are_proportional_share_one_variable() -> None:
    join = {"kind": "join", "window_s": 1, "cost_us": 1e6, "selectivity": 1}
    operators = {
        "half": {"inputs": ["x"], "cost_us": 1, "selectivity": 0.5},
        "j1": {"inputs": ["x", "y"], **join},
        "j2": {"inputs": ["y", "half"], **join, "window_s": 3},
    }
    model = build_load_model(problem_of(operators))
    assert len(model.variables) == 3
    assert model.coefficients.toarray()[:, 2].tolist() == [0, 1, 1.5]


def test_minimum_rates_carry_through_joins_but_not_through_varying_outputs() -> None:
    low = example_3().with_min_rates([4, 8])
    assert build_load_model(low).lower.tolist() == [4, 8, 0, 0]
    constant = example_3(o1={"inputs": ["x"], "cost_us": 1e6, "selectivity": 0.5}).with_min_rates([4, 8])
    assert build_load_model(constant).lower.tolist() == [4, 8, 2 * 1 * 2]


def test_communication_is_charged_to_both_ends_of_a_crossing_arc_only() -> None:
    problem = problem_of(
        {
            "f": {"inputs": ["x"], "cost_us": 10, "selectivity": 0.5},
            "g": {"inputs": ["f"], "cost_us": 10},
        },
        network={"comm_us": 4},
        queries={"q": {"reads": "g", "site": "a"}},
    )
    model = build_load_model(problem)
    together, apart = np.array([0, 0]), np.array([0, 1])
    assert model.site_coefficients(together)[:, 0] * 1e6 == pytest.approx([15, 0])
    # f -> g crosses with half a tuple per tuple of x, and g -> q crosses back.
    assert model.site_coefficients(apart)[:, 0] * 1e6 == pytest.approx([10 + 2 + 2, 5 + 2 + 2])


def test_a_stream_that_enters_elsewhere_crosses_too() -> None:
    problem = Problem.from_dict(
        {
            "sites": SITES,
            "streams": {"x": {"rate": 1, "site": "b"}},
            "network": {"comm_us": 3},
            "operators": {"f": {"inputs": ["x"], "cost_us": 10}},
        }
    )
    model = build_load_model(problem)
    assert model.site_coefficients(np.array([0]))[:, 0] * 1e6 == pytest.approx([13, 3])
    assert model.site_coefficients(np.array([1]))[:, 0] * 1e6 == pytest.approx([0, 10])


def test_fixed_load_counts_once_per_fragment_and_shrinks_its_site() -> None:
    problem = problem_of(
        {
            "f": {"inputs": ["x"], "cost_us": 1, "fragment": "one", "fixed_cores": 0.25},
            "g": {"inputs": ["f"], "cost_us": 1, "fragment": "one", "fixed_cores": 0.125},
            "h": {"inputs": ["g"], "cost_us": 1, "fixed_cores": 0.5},
        }
    )
    model = build_load_model(problem)
    assert model.fixed_cores.tolist() == [0.25, 0.5]
    assert model.capacity_left_cores == 2.25
    assert model.site_capacity_left(np.array([0, 0])).tolist() == [1.25, 1]


def test_instances_divide_the_load_by_their_shares() -> None:
    problem = problem_of(
        {
            "s": {
                "inputs": ["x"],
                "cost_us": 100,
                "selectivity": 0.5,
                "instances": 2,
                "shares": [0.75, 0.25],
            },
            "t": {"inputs": ["s"], "cost_us": 10},
        }
    )
    coefficients = build_load_model(problem).coefficients.toarray()[:, 0] * 1e6
    assert coefficients == pytest.approx([75, 25, 5])


@st.composite
def graphs(draw: st.DrawFn) -> Problem:
    """Acyclic graphs with unions, fan-out, per-input figures, joins, varying outputs and split operators."""
    operators: dict[str, Any] = {}
    readable = ["x", "y"]
    figure = st.floats(0.01, 2.0)
    for j in range(draw(st.integers(1, 7))):
        kind = draw(st.sampled_from(["map", "union", "join"]))
        count = 2 if kind == "join" else draw(st.integers(1, min(3, len(readable)))) if kind == "union" else 1
        inputs = draw(st.lists(st.sampled_from(readable), min_size=count, max_size=count, unique=True))
        fields: dict[str, Any] = {
            "inputs": inputs,
            "kind": kind,
            "cost_us": draw(figure),
            "selectivity": draw(figure),
        }
        if kind == "join":
            fields |= {"window_s": draw(figure)}
        elif draw(st.booleans()):
            fields |= {"per_input": {inputs[0]: {"cost_us": draw(figure), "selectivity": draw(figure)}}}
        fields |= {"variable": draw(st.booleans()), "instances": draw(st.sampled_from([1, 1, 3]))}
        operators[f"o{j}"] = fields
        readable.append(f"o{j}")
    return problem_of(operators)


@given(graphs(), st.tuples(st.floats(0, 50), st.floats(0, 50)))
def test_site_loads_agree_with_rates_followed_through_the_graph(
    problem: Problem, rates: tuple[float, float]
) -> None:
    model = build_load_model(problem)
    out = output_rates(problem, rates)
    expected = 0.0
    for j, operator in enumerate(problem.operators):
        inputs = [sum(out[node] for node in port) for port in problem.graph.ports[j]]
        if operator.kind == "join":
            assert operator.window_s is not None
            work = operator.cost_us * operator.window_s * inputs[0] * inputs[1]
        else:
            work = sum(operator.cost_us_of(n) * r for n, r in zip(operator.inputs, inputs, strict=True))
        expected += operator.share * work / 1e6
    everything_at_a = np.zeros(len(problem.fragments), dtype=np.int64)
    assert model.site_loads(everything_at_a, rates) == pytest.approx([expected, 0.0], rel=1e-9, abs=1e-12)


@given(graphs(), st.randoms(use_true_random=False))
def test_the_sites_together_carry_exactly_all_load_however_it_is_placed(
    problem: Problem, random: Any
) -> None:
    model = build_load_model(problem)
    sites = np.array([random.randrange(2) for _ in problem.fragments])
    assert model.site_coefficients(sites).sum(axis=0) == pytest.approx(model.totals)
