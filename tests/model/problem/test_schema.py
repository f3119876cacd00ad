"""Whatever is wrong with a problem file is told by file, field, what was found and what was expected."""

from __future__ import annotations

import copy
import json
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.errors import InputError
from mooring.model.problem.problem import Problem
from mooring.model.problem.write import problem_to_data

BASE: dict[str, Any] = {
    "sites": {"berkeley": {"capacity": 2.0}, "mit": {"capacity": 1.0}},
    "latency_ms": {"berkeley": {"mit": 71.0}},
    "streams": {"packets": {"site": "berkeley", "rate": 1200}, "dns": {"rate": 40}},
    "operators": {
        "tcp": {"inputs": ["packets"], "cost_us": 12, "selectivity": 0.8},
        "pairs": {"inputs": ["tcp", "dns"], "kind": "join", "window_s": 0.5, "cost_us": 0.4},
        "raw": {"load": {"packets": 3.1e-5}},
    },
    "queries": {"top": {"reads": "pairs", "site": "mit"}},
}
GONE = object()


def changed(*path_and_value: Any) -> dict[str, Any]:
    """The base problem with one entry set, or removed."""
    *path, last, value = path_and_value
    data = copy.deepcopy(BASE)
    inner: Any = data
    for key in path:
        inner = inner[key]
    if value is GONE:
        del inner[last]
    else:
        inner[last] = value
    return data


def refused(data: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        Problem.from_dict(data)
    assert caught.value.exit_code == 2
    return caught.value


def test_the_base_of_these_tests_is_a_good_problem() -> None:
    assert len(Problem.from_dict(BASE).operators) == 3


NAN, INFINITE = math.nan, math.inf
OPERATORS, STREAMS, SITES = "operators", "streams", "sites"
BAD: list[tuple[tuple[Any, ...], str, str]] = [
    # (change, field, words of the message)
    # Unknown keys, with the nearest known one.
    (("stream", {}), "", "unknown key 'stream', expected one of"),
    ((SITES, "mit", "capacty", 1), "sites.mit", "did you mean 'capacity'?"),
    ((STREAMS, "dns", "site_", "mit"), "streams.dns", "did you mean 'site'?"),
    ((OPERATORS, "tcp", "selectivty", 1), "operators.tcp", "did you mean 'selectivity'?"),
    ((OPERATORS, "tcp", "xyzzy", 1), "operators.tcp", "expected one of bytes, cost_us"),
    (("queries", "top", "max_latency", 1), "queries.top", "did you mean 'max_latency_ms'?"),
    (("network", {"chanel_ms": 1}), "network", "did you mean 'channel_ms'?"),
    ((OPERATORS, "tcp", "per_input", {"packets": {"cost": 1}}), "operators.tcp.per_input.packets", "cost_us"),
    # Inputs and references that are missing.
    ((OPERATORS, "tcp", "inputs", GONE), "operators.tcp.inputs", "found nothing, expected a list of streams"),
    ((OPERATORS, "tcp", "inputs", []), "operators.tcp.inputs", "found an empty list"),
    ((OPERATORS, "tcp", "inputs", ["packet"]), "operators.tcp.inputs[0]", "did you mean 'packets'?"),
    ((OPERATORS, "tcp", "inputs", "packets"), "operators.tcp.inputs", "write [packets]"),
    ((OPERATORS, "tcp", "inputs", [7]), "operators.tcp.inputs[0]", "found 7, expected a name"),
    ((OPERATORS, "tcp", "inputs", ["raw"]), "operators.tcp.inputs[0]", "direct load has no output"),
    ((OPERATORS, "tcp", "inputs", ["packets", "packets"]), "operators.tcp.inputs", "every input once"),
    ((OPERATORS, "tcp", "inputs", ["pairs"]), "operators.", "cycle"),
    ((OPERATORS, "tcp", "inputs", ["tcp"]), "operators.tcp.inputs", "cycle: tcp -> tcp"),
    (("queries", "top", "reads", "pear"), "queries.top.reads", "did you mean 'pairs'?"),
    (("queries", "top", "reads", "raw"), "queries.top.reads", "an operator with an output"),
    (("queries", "top", "reads", GONE), "queries.top.reads", "the operator it consumes"),
    (("queries", "top", "site", GONE), "queries.top.site", "the site it runs at"),
    ((OPERATORS, "raw", "load", {"packet": 1.0}), "operators.raw.load", "did you mean 'packets'?"),
    ((OPERATORS, "tcp", "per_input", {"dns": {}}), "operators.tcp.per_input", "one of the operator's inputs"),
    # Unknown sites.
    ((STREAMS, "dns", "site", "mti"), "streams.dns.site", "did you mean 'mit'?"),
    ((OPERATORS, "tcp", "site", "mars"), "operators.tcp.site", "known: berkeley, mit"),
    (("queries", "top", "site", "MIT"), "queries.top.site", "expected a site"),
    (("latency_ms", {"berkley": {"mit": 1}}), "latency_ms", "did you mean 'berkeley'?"),
    # Names.
    ((OPERATORS, "dns", BASE[OPERATORS]["tcp"]), "operators.dns", "for a stream and an operator"),
    ((OPERATORS, "a#1", BASE[OPERATORS]["tcp"]), "operators.a#1", "without '#'"),
    ((OPERATORS, " a", BASE[OPERATORS]["tcp"]), "operators. a", "without leading or trailing space"),
    ((OPERATORS, "", BASE[OPERATORS]["tcp"]), "operators.''", "1 to 200 printable"),
    ((OPERATORS, "\x1b[31m", BASE[OPERATORS]["tcp"]), r"operators.'\x1b[31m'", "printable"),
    ((OPERATORS, 7, BASE[OPERATORS]["tcp"]), "operators.7", "put it in quotes"),
    ((OPERATORS, "tcp", "fragment", "raw"), OPERATORS, "for a fragment and for an operator"),
    # Numbers.
    ((SITES, "mit", "capacity", 0), "sites.mit.capacity", "above zero"),
    ((SITES, "mit", "capacity", GONE), "sites.mit.capacity", "capacity in cores"),
    ((SITES, "mit", "capacity", "1"), "sites.mit.capacity", "write it without quotes"),
    ((SITES, "mit", "capacity", "two"), "sites.mit.capacity", "found 'two', expected a number"),
    ((SITES, "mit", "capacity", True), "sites.mit.capacity", "found True, expected a number"),
    ((SITES, "mit", "capacity", "4 cores"), "sites.mit.capacity", "a number of cores (write 4)"),
    ((SITES, "mit", "capacity", "500m"), "sites.mit.capacity", "a number of cores (write 0.5)"),
    ((SITES, "mit", "capacity", "1,5"), "sites.mit.capacity", "found '1,5', expected a number of cores"),
    ((SITES, "mit", "capacity", 10**400), "sites.mit.capacity", "more than 300 digits"),
    ((STREAMS, "dns", "rate", -1), "streams.dns.rate", "found -1, expected a finite number"),
    ((STREAMS, "dns", "rate", NAN), "streams.dns.rate", "found nan"),
    ((STREAMS, "dns", "rate", GONE), "streams.dns.rate", "present rate"),
    ((STREAMS, "dns", "min_rate", 41), "streams.dns.rate", "between min_rate and max_rate"),
    (
        (STREAMS, "dns", {"rate": 3, "min_rate": 2, "max_rate": 1}),
        "streams.dns.max_rate",
        "at least min_rate",
    ),
    ((OPERATORS, "tcp", "cost_us", INFINITE), "operators.tcp.cost_us", "found inf"),
    ((OPERATORS, "tcp", "selectivity", -0.1), "operators.tcp.selectivity", "not negative"),
    ((OPERATORS, "tcp", "cost_us", GONE), "operators.tcp.cost_us", "CPU microseconds"),
    ((OPERATORS, "tcp", "cost_us", "1.5 ms"), "operators.tcp.cost_us", "of microseconds (write 1500)"),
    ((OPERATORS, "tcp", "cost_us", [1]), "operators.tcp.cost_us", "found a list of 1, expected a number"),
    ((OPERATORS, "raw", "load", {"packets": -1}), "operators.raw.load.packets", "not negative"),
    ((OPERATORS, "raw", "load", {}), "operators.raw.load", "at least one stream"),
    (("network", {"comm_us": NAN}), "network.comm_us", "found nan"),
    (("queries", "top", "max_latency_ms", 0), "queries.top.max_latency_ms", "above zero"),
    # Fields that do not go together.
    ((OPERATORS, "raw", "cost_us", 1), "operators.raw", "found both load and cost_us"),
    ((OPERATORS, "raw", "inputs", ["dns"]), "operators.raw", "found both load and inputs"),
    ((OPERATORS, "pairs", "window_s", GONE), "operators.pairs.window_s", "window in seconds"),
    ((OPERATORS, "pairs", "inputs", ["tcp"]), "operators.pairs.inputs", "two inputs"),
    ((OPERATORS, "pairs", "per_input", {"tcp": {}}), "operators.pairs.per_input", "per pair"),
    ((OPERATORS, "tcp", "window_s", 1), "operators.tcp.window_s", "only where kind is join"),
    ((OPERATORS, "tcp", "kind", "jion"), "operators.tcp.kind", "did you mean join?"),
    ((OPERATORS, "tcp", "kind", ["map"]), "operators.tcp.kind", "one of map, filter"),
    ((OPERATORS, "tcp", "variable", "yes"), "operators.tcp.variable", "found 'yes', expected true or false"),
    ((OPERATORS, "tcp", "reuse", True), "operators.tcp.reuse", "expected a name"),
    ((OPERATORS, "tcp", "instances", 0), "operators.tcp.instances", "whole number from 1"),
    ((OPERATORS, "tcp", "instances", 2.0), "operators.tcp.instances", "whole number from 1"),
    ((OPERATORS, "tcp", "shares", [0.5, 0.5]), "operators.tcp.shares", "1 shares, one per instance"),
    # Sections.
    (("version", 2), "version", "1, the only version"),
    ((SITES, {}), "sites", "at least one entry"),
    ((STREAMS, GONE), "streams", "at least one entry"),
    ((OPERATORS, None), "operators", "found nothing, expected a mapping"),
    ((OPERATORS, ["tcp"]), "operators", "found a list of 1, expected a mapping"),
    ((OPERATORS, "tcp", "packets"), "operators.tcp", "found 'packets', expected a mapping of fields"),
    (("queries", [1]), "queries", "expected a mapping"),
    (("latency_ms", {}), "latency_ms", "no latency between 'berkeley' and 'mit'"),
    (("latency_ms", {"file": "m.csv"}), "latency_ms.file", "does not come from a file"),
]


@pytest.mark.parametrize(("change", "field", "words"), BAD, ids=[f"{b[1]}: {b[2][:30]}" for b in BAD])
def test_bad_input_is_told_by_field_finding_and_expectation(
    change: tuple[Any, ...], field: str, words: str
) -> None:
    error = refused(changed(*change))
    assert (error.field or "").startswith(field)
    assert field.endswith(".") or (error.field or "") == field
    assert words in str(error)
    assert "found" in str(error)


def test_the_file_is_named_first(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(yaml.safe_dump(changed(OPERATORS, "tcp", "inputs", ["packet"])))
    with pytest.raises(InputError) as caught:
        Problem.load(path)
    assert str(caught.value) == (
        f"{path}: operators.tcp.inputs[0]: found 'packet', expected a stream or an operator"
        " (did you mean 'packets'?)"
    )


@pytest.mark.parametrize("data", [{}, [], None, "text", 7, {"sites": {}}, {"version": 1}])
def test_an_empty_problem_is_refused(data: Any) -> None:
    assert "expected" in str(refused(data))


def test_a_token_in_an_address_is_never_shown() -> None:
    error = refused(changed(SITES, "mit", "connect", "http://mit:443/;token=secret"))
    assert "secret" not in str(error)
    assert "write it as sc://host:15002" in str(error)
    good = Problem.from_dict(changed(SITES, "mit", "connect", "sc://mit:443/;token=" + "s" * 900))
    assert "sss" not in repr(good.sites)


@pytest.mark.parametrize(
    "site",
    [
        "sc://mit:443/;token=hunter2hunter2",
        ["sc://mit:443/;token=hunter2hunter2"],
        {"capacity": "sc://mit:443/;token=hunter2hunter2"},
        {"capacity": 1, "connect": {"url": "sc://mit:443/;token=hunter2hunter2", "token_env": "T"}},
        {"capacity": 1, "connect": {"url": "SC://mit:443/;token=hunter2hunter2"}},
        {"capacity": 1, "connect": {"token": "hunter2hunter2"}},
        {"capacity": 1, "connect": {"url": "sc://mit", "plain_text": "token hunter2hunter2"}},
        {"capacity": 1, "connect": {"url": "sc://mit", "token_env": ["hunter2hunter2"]}},
        {"capacity": 1, "conect": "sc://mit:443/;token=hunter2hunter2"},
    ],
)
def test_a_token_in_the_wrong_place_is_not_shown_either(site: object) -> None:
    data = copy.deepcopy(BASE)
    data[SITES]["mit"] = site
    error = refused(data)
    assert "hunter2" not in f"{error} {error.as_json()}"
    assert "sites.mit" in str(error)


def test_how_a_site_is_reached_may_say_where_its_token_is(tmp_path: Path) -> None:
    data = copy.deepcopy(BASE)
    data[SITES]["mit"]["connect"] = {"url": "sc://mit", "token_file": "mit.token", "ca_file": "/etc/ca.pem"}
    file = tmp_path / "problem.json"
    file.write_text(json.dumps(data))
    problem = Problem.load(file)
    connection = next(site.connect for site in problem.sites if site.name == "mit")
    assert connection is not None
    assert connection.token_file == str(tmp_path / "mit.token")
    assert connection.ca_file == "/etc/ca.pem"
    assert connection.is_private
    again = Problem.from_dict(problem_to_data(problem, with_connect=True))
    assert again.sites == problem.sites


def test_a_fragment_is_pinned_once_and_split_alike() -> None:
    data = copy.deepcopy(BASE)
    data[OPERATORS]["tcp"] |= {"fragment": "f", "site": "mit"}
    data[OPERATORS]["pairs"] |= {"fragment": "f", "site": "berkeley"}
    assert "'f' pinned to two sites" in str(refused(data))
    data[OPERATORS]["pairs"] |= {"site": "mit", "instances": 2}
    assert "expected 1, as in operator 'tcp'" in str(refused(data))


def test_shares_are_even_unless_given() -> None:
    even = Problem.from_dict(changed(OPERATORS, "tcp", "instances", 4))
    assert [o.share for o in even.operators if o.part_of == "tcp"] == [0.25] * 4
    given_data = changed(OPERATORS, "tcp", "instances", 3)
    given_data[OPERATORS]["tcp"]["shares"] = [0.5, 0.3, 0.2]
    uneven = Problem.from_dict(given_data)
    assert [o.share for o in uneven.operators if o.part_of == "tcp"] == [0.5, 0.3, 0.2]
    given_data[OPERATORS]["tcp"]["shares"] = [0.5, 0.3, 0.3]
    assert "add up to 1" in str(refused(given_data))


def test_rounded_shares_are_stretched_to_add_up() -> None:
    data = changed(OPERATORS, "tcp", "instances", 3)
    data[OPERATORS]["tcp"]["shares"] = [0.3333333, 0.3333333, 0.3333333]
    assert math.fsum(o.share for o in Problem.from_dict(data).operators if o.part_of) == pytest.approx(
        1.0, abs=1e-15
    )


def test_costs_may_be_given_per_input_alone() -> None:
    data = changed(OPERATORS, "tcp", {"inputs": ["packets"], "per_input": {"packets": {"cost_us": 3}}})
    assert Problem.from_dict(data).operators[0].cost_us_of("packets") == 3.0


def test_a_self_join_may_name_its_input_twice() -> None:
    assert Problem.from_dict(changed(OPERATORS, "pairs", "inputs", ["tcp", "tcp"]))


words = st.sampled_from(
    [
        "sites",
        "streams",
        "operators",
        "queries",
        "latency_ms",
        "network",
        "inputs",
        "cost_us",
        "load",
        "a",
        "b",
        "",
    ]
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(words | st.text(max_size=5) | st.integers(), inner, max_size=4)
    ),
    max_leaves=15,
)


@given(anything)
@settings(max_examples=200)
def test_any_data_is_a_problem_or_refused(data: Any) -> None:
    with suppress(InputError):
        Problem.from_dict(data)


@given(st.data())
@settings(max_examples=300)
def test_a_problem_with_anything_anywhere_is_a_problem_or_refused(data: st.DataObject) -> None:
    """Put arbitrary data in a random place of a good problem."""
    broken = copy.deepcopy(BASE)
    at: Any = broken
    while True:
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        if not isinstance(at[key], dict | list) or not at[key] or data.draw(st.booleans()):
            break
        at = at[key]
    at[key] = data.draw(anything)
    with suppress(InputError):
        Problem.from_dict(broken)
