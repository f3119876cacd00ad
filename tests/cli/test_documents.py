"""Programs read `--json`: its keys are stable, and the same seed gives the same bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Mooring

PLAN_KEYS = [
    "version",
    "problem",
    "policy",
    "placement",
    "shared",
    "rejected",
    "metrics",
    "bound",
    "plan_seconds",
    "overload",
    "explanation",
]
METRICS = [
    "feasible_ratio",
    "feasible_ratio_error",
    "plane_distance",
    "axis_distance",
    "headroom",
    "max_utilisation",
]
CHECK_KEYS = [
    "version",
    "problem",
    "sites",
    "capacity_cores",
    "streams",
    "operators",
    "fragments",
    "queries",
    "pinned",
    "present_load_cores",
    "variables",
    "left_out",
    "feasible",
    "warnings",
    "loads",
]


def without_seconds(document: Any) -> Any:
    if isinstance(document, dict):
        return {key: without_seconds(value) for key, value in document.items() if key != "plan_seconds"}
    return document


def test_a_plan_has_exactly_the_documented_keys(mooring: Mooring, small: Path) -> None:
    result = mooring("plan", small, "--json")
    assert result.code == 0
    assert list(result.document) == PLAN_KEYS
    assert set(METRICS) <= set(result.document["metrics"])
    assert set(result.document["placement"]) == {"x1", "x2", "y1", "y2"}
    assert set(result.document["placement"].values()) <= {"a", "b"}
    assert result.document["metrics"]["feasible_ratio"] <= result.document["bound"] + 1e-9
    assert all(isinstance(sentence, str) for sentence in result.document["explanation"])


def test_a_plan_says_which_operators_an_equal_one_at_their_site_stands_for(
    mooring: Mooring, tmp_path: Path
) -> None:
    assert mooring("plan", twins(tmp_path, second_at="b"), "--json").document["shared"] == {}
    file = twins(tmp_path, second_at="a")
    assert mooring("plan", file, "--json").document["shared"] == {"second": "first"}
    assert "second (first computes the same at its site)" in " ".join(mooring("plan", file).out.split())


def twins(folder: Path, second_at: str) -> Path:
    """Two operators that compute the same, and one that does not."""
    path = folder / f"{second_at}.yaml"
    path.write_text(
        f"""
        sites: {{a: {{capacity: 1}}, b: {{capacity: 1}}}}
        streams: {{x: {{rate: 1000}}}}
        operators:
          first: {{inputs: [x], cost_us: 10, site: a}}
          second: {{inputs: [x], cost_us: 10, site: {second_at}}}
          third: {{inputs: [x], cost_us: 11, site: a}}
        """
    )
    return path


def test_a_problem_with_network_joins_and_queries_has_the_metrics_that_need_them(
    mooring: Mooring, monitoring: Path
) -> None:
    metrics = mooring("plan", monitoring, "--json").document["metrics"]
    assert {"true_feasible_ratio", "network_usage", "bandwidth", "latency_ms", "qos_met"} <= set(metrics)
    assert set(metrics["latency_ms"]) == {"desk", "ports", "talkers", "billing"}


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (("check", "FILE"), CHECK_KEYS),
        (
            ("evaluate", "FILE", "--placement", "PLAN"),
            ["version", "problem", "placement", "rejected", "metrics", "violations"],
        ),
        (("compare", "FILE", "--policies", "rod,llf"), ["version", "problem", "policies", "best", "best_by"]),
        (("headroom", "FILE"), ["version", "problem", "placement", "headroom", "views", "run"]),
        (
            ("headroom", "FILE", "--placement", "PLAN"),
            ["version", "problem", "placement", "headroom", "views", "run"],
        ),
        (("generate", "--operators", "5"), ["version", "sites", "streams", "operators"]),
        (("policies",), ["version", "policies"]),
        (("experiment",), ["version", "experiments"]),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_every_verb_prints_one_document_with_stable_keys(
    mooring: Mooring, small: Path, tmp_path: Path, words: tuple[str, ...], keys: list[str]
) -> None:
    plan = tmp_path / "plan.json"
    assert mooring("plan", small, "--output", plan).code == 0
    files = {"FILE": small, "PLAN": plan}
    result = mooring(*(files.get(word, word) for word in words), "--json")
    assert result.code == 0
    assert list(result.document) == keys


@pytest.mark.parametrize(
    "words",
    [("plan", "--policy", "rod"), ("plan", "--policy", "random"), ("compare",), ("headroom",), ("check",)],
)
def test_the_same_seed_gives_the_same_bytes_apart_from_the_seconds(
    mooring: Mooring, small: Path, words: tuple[str, ...]
) -> None:
    first, second = (
        json.dumps(without_seconds(mooring(words[0], small, *words[1:], "--seed", 7, "--json").document))
        for _ in range(2)
    )
    assert first == second


def test_the_fingerprint_is_that_of_the_content(mooring: Mooring, small: Path, tmp_path: Path) -> None:
    """The same problem as JSON has the same fingerprint; another capacity gives another."""
    import yaml

    data = yaml.safe_load(small.read_text())
    as_json, larger = tmp_path / "same.json", tmp_path / "larger.json"
    as_json.write_text(json.dumps(data))
    larger.write_text(json.dumps({**data, "sites": {"a": {"capacity": 1}, "b": {"capacity": 2}}}))
    prints = [mooring("check", path, "--json").document["problem"] for path in (small, as_json, larger)]
    assert prints[0] == prints[1] != prints[2]


def test_what_has_no_limit_is_null_in_json(mooring: Mooring, small: Path) -> None:
    """The stream `idle` loads nothing: no factor overloads a site."""
    streams = mooring("headroom", small, "--json").document["headroom"]["streams"]
    assert streams["idle"] == {"factor": None, "site": None}
    assert streams["x"]["factor"] > 1


def test_tables_of_hundreds_of_sites_and_queries_show_the_largest_and_count_the_rest(
    mooring: Mooring, tmp_path: Path
) -> None:
    sites, queries = [f"s{i}" for i in range(60)], [f"q{k}" for k in range(50)]
    lines = [
        "sites: {" + ", ".join(f"{name}: {{capacity: 1}}" for name in sites) + "}",
        "latency_ms: {file: far.csv}",
        "streams: {x: {rate: 1000, bytes: 10, site: s0}}",
        "operators: {" + ", ".join(f"o{q}: {{inputs: [x], cost_us: 1, site: s0}}" for q in queries) + "}",
        "queries: {" + ", ".join(f"{q}: {{reads: o{q}, site: s{k}}}" for k, q in enumerate(queries)) + "}",
    ]
    rows = [",".join(["", *sites])]
    rows += [",".join([a, *(str(abs(i - j)) for j in range(60))]) for i, a in enumerate(sites)]
    (tmp_path / "far.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "many.yaml").write_text("\n".join(lines) + "\n")
    shown = mooring("plan", tmp_path / "many.yaml").out
    assert "20 more sites with less load; 59 of 60 sites are idle" in shown
    assert "q49" in shown
    assert "q3 " not in shown
    assert "10 more" in shown
    document = mooring("plan", tmp_path / "many.yaml", "--json").document
    assert len(document["metrics"]["latency_ms"]) == 50
