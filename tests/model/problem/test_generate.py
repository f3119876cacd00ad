"""The random graphs are those of section 7.1 of the ROD paper."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from mooring.errors import InputError
from mooring.model.problem.generate import GraphParameters, generate_problem
from mooring.model.problem.latencies import as_matrix
from mooring.model.problem.problem import Problem


def generated(seed: int = 0, **parameters: object) -> Problem:
    return generate_problem(GraphParameters(**parameters), np.random.default_rng(seed))  # type: ignore[arg-type]


def total_cores(problem: Problem) -> float:
    """The true load at the present rates, by walking the graph."""
    graph = problem.graph
    output = [*problem.rates, *[0.0] * len(problem.operators)]
    total = 0.0
    for j in graph.order:
        operator = problem.operators[j]
        inflows = [output[port[0]] for port in graph.ports[j]]
        inflow = (operator.window_s or 0) * np.prod(inflows) if operator.kind == "join" else sum(inflows)
        total += inflow * operator.cost_us / 1e6
        output[graph.stream_count + j] = inflow * operator.selectivity
    return total


def test_every_tree_has_equally_many_operators_and_one_root() -> None:
    problem = generated(operators=100)
    trees = Counter(operator.name.split("_")[0] for operator in problem.operators)
    assert trees == {f"o{k}": 20 for k in range(1, 6)}
    roots = [operator for operator in problem.operators if operator.inputs[0].startswith("s")]
    assert [(root.name, root.inputs) for root in roots] == [(f"o{k}_1", (f"s{k}",)) for k in range(1, 6)]


def test_numbers_of_children_are_one_to_three_and_equally_likely() -> None:
    problem = generated(streams=1, operators=9000)
    children = Counter(operator.inputs[0] for operator in problem.operators[1:])
    # Breadth first: whoever stands before the last parent has all its children.
    complete = [children[f"o1_{at}"] for at in range(1, 4000)]
    shares = Counter(complete)
    assert set(shares) == {1, 2, 3}
    assert all(abs(count / len(complete) - 1 / 3) < 0.03 for count in shares.values())


def test_trees_grow_breadth_first() -> None:
    problem = generated(operators=200)
    for first, second in zip(problem.operators, problem.operators[1:], strict=False):
        if second.inputs[0].startswith("o"):
            parents = [0 if "_" not in (p := o.inputs[0]) else int(p.split("_")[1]) for o in (first, second)]
            assert parents[0] <= parents[1]


def test_exactly_half_of_the_operators_have_selectivity_one() -> None:
    selectivities = np.array([operator.selectivity for operator in generated(operators=200).operators])
    assert (selectivities == 1.0).sum() == 100
    assert 30 < (selectivities[:100] == 1.0).sum() < 70, "chosen at random, not the first ones"
    others = selectivities[selectivities != 1.0]
    assert 0.5 <= others.min() < 0.55
    assert 0.95 < others.max() < 1.0


def test_costs_are_uniform_between_a_tenth_and_one_millisecond() -> None:
    costs_us = np.array([operator.cost_us for operator in generated(operators=2000).operators])
    assert costs_us.min() >= 100
    assert costs_us.max() <= 1000
    assert abs(costs_us.mean() - 550) < 20


def test_equal_ends_give_equal_costs() -> None:
    assert {operator.cost_us for operator in generated(cost_us=(300.0, 300.0)).operators} == {300.0}


def test_the_same_seed_gives_the_same_problem_and_another_seed_another() -> None:
    assert generated(3).operators == generated(3).operators
    assert generated(3).operators != generated(4).operators


def test_options_leave_the_trees_and_their_statistics_as_they_were() -> None:
    plain = generated(1)
    rich = generated(1, comm_us=5.0, plane_ms=80.0, queries=4, rates="random", capacity=(1.0, 4.0))
    assert rich.operators == plain.operators


@pytest.mark.parametrize("joins", [0, 6])
def test_equal_rates_load_the_sites_to_the_given_utilisation(joins: int) -> None:
    problem = generated(utilisation=0.4, joins=joins)
    assert len(set(problem.rates)) == 1
    assert total_cores(problem) == pytest.approx(0.4 * problem.capacity_cores.sum())


@pytest.mark.parametrize("joins", [0, 6])
def test_random_rates_lie_inside_the_ideal_set(joins: int) -> None:
    for seed in range(20):
        problem = generated(seed, rates="random", joins=joins)
        assert 0 < total_cores(problem) <= problem.capacity_cores.sum()


def test_random_rates_are_uniform_in_the_ideal_set() -> None:
    """The total load of a uniform point of a solid simplex of d dimensions has mean d / (d + 1)."""
    loads = [total_cores(generated(seed, streams=2, operators=4, rates="random")) / 10 for seed in range(400)]
    assert np.mean(loads) == pytest.approx(2 / 3, abs=0.04)


def test_joins_read_two_trees_and_the_graph_stays_acyclic() -> None:
    problem = generated(joins=30, variable=10)
    joins = [operator for operator in problem.operators if operator.kind == "join"]
    assert len(joins) == 30
    assert all(
        len({source.split("_")[0] for source in operator.inputs}) == 2 and operator.window_s == 0.5
        for operator in joins
    )
    variable = [operator for operator in problem.operators if operator.variable]
    assert len(variable) == 10
    assert not {operator.name for operator in joins} & {operator.name for operator in variable}
    assert len(problem.graph.order) == 100


def test_latencies_come_from_a_plane_and_streams_then_have_a_site() -> None:
    problem = generated(plane_ms=100.0)
    assert problem.network.latency_ms is not None
    latency_ms = as_matrix(problem.network.latency_ms)
    assert np.array_equal(latency_ms, latency_ms.T)
    assert not latency_ms.diagonal().any()
    assert 0 < latency_ms.max() <= 100 * 2**0.5
    assert all(stream.site in problem.site_index for stream in problem.streams)
    assert all(stream.site is None for stream in generated().streams)


def test_queries_read_operators_that_nobody_else_reads() -> None:
    problem = generated(queries=20, joins=10)
    assert len(problem.queries) == 20
    read = {source for operator in problem.operators for source in operator.inputs}
    assert not {query.reads for query in problem.queries} & read
    assert {query.reads for query in problem.queries} <= set(problem.operator_index)


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"operators": 102}, "operators"),
        ({"streams": 0}, "streams"),
        ({"sites": 1.5}, "sites"),
        ({"operators": 10**9}, "operators"),
        ({"cost_us": (5.0, 1.0)}, "cost_us"),
        ({"cost_us": (1.0, float("inf"))}, "cost_us"),
        ({"capacity": (0.0, 1.0)}, "capacity"),
        ({"children": (0, 3)}, "children"),
        ({"utilisation": 1.5}, "utilisation"),
        ({"comm_us": float("nan")}, "comm_us"),
        ({"rates": "wild"}, "rates"),
        ({"joins": 96}, "joins"),
        ({"streams": 1, "joins": 1}, "joins"),
        ({"joins": 1, "join_window_s": 0.0}, "join_window_s"),
        ({"joins": 20, "variable": 81}, "variable"),
    ],
)
def test_parameters_that_make_no_sense_are_refused_by_name(parameters: dict[str, object], field: str) -> None:
    with pytest.raises(InputError) as caught:
        GraphParameters(**parameters)  # type: ignore[arg-type]
    assert caught.value.field == field


def test_a_number_of_operators_that_does_not_divide_comes_with_one_that_does() -> None:
    with pytest.raises(InputError) as caught:
        replace(GraphParameters(), operators=102)
    assert caught.value.remedy == "try 105"


def test_trees_that_grow_at_random_are_trees_and_deeper_on_average() -> None:
    """Inputs come before their readers, and nobody has more than three."""
    depths: dict[str, list[int]] = {"breadth_first": [], "random": []}
    for order, found in depths.items():
        for seed in range(20):
            parameters = GraphParameters(streams=1, operators=40, order=order)  # type: ignore[arg-type]
            problem = generate_problem(parameters, np.random.default_rng(seed))
            depth = {"s1": 0}
            for operator in problem.operators:
                depth[operator.name] = depth[operator.inputs[0]] + 1
            inputs = [operator.inputs[0] for operator in problem.operators]
            assert max(inputs.count(name) for name in set(inputs)) <= 3
            found.append(max(depth.values()))
    assert np.mean(depths["random"]) > np.mean(depths["breadth_first"])
