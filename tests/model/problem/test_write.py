"""What is written reads back as the same problem."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.errors import InputError
from mooring.model.problem.files import parse_json
from mooring.model.problem.generate import GraphParameters, generate_problem
from mooring.model.problem.network import Network
from mooring.model.problem.operator import Operator
from mooring.model.problem.problem import Problem
from mooring.model.problem.reading.yaml12 import parse_yaml
from mooring.model.problem.site import Site
from mooring.model.problem.stream import Stream
from mooring.model.problem.write import problem_to_data, problem_to_json, problem_to_yaml, write_problem


def assert_same(a: Problem, b: Problem) -> None:
    """Field by field, to the last bit."""
    assert a.sites == b.sites
    assert a.streams == b.streams
    assert a.operators == b.operators
    assert a.queries == b.queries
    assert (a.network.channel_ms, a.network.comm_us) == (b.network.channel_ms, b.network.comm_us)
    assert a.network.routes == b.network.routes
    for left, right in [
        (a.network.latency_ms, b.network.latency_ms),
        (a.network.bandwidth, b.network.bandwidth),
        (None if a.history is None else a.history.rates, None if b.history is None else b.history.rates),
    ]:
        assert (left is None) == (right is None)
        assert left is None or np.array_equal(left, right)  # type: ignore[arg-type]


@given(data=st.data())
def test_a_problem_survives_being_written_and_read(data: st.DataObject, problem_data: Any) -> None:
    problem = Problem.from_dict(data.draw(problem_data))
    assert_same(Problem.from_dict(parse_yaml(problem_to_yaml(problem))), problem)  # type: ignore[arg-type]
    assert parse_json(problem_to_json(problem)) == parse_yaml(problem_to_yaml(problem))
    assert parse_json(problem_to_json(problem)) == problem_to_data(problem)


@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_generated_problems_pass_the_checks_of_problem_files(suffix: str, tmp_path: Path) -> None:
    """The generator builds problems directly; here they go through the reader's validation."""
    parameters = GraphParameters(
        joins=10, variable=5, queries=6, plane_ms=50.0, stream_bytes=64, capacity=(1.0, 3.0), comm_us=2.0
    )
    for seed in range(3):
        problem = generate_problem(parameters, np.random.default_rng(seed))
        path = tmp_path / f"problem.{suffix}"
        write_problem(problem, path)
        assert_same(Problem.load(path), problem)


def small(**operator: Any) -> Problem:
    return Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1, "connect": "sc://a:15002/;token=secret"}},
            "streams": {"s": {"rate": 10}},
            "operators": {"o": {"inputs": ["s"], "cost_us": 3, **operator}},
        }
    )


def test_an_address_is_written_only_when_asked_for() -> None:
    problem = small()
    assert "secret" not in problem_to_yaml(problem) + problem_to_json(problem) + str(problem_to_data(problem))
    assert "secret" in problem_to_yaml(problem, with_connect=True)
    assert_same(Problem.from_dict(problem_to_data(problem, with_connect=True)), problem)


def test_a_split_operator_is_written_as_one_entry() -> None:
    even = problem_to_data(small(instances=4, memory_mb=100))
    assert even["operators"] == {"o": {"inputs": ["s"], "cost_us": 3, "memory_mb": 100, "instances": 4}}
    uneven = problem_to_data(small(instances=2, shares=[0.75, 0.25], fragment="f"))
    assert uneven["operators"]["o"]["shares"] == [0.75, 0.25]
    assert uneven["operators"]["o"]["fragment"] == "f"


def test_what_was_divided_among_instances_is_found_again_to_the_last_bit() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        weights = rng.uniform(0.1, 1.0, rng.integers(2, 6))
        shares = (weights / weights.sum()).tolist()
        problem = small(
            instances=len(shares), shares=shares, memory_mb=rng.uniform(1, 1e4), state_bytes=rng.uniform()
        )
        assert_same(Problem.from_dict(problem_to_data(problem, with_connect=True)), problem)


def test_a_symmetric_matrix_is_written_once() -> None:
    problem = Problem(
        sites=(Site(name="a", capacity=1.0), Site(name="b", capacity=1.0)),
        streams=(Stream(name="s", rate=1.0),),
        operators=(Operator(name="o", inputs=("s",)),),
        network=Network(latency_ms=np.array([[0.0, 7.0], [7.0, 0.0]])),
    )
    assert problem_to_data(problem)["latency_ms"] == {"a": {"b": 7}}


def test_past_rates_are_written_beside_the_problem(tmp_path: Path) -> None:
    (tmp_path / "past.csv").write_text("time_s,s\n0,0.1\n1,30\n2,7.3\n")
    original = tmp_path / "original.yaml"
    original.write_text(
        "sites: {a: {capacity: 1}}\nstreams: {s: {rates: past.csv}, t: {rate: 4}}\n"
        "operators: {o: {inputs: [s, t], cost_us: 1}}\n"
    )
    problem = Problem.load(original)
    write_problem(problem, tmp_path / "copy.yaml")
    copy = Problem.load(tmp_path / "copy.yaml")
    assert [stream.rates for stream in copy.streams] == ["copy.rates.csv", None]
    renamed = msgspec.structs.replace(copy.streams[0], rates="past.csv")
    assert (renamed, copy.streams[1]) == problem.streams
    assert copy.history is not None
    assert problem.history is not None
    assert np.array_equal(copy.history.rates, problem.history.rates)


def test_what_no_file_can_hold_is_refused() -> None:
    problem = small(instances=2)
    lone = Problem(sites=problem.sites, streams=problem.streams, operators=problem.operators[:1])
    with pytest.raises(InputError, match="instances"):
        problem_to_data(lone)
    sites = (Site(name="a", capacity=1.0), Site(name="b", capacity=1.0))
    one_way = Network(bandwidth=np.array([[np.inf, 5.0], [np.inf, np.inf]]))
    with pytest.raises(InputError, match="one direction"):
        problem_to_data(
            Problem(sites=sites, streams=problem.streams, operators=problem.operators, network=one_way)
        )


def test_names_that_other_readers_take_for_booleans_are_quoted() -> None:
    problem = Problem.from_dict(
        {
            "sites": {"no": {"capacity": 1}},
            "streams": {"on": {"rate": 1}},
            "operators": {"1e6": {"inputs": ["on"], "cost_us": 1, "site": "no"}},
        }
    )
    assert '"1e6": {inputs: ["on"], cost_us: 1, site: "no"}' in problem_to_yaml(problem)
