"""A table of results reads the same where it is rendered and where it is not, and loses nothing."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from mooring.cli.output.result_table import ResultTable, decimals_of, texts_of
from mooring.cli.output.tables import result_table

ROWS: list[dict[str, str | float | bool]] = [
    {"policy": "relaxation, estimated, 25 probes", "usage_penalty": 0.0071, "held": True},
    {"policy": "random [bold]", "usage_penalty": 0.83, "queries": 12_000},
]


def test_every_line_of_a_markdown_table_is_as_long_as_the_next() -> None:
    lines = ResultTable.of("", ROWS).markdown()
    assert len({len(line) for line in lines}) == 1
    assert lines[0] == "| policy                           | usage penalty | held | queries |"
    assert lines[2].endswith("|         0.007 |  yes |         |")


def test_numbers_show_three_or_four_digits_and_thousands_apart() -> None:
    assert texts_of([123456.7, None]) == ["123,457", ""]
    assert texts_of([0.0012, -0.5]) == ["0.001", "-0.500"]
    assert texts_of([0.000012, -0.5]) == ["0.0000120", "-0.500"]
    assert texts_of([0.00012]) == ["0.000120"]
    assert texts_of([5, 7]) == ["5", "7"]
    assert decimals_of([float("inf"), 0.0]) == 0


@pytest.mark.parametrize("width", [40, 60, 100])
def test_a_terminal_that_is_too_narrow_folds_the_cells_and_cuts_nothing_off(width: int) -> None:
    out = io.StringIO()
    Console(file=out, width=width).print(result_table(ResultTable.of("Title", ROWS)))
    said = out.getvalue()
    assert "…" not in said
    assert all(len(line) <= width for line in said.splitlines())
    letters = "".join(said.split())
    assert all(word in letters for word in ("probes", "0.830", "12,000", "[bold]"))
