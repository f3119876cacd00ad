"""Experiments are found by name, and the command writes what it prints."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from lab.experiments import registry
from lab.experiments.experiment import Experiment
from lab.experiments.registry import EXPERIMENTS, find_experiment
from lab.experiments.summary import Shown, Summary
from lab.experiments.trials import Row, run_trials
from mooring.cli.main import main
from mooring.errors import InputError
from mooring.progress import Report


def test_names_are_those_of_the_experiments() -> None:
    assert {"rod_figure14", "rod_table3", "sbon_figure14"} <= set(EXPERIMENTS)
    assert all(name == experiment.name for name, experiment in EXPERIMENTS.items())
    for experiment in EXPERIMENTS.values():
        assert experiment.title
        assert experiment.source
        assert experiment.setting
        assert len(experiment.setting) <= 100
        assert experiment.columns


def test_every_name_begins_with_the_paper_or_with_spark() -> None:
    papers = {"adapting", "ants", "chunks", "overlay", "rod", "sbon", "spark"}
    assert {name.partition("_")[0] for name in EXPERIMENTS} == papers


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("fig14", "rod_figure14"),
        ("sbon_table_1", "sbon_table1"),
        ("figure15", "rod_figure15"),
        ("table3", "rod_table3"),
        ("figure14", "rod_figure14 or sbon_figure14"),
        ("figure5", "sbon_figure5 or chunks_figure5"),
        ("figure18", "rod_figure18 or spark_figure18"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest_and_a_bare_figure_with_its_papers(
    given: str, meant: str
) -> None:
    with pytest.raises(InputError, match=rf"did you mean {meant}\?"):
        find_experiment(given)


def test_trials_keep_the_order_of_their_parameters_and_report_progress() -> None:
    heard: list[float] = []
    rows = run_trials(lambda n: [{"n": n}, {"n": -n}], [3, 1, 2], lambda done, what: heard.append(done))
    assert [row["n"] for row in rows] == [3, -3, 1, -1, 2, -2]
    assert heard == pytest.approx([1 / 3, 2 / 3, 1.0])


def squares(*, seed: int, quick: bool, report: Report) -> list[Row]:
    return run_trials(lambda n: [{"n": n, "square": float(n * n + seed)}], range(2 if quick else 5), report)


def line(rows: Sequence[Row]) -> Figure:
    figure = Figure()
    figure.subplots().plot([row["n"] for row in rows], [row["square"] for row in rows])
    return figure


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Experiment:
    columns = {"n": "a number", "square": "its square"}
    summaries = (Summary(by=(), shown=(Shown("square"),)),)
    small = Experiment("squares", "Squares", "nowhere", columns, summaries, squares, line)
    monkeypatch.setitem(registry.EXPERIMENTS, "squares", small)
    return small


def test_the_table_and_the_figure_are_written(
    small: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["experiment", "squares", "--quick", "--seed", "4", "--output", str(tmp_path / "new"), "--json"]
    assert main(words) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["rows"] == [{"n": 0, "square": 4.0}, {"n": 1, "square": 5.0}]
    table, figure = map(Path, document["files"])
    with table.open() as file:
        assert list(csv.DictReader(file)) == [{"n": "0", "square": "4.0"}, {"n": "1", "square": "5.0"}]
    assert figure.read_bytes().startswith(b"\x89PNG")
    before = figure.read_bytes(), table.read_bytes()
    main(words)
    assert (figure.read_bytes(), table.read_bytes()) == before


def test_without_quick_all_trials_run_and_their_mean_is_printed_while_the_file_has_each(
    small: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["experiment", "squares", "--output", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "6.000 ±2.950" in said
    assert "16.0" not in said
    assert len((tmp_path / "squares.csv").read_text().splitlines()) == 6


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=lambda each: each.name)
def test_what_is_summarised_are_columns_of_the_rows(experiment: Experiment) -> None:
    assert experiment.summaries
    for summary in experiment.summaries:
        assert summary.columns() <= experiment.columns.keys()
