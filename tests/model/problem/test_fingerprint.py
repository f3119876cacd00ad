"""A fingerprint names the problem, and not how its file happens to be written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.model.problem.fingerprint import fingerprint
from mooring.model.problem.problem import Problem


def data(**changes: Any) -> dict[str, Any]:
    return {
        "sites": {"a": {"capacity": 1}, "b": {"capacity": 2}},
        "latency_ms": {"a": {"b": 5}},
        "network": {"routes": {"a": {"b": []}}, "bandwidth": 1e6},
        "streams": {"s": {"rate": 10}, "t": {"rate": 20}},
        "operators": {"o": {"inputs": ["s"], "cost_us": 3}, "p": {"inputs": ["o", "t"], "cost_us": 4}},
        **changes,
    }


def reversed_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reversed_order(item) for key, item in reversed(value.items())}
    return value


def test_it_is_sixteen_hexadecimal_digits_after_the_name_of_the_hash() -> None:
    assert re.fullmatch(r"sha256:[0-9a-f]{16}", fingerprint(Problem.from_dict(data())))


@given(drawn=st.data())
@settings(max_examples=40)
def test_the_order_of_entries_does_not_count(drawn: st.DataObject, problem_data: Any) -> None:
    plain = drawn.draw(problem_data)
    assert fingerprint(Problem.from_dict(plain)) == fingerprint(Problem.from_dict(reversed_order(plain)))


@pytest.mark.parametrize(
    "change",
    [
        {"sites": {"a": {"capacity": 1}, "b": {"capacity": 3}}},
        {"latency_ms": {"a": {"b": 6}}},
        {"latency_ms": {"a": {"b": 5}, "b": {"a": 6}}},
        {"network": {}},
        {"streams": {"s": {"rate": 10}, "t": {"rate": 20, "min_rate": 1}}},
        {"operators": {"o": {"inputs": ["s"], "cost_us": 3}, "p": {"inputs": ["t", "o"], "cost_us": 4}}},
        {"queries": {"q": {"reads": "p", "site": "a"}}},
    ],
)
def test_every_change_of_the_problem_changes_it(change: dict[str, Any]) -> None:
    assert fingerprint(Problem.from_dict(data(**change))) != fingerprint(Problem.from_dict(data()))


def test_addresses_do_not_count() -> None:
    sites = {"a": {"capacity": 1, "connect": "sc://a:1"}, "b": {"capacity": 2}}
    assert fingerprint(Problem.from_dict(data(sites=sites))) == fingerprint(Problem.from_dict(data()))


def test_past_rates_count_and_the_name_of_their_file_does_not(tmp_path: Path) -> None:
    def with_history(file: str, rows: str) -> str:
        (tmp_path / file).write_text(f"s\n{rows}\n")
        (tmp_path / "p.yaml").write_text(
            f"sites: {{a: {{capacity: 1}}}}\nstreams: {{s: {{rate: 5, rates: {file}}}}}\n"
            "operators: {o: {inputs: [s], cost_us: 1}}\n"
        )
        return fingerprint(Problem.load(tmp_path / "p.yaml"))

    first = with_history("one.csv", "1\n2")
    assert with_history("two.csv", "1\n2") == first
    assert with_history("one.csv", "1\n3") != first
