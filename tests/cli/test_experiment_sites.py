"""Experiments that drive sites of their own say so, and end with what their rows mean."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from lab.experiments import registry
from lab.experiments.experiment import Experiment
from lab.experiments.summary import Shown, Summary
from lab.experiments.trials import Row
from mooring.cli.main import main
from mooring.progress import Report

pytest.importorskip("pyspark")


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    report(0.5, "half of it")
    return [{"n": seed}]


def draw(rows: Sequence[Row]) -> Figure:
    return Figure()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Experiment(
        *("sited", "On sites", "nowhere", {"n": "a number"}, (Summary((), (Shown("n"),)),), run, draw),
        conclude=lambda rows: [f"The number is {rows[0]['n']}."],
        drives_sites=True,
    )
    monkeypatch.setitem(registry.EXPERIMENTS, "sited", made)


def test_the_conclusion_is_printed_and_progress_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["experiment", "sited", "--seed", "7", "--output", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "The number is 7." in said.out
    assert "50% half of it" in said.err


def test_on_spark_is_answered_with_a_remark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "sited", "--on", "spark", "--json", "--output", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["conclusion"] == ["The number is 0."]
    assert "--on spark changes nothing" in said.err
