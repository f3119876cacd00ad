"""Tables for people end at a page, and say what is left out."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import mooring
from mooring.cli.output.tables import MOST_ROWS, comparison_tables, headroom_table
from mooring.model.evaluation.metrics import HeadroomMetric, Room
from mooring.model.problem.problem import Problem


def shown(streams: int, *, all_streams: bool = False) -> list[str]:
    rooms = {f"s{k}": Room(None, None) if k % 5 == 0 else Room(10.0 - k / 100, "a") for k in range(streams)}
    console = Console(width=100, record=True, file=StringIO())
    console.print(headroom_table(HeadroomMetric(1.5, "a", rooms), all_streams=all_streams))
    return [line.strip() for line in console.export_text().splitlines() if line.strip(" ─")]


def test_the_streams_that_can_grow_least_are_shown_and_the_rest_is_counted() -> None:
    lines = shown(200)
    assert len(lines) == MOST_ROWS + 3
    assert any(line.startswith("s199 ") for line in lines)
    assert not any(line.startswith("s1 ") for line in lines)
    said = "160 more, 40 of them without limit 8.51 x or more --all shows them"
    assert " ".join(lines[-1].split()) == said


def test_all_streams_are_shown_if_asked_for_or_if_they_are_few() -> None:
    assert len(shown(200, all_streams=True)) == 202
    assert len(shown(30)) == 32
    assert not any("--all" in line for line in shown(30))


@pytest.mark.parametrize("width", [72, 100, 160])
def test_a_comparison_is_cut_off_at_no_width(width: int) -> None:
    problem = Problem.load(Path("examples/network_monitoring.yaml"))
    metrics = {name: mooring.plan(problem, name).metrics for name in ("rod", "llf")}
    console = Console(width=width, record=True, file=StringIO())
    for table in comparison_tables(metrics, dict.fromkeys(metrics, 0.1143), width):
        console.print(table)
    text = console.export_text()
    assert "…" not in text
    assert text.count("110 ms") == 2
    assert max(map(len, text.splitlines())) <= width
