"""`mooring simulate` prints a table or JSON, the same bytes for the same seed, and draws a figure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mooring.cli.main import main

PROBLEM = """
sites: {a: {capacity: 1}, b: {capacity: 1}}
latency_ms: {a: {b: 20}}
streams: {s: {rate: 300, site: a}, t: {rate: 200, site: b}}
operators:
  x: {inputs: [s], cost_us: 1500, selectivity: 0.5}
  y: {inputs: [t], cost_us: 2500, selectivity: 1}
queries: {q: {reads: x, site: b, max_latency_ms: 50}}
"""


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "problem.yml").write_text(PROBLEM)
    (tmp_path / "plan.json").write_text('{"placement": {"x": "a", "y": "b"}}')
    return [str(tmp_path / "problem.yml"), "--placement", str(tmp_path / "plan.json")]


def test_the_table_names_queries_sites_and_the_verdict(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *files, "--seconds", "20"]) == 0
    out = capsys.readouterr().out
    for expected in ("query", "p99", "utilisation", "kept up; busiest site 'b'"):
        assert expected in out


def test_json_is_the_same_for_the_same_seed_and_different_for_another(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    def document(*options: str) -> str:
        assert (
            main(["simulate", *files, "--json", "--seconds", "10", "--trace", "bc-paug89-extract", *options])
            == 0
        )
        return capsys.readouterr().out

    first = document()
    assert first == document()
    assert first != document("--seed", "1")
    data = json.loads(first)
    assert data["overloaded"] is False
    assert set(data["queries"]) == {"q", "y"}
    assert {"mean_ms", "p50_ms", "p95_ms", "p99_ms", "max_ms"} <= set(data["queries"]["q"])


def test_an_overload_is_reported_and_no_error(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", *files, "--json", "--seconds", "300", "--multiplier", "4"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["overloaded"] is True
    assert data["overload"]["where"] in ("site 'a'", "site 'b'")


def test_a_figure_is_drawn(files: list[str], tmp_path: Path) -> None:
    target = tmp_path / "out" / "latency.png"
    assert (
        main(
            ["simulate", *files, "--seconds", "5", "--trace", "t=bc-paug89-extract", "--figure", str(target)]
        )
        == 0
    )
    assert target.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "wrong",
    [["--seconds", "0"], ["--trace", "a", "--trace", "b"], ["--warm-up", "-1"], ["--trace", "nosuch"]],
)
def test_bad_input_is_exit_code_two(files: list[str], wrong: list[str]) -> None:
    assert main(["simulate", *files, *wrong]) == 2


def test_without_a_placement_it_simulates_the_one_that_rod_makes_and_says_so(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem, plan = files[0], str(tmp_path / "rod.json")
    assert main(["plan", problem, "--policy", "rod", "--seed", "3", "--output", plan]) == 0
    capsys.readouterr()
    documents = []
    for words in ([], ["--placement", plan]):
        assert main(["simulate", problem, "--seconds", "10", "--seed", "3", "--json", *words]) == 0
        captured = capsys.readouterr()
        documents.append(captured.out)
        assert ("the placement that rod makes" in captured.err) == (not words)
    assert documents[0] == documents[1]


CHANGES = """
- {at_s: 30, stream: s, rate: 650}
- {at_s: 60, query: q, leaves: true}
"""


def test_changes_from_a_file_are_adapted_to_beside_never_moving_and_replanning(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "changes.yml").write_text(CHANGES)
    options = ["--changes", str(tmp_path / "changes.yml"), "--seconds", "90", "--batch", "5"]
    figure = tmp_path / "adapted.png"
    adapt = ["--adapt", "headroom", "--guard", "untouched=x", "--figure", str(figure)]
    assert main(["simulate", *files, *options, *adapt]) == 0
    out = capsys.readouterr().out
    for expected in ("stream s at 650 per s", "query q leaves", "replanned", "time with room", "moves"):
        assert expected in out
    assert figure.stat().st_size > 1000
    assert main(["simulate", *files, *options, "--json", "--alone"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert list(data) == ["version", "problem", "settings", "warnings", "seconds", "changes", "ways"]
    assert list(data["ways"]) == ["none"]
    assert list(data["ways"]["none"]) == [
        "summary",
        "verdict",
        "queries",
        "sites",
        "moves",
        "reused",
        "incidents",
        "nothing_done",
        "ledger",
        "control",
        "data_bytes",
        "series",
    ]
    assert data["changes"][1] == {"at_s": 60, "query": "q", "leaves": True, "what": "query q leaves"}


@pytest.mark.parametrize(
    ("guard", "said"),
    [
        ("looks", "expected NAME=VALUE"),
        ("lookz=3", "did you mean 'looks'"),
        ("looks=many", "--guard looks"),
        ("quiet_hours=night", "hours such as 22:00-06:00"),
    ],
)
def test_a_guard_that_cannot_be_read_is_refused_by_name(
    files: list[str], guard: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *files, "--adapt", "headroom", "--guard", guard]) == 2
    assert said in capsys.readouterr().err


def test_windows_that_did_not_close_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "windows.yml"
    file.write_text(PROBLEM.replace("cost_us: 2500", "kind: aggregate, window_s: 30, cost_us: 2500"))
    words = ["simulate", str(file), "--json", "--seconds"]
    assert main([*words, "20"]) == 0
    assert json.loads(capsys.readouterr().out)["warnings"] == [
        "within 20 s no window closed of y (30 s), so they put out nothing; simulate longer, for example "
        "--seconds 60"
    ]
    assert main([*words, "60"]) == 0
    assert json.loads(capsys.readouterr().out)["warnings"] == []
