"""Queries come and go, share what is equal, and leave nothing behind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lab.experiments.sbon.running_queries import RunningQueries
from mooring.errors import InputError
from mooring.model.network.cost_space import CostSpace
from mooring.model.network.embedding import Embedding
from mooring.model.placement.signatures import signatures
from mooring.model.problem.latencies import as_matrix
from mooring.model.problem.problem import Problem

LINE = 12


def problem(**changes: dict[str, Any]) -> Problem:
    """Three queries on a line of sites; two of them want the same, one more than that."""
    names = [f"n{i}" for i in range(LINE)]
    same: dict[str, Any] = {"inputs": ["x", "y"], "cost_us": 5, "selectivity": 0.1}
    return Problem.from_dict(
        {
            "sites": {name: {"capacity": 1} for name in names},
            "latency_ms": {a: {names[j]: float(i - j) for j in range(i)} for i, a in enumerate(names) if i},
            "streams": {
                "x": {"site": "n0", "rate": 100, "bytes": 10},
                "y": {"site": "n1", "rate": 100, "bytes": 10},
            },
            "operators": {
                "a": {**same, **changes.get("a", {})},
                "b": {**same, **changes.get("b", {})},
                "c": {**same, **changes.get("c", {})},
                "d": {"inputs": ["c"], "cost_us": 1, "selectivity": 0.5, **changes.get("d", {})},
            },
            "queries": {
                "qa": {"reads": "a", "site": "n10"},
                "qb": {"reads": "b", "site": "n11"},
                "qd": {"reads": "d", "site": "n11"},
            },
        }
    )


def queries_on(of: Problem, reuse: bool = True) -> RunningQueries:
    at = np.arange(float(LINE))
    embedding = Embedding(np.stack([at, 0 * at, 0 * at], axis=1), np.zeros(LINE), np.zeros(LINE))
    latency = of.network.latency_ms
    assert latency is not None
    return RunningQueries(of, CostSpace(embedding), as_matrix(latency), np.random.default_rng(0), reuse=reuse)


def test_equal_operators_over_equal_inputs_have_equal_signatures() -> None:
    a, b, c, d = signatures(problem())
    assert a == b == c != d
    assert len(set(signatures(problem(b={"selectivity": 0.2})))) == 3
    assert len(set(signatures(problem(b={"reuse": False})))) == 3
    named = signatures(problem(a={"reuse": "top"}, b={"reuse": "top", "cost_us": 9}))
    assert named[0] == named[1] != named[2]
    assert len(set(signatures(problem(b={"inputs": ["y", "x"]})))) == 3


def test_instances_of_a_split_operator_compute_different_things() -> None:
    split = signatures(
        problem(a={"instances": 2}, b={"instances": 2}, c={"instances": 2, "shares": [0.4, 0.6]})
    )
    assert split[0] == split[2] != split[1] == split[3]
    assert len(set(split[4:])) == len(split[4:])
    assert not set(split[:4]) & set(split[4:])


def test_signatures_of_a_deep_graph_whose_outputs_are_read_twice_stay_short() -> None:
    """Spelled out, the last one would have 2^60 inputs."""
    steps: dict[str, Any] = {
        f"{half}{k}": {"inputs": [f"a{k - 1}", f"b{k - 1}"] if k else ["x"], "cost_us": 1}
        for k in range(60)
        for half in "ab"
    }
    deep = Problem.from_dict(
        {"sites": {"s": {"capacity": 1}}, "streams": {"x": {"rate": 1}}, "operators": steps}
    )
    found = signatures(deep)
    assert all(found[2 * k] == found[2 * k + 1] for k in range(60))
    assert len(set(found)) == 60


def test_the_second_query_reuses_the_first_ones_operator_and_saves_its_inputs() -> None:
    shared, alone = queries_on(problem()), queries_on(problem(), reuse=False)
    for running in (shared, alone):
        running.admit("qa")
    admitted = shared.admit("qb")
    assert admitted.reused == {"b": "a"}
    assert len(shared.instances) == 1
    assert admitted.added_usage < alone.admit("qb").added_usage
    assert shared.usage() < alone.usage()


def test_a_sub_query_is_reused_and_only_the_rest_is_started() -> None:
    running = queries_on(problem())
    running.admit("qa")
    admitted = running.admit("qd")
    assert admitted.reused == {"c": "a"}
    assert set(admitted.sites) == {"c", "d"}
    assert len(running.instances) == 2


def test_who_forbids_reuse_shares_nothing() -> None:
    running = queries_on(problem(b={"reuse": False}))
    running.admit("qa")
    assert running.admit("qb").reused == {}


def test_an_operator_ends_with_its_last_query() -> None:
    running = queries_on(problem())
    for query in ("qa", "qb", "qd"):
        running.admit(query)
    assert running.withdraw("qa") == ()
    assert running.withdraw("qd") == ("d",)
    assert running.withdraw("qb") == ("a",)
    assert running.usage() == 0.0
    again = running.admit("qb")
    assert again.reused == {}


def test_an_output_is_delivered_once_per_site() -> None:
    """A second query at the same site that reads the same operator adds nothing."""
    names = problem()
    twin = Problem(
        names.sites,
        names.streams,
        names.operators,
        (*names.queries, type(names.queries[0])(name="twin", reads="a", site="n10")),
        names.network,
    )
    running = queries_on(twin)
    running.admit("qa")
    assert running.admit("twin").added_usage == pytest.approx(0.0)


def test_running_queries_are_not_admitted_twice_and_unknown_ones_named() -> None:
    running = queries_on(problem())
    running.admit("qa")
    with pytest.raises(InputError, match="runs already"):
        running.admit("qa")
    with pytest.raises(InputError, match="qa"):
        running.admit("qq")
    with pytest.raises(InputError, match="running query"):
        running.withdraw("qb")


@pytest.mark.parametrize("seed", range(5))
def test_any_order_of_coming_and_going_leaves_what_the_running_queries_need(seed: int) -> None:
    rng = np.random.default_rng(seed)
    running, on = queries_on(problem()), set()
    for _ in range(40):
        query = str(rng.choice(["qa", "qb", "qd"]))
        if query in on:
            running.withdraw(query)
            on.discard(query)
        else:
            running.admit(query)
            on.add(query)
        used: set[int] = set()
        todo = [number for name in on for number in running.roots[name]]
        while todo:
            number = todo.pop()
            used.add(number)
            todo += [source for source in running.instances[number].inputs if source >= 0]
        assert used == set(running.instances)
