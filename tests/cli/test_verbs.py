"""What each verb does for a person."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mooring.cli.main import VERBS
from mooring.model.problem.fingerprint import fingerprint
from mooring.model.problem.problem import Problem

if TYPE_CHECKING:
    from tests.cli.conftest import Mooring


def test_check_names_streams_that_are_left_out_and_shows_the_graph(mooring: Mooring, small: Path) -> None:
    result = mooring("check", small)
    assert result.code == 0
    assert "idle loads nothing" in result.out
    assert "4 operators" in result.out
    assert mooring("check", small, "--json").document["left_out"] == ["idle"]


def test_check_warns_about_operators_nobody_reads(mooring: Mooring, tmp_path: Path) -> None:
    path = tmp_path / "unread.yaml"
    path.write_text(
        "sites: {a: {capacity: 1}}\nstreams: {x: {rate: 1}}\n"
        "operators: {f: {inputs: [x], cost_us: 1}, g: {inputs: [x], cost_us: 1}}\n"
        "queries: {q: {reads: f, site: a}}\n"
    )
    (warning,) = mooring("check", path, "--json").document["warnings"]
    assert warning == "no operator or query reads g"


def test_without_the_lab_experiments_say_what_is_missing_and_all_else_works(
    mooring: Mooring, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from the wheel, which does not hold it."""
    for name in [each for each in sys.modules if each.partition(".")[0] == "lab"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "lab", None)
    result = mooring("experiment", "--json")
    assert result.code == 2
    assert "the lab is not installed here" in str(result.document["error"])
    assert mooring("check", small).code == 0


def test_a_written_plan_evaluates_to_its_own_metrics(
    mooring: Mooring, monitoring: Path, tmp_path: Path
) -> None:
    plan = tmp_path / "deep" / "plan.json"
    made = mooring("plan", monitoring, "--output", plan, "--json").document
    assert json.loads(plan.read_text()) == made
    evaluated = mooring("evaluate", monitoring, "--placement", plan, "--json").document
    assert evaluated["metrics"] == made["metrics"]
    assert evaluated["violations"] == []


def test_a_bare_mapping_is_a_placement_and_a_broken_pin_is_reported(
    mooring: Mooring, monitoring: Path, tmp_path: Path
) -> None:
    path = tmp_path / "all_at_cern.json"
    operators = [operator.name for operator in Problem.load(monitoring).operators]
    path.write_text(json.dumps(dict.fromkeys(operators, "cern")))
    result = mooring("evaluate", monitoring, "--placement", path, "--json")
    assert result.code == 0
    assert any("alarms" in violation for violation in result.document["violations"])


def test_a_placement_on_an_unknown_site_names_file_and_operator(
    mooring: Mooring, small: Path, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"placement": {"x1": "a", "x2": "a", "y1": "b", "y2": "c"}}))
    error = mooring("evaluate", small, "--placement", path, "--json").document["error"]
    assert (error["file"], error["field"]) == (str(path), "placement.y2")


def test_compare_leaves_out_what_a_policy_cannot_do_and_names_the_best(mooring: Mooring, small: Path) -> None:
    document = mooring("compare", small, "--json").document
    ratios = {
        name: own["metrics"]["feasible_ratio"]
        for name, own in document["policies"].items()
        if "metrics" in own
    }
    assert ratios[document["best"]] == max(ratios.values())
    assert {"rod", "random", "llf", "connected"} <= set(document["policies"])
    assert document["best"] in mooring("compare", small).out


def test_headroom_is_where_a_site_is_exactly_full(mooring: Mooring, small: Path, tmp_path: Path) -> None:
    """Grow the rates by the reported factor: the busiest site is then at its capacity."""
    plan = tmp_path / "plan.json"
    mooring("plan", small, "--output", plan)
    factor = mooring("headroom", small, "--placement", plan, "--json").document["headroom"]["factor"]
    text = small.read_text()
    for rate in (1000, 2000):
        text = text.replace(f"rate: {rate}}}", f"rate: {rate * factor!r}}}")
    grown = tmp_path / "grown.yaml"
    grown.write_text(text)
    metrics = mooring("evaluate", grown, "--placement", plan, "--json").document["metrics"]
    assert metrics["max_utilisation"] == pytest.approx(1.0)


def test_from_and_max_moves_bound_what_changes(mooring: Mooring, monitoring: Path, tmp_path: Path) -> None:
    before = tmp_path / "before.json"
    running = mooring("plan", monitoring, "--policy", "random", "--output", before, "--json").document[
        "placement"
    ]
    result = mooring("plan", monitoring, "--from", before, "--max-moves", 0, "--json")
    assert result.code == 0
    assert result.document["placement"] == running


@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_generate_writes_a_problem_that_reads_back_as_the_same(
    mooring: Mooring, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"problem.{suffix}"
    words = (
        "--operators",
        40,
        "--joins",
        3,
        "--variable",
        2,
        "--plane-ms",
        50,
        "--queries",
        4,
        "--comm-us",
        2,
    )
    assert mooring("generate", *words, "--seed", 5, "--output", path).code == 0
    again = tmp_path / f"again.{suffix}"
    mooring("generate", *words, "--seed", 5, "--output", again)
    assert path.read_bytes() == again.read_bytes()
    other = tmp_path / f"other.{suffix}"
    mooring("generate", *words, "--seed", 6, "--output", other)
    assert fingerprint(Problem.load(path)) != fingerprint(Problem.load(other))
    document = mooring("check", path, "--json").document
    assert (document["operators"], document["queries"]) == (40, 4)
    printed = mooring("generate", *words, "--seed", 5, "--json").document
    assert fingerprint(Problem.from_dict(printed)) == fingerprint(Problem.load(path))


def test_policies_lists_parameters_with_their_meaning(mooring: Mooring) -> None:
    policies = {policy["name"]: policy for policy in mooring("policies", "--json").document["policies"]}
    assert {"rod", "random", "llf", "max_rate", "connected", "correlation", "optimal"} <= set(policies)
    for policy in policies.values():
        assert policy["summary"]
        assert all(parameter["meaning"] for parameter in policy["parameters"]), policy["name"]


def test_set_reaches_the_policy(mooring: Mooring, monitoring: Path) -> None:
    first, second = (
        mooring("plan", monitoring, "--policy", "random", "--set", f"balanced={value}", "--json").document
        for value in ("true", "false")
    )
    assert first["placement"] != second["placement"]


def test_every_verb_explains_itself(mooring: Mooring) -> None:
    assert mooring("--help").code == 0
    listed = mooring("--help").out
    for name in VERBS:
        assert name in listed
        help_text = mooring(name, "--help")
        assert help_text.code == 0
        assert "--json" in help_text.out
        assert "--seed" in help_text.out


def test_check_speaks_of_one_in_the_singular(mooring: Mooring, tmp_path: Path) -> None:
    path = tmp_path / "one.yaml"
    path.write_text(
        "sites: {a: {capacity: 1}}\nstreams: {x: {rate: 1}}\noperators: {f: {inputs: [x], cost_us: 1}}\n"
        "queries: {q: {reads: f, site: a}}\n"
    )
    said = " ".join(mooring("check", path).out.split())
    assert "1 operator in 1 fragment (0 pinned) reads 1 stream for 1 query on 1 site" in said
