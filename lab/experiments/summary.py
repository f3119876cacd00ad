"""What the rows of an experiment say together: means with their standard errors, the paper's figures beside.

An experiment declares which rows belong together and which of their columns are averaged; its rows may be
trials, or means over trials already, which then bring their standard error and their count along.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Literal, TypeAlias

from lab.experiments.trials import Row
from mooring.cli.output.result_table import NOTHING, ResultTable, decimals_of, number_text

Key: TypeAlias = tuple[str | int | float, ...]
"""A group: the values of the columns that its rows agree in."""


@dataclass(frozen=True)
class Reference:
    """Figures that ours are held against."""

    whose: str
    """The heading: "paper", or "prototype" where an independent one has them and the paper prints none."""
    figures: Mapping[Key, float]
    """Per group; groups without one stay empty."""


@dataclass(frozen=True)
class Shown:
    """One column of the rows, put together over a group."""

    column: str
    heading: str = ""
    """The column's name unless given."""
    how: Literal["mean", "mean alone", "least", "largest"] = "mean"
    """A mean comes with its standard error, unless its rows depend on each other: "mean alone"."""
    error_column: str = ""
    """The standard error, where the rows are means already."""
    beside: Reference | None = None


@dataclass(frozen=True)
class Summary:
    """One table: a line per group of rows, a column per thing shown."""

    by: tuple[str, ...]
    """The columns that the rows of a group agree in."""
    shown: tuple[Shown, ...]
    title: str = ""
    where: Callable[[Row], bool] = field(default=lambda row: True)
    """The rows that count."""
    steps: Mapping[str, float] = field(default_factory=dict)
    """Columns of `by` whose values are grouped in steps of this width instead of one by one."""
    across: str = ""
    """A column whose values stand side by side instead of below each other; one thing is then shown."""
    counted: str = "trials"
    """Heading of how many rows a group has; where the rows are means, the column that says of how many.
    Empty: it goes without saying."""

    def __post_init__(self) -> None:
        if self.across and (len(self.shown) != 1 or self.shown[0].beside):
            raise ValueError("side by side only one thing can be shown, with no figures beside")

    def columns(self) -> set[str]:
        """All that the rows must have."""
        errors = {shown.error_column for shown in self.shown if shown.error_column}
        across = {self.across} if self.across else set()
        return {*self.by, *(shown.column for shown in self.shown)} | errors | across


def summarise(summary: Summary, rows: Sequence[Row]) -> ResultTable:
    """The table of these rows; groups stand in the order in which the rows first name them."""
    chosen = [row for row in rows if summary.where(row)]
    groups = _grouped(chosen, summary)
    columns = _side_by_side(groups, summary) if summary.across else _one_by_one(groups, summary)
    columns += _counts(groups, summary)
    lines = dict.fromkeys(key[: len(summary.by)] for key in groups)
    words = [
        name in summary.steps or any(isinstance(row[name], str) for row in chosen) for name in summary.by
    ]
    return ResultTable(
        summary.title,
        (*(name.replace("_", " ") for name in summary.by), *(heading for heading, _ in columns)),
        tuple((*map(_label, line), *(cells.get(line, NOTHING) for _, cells in columns)) for line in lines),
        (*words, *(False for _ in columns)),
    )


def _grouped(rows: Sequence[Row], summary: Summary) -> dict[Key, list[Row]]:
    """Rows by the values of `by`, and of `across` at the end; steps are named by their ends, in order."""
    names = (*summary.by, summary.across) if summary.across else summary.by

    def step(row: Row, name: str) -> int:
        return math.floor(float(row[name]) / summary.steps[name])

    def group(row: Row, name: str) -> str | int | float:
        if name not in summary.steps:
            return row[name]
        return " to ".join(f"{(step(row, name) + end) * summary.steps[name]:g}" for end in (0, 1))

    groups: dict[Key, list[Row]] = {}
    for row in sorted(rows, key=lambda row: [step(row, name) for name in summary.steps]):
        groups.setdefault(tuple(group(row, name) for name in names), []).append(row)
    return groups


Column: TypeAlias = tuple[str, dict[Key, str]]
"""A heading, and the cell of every line."""


def _one_by_one(groups: Mapping[Key, list[Row]], summary: Summary) -> list[Column]:
    columns: list[Column] = []
    for shown in summary.shown:
        columns.append((shown.heading or shown.column.replace("_", " "), _cells(shown, groups)))
        if shown.beside:
            columns.append((shown.beside.whose, _figures(shown.beside.figures)))
    return columns


def _side_by_side(groups: Mapping[Key, list[Row]], summary: Summary) -> list[Column]:
    """A column per value of `across`; lines are groups without it."""
    cells = _cells(summary.shown[0], groups)
    return [
        (_label(value), {key[:-1]: cell for key, cell in cells.items() if key[-1] == value})
        for value in dict.fromkeys(key[-1] for key in groups)
    ]


def _counts(groups: Mapping[Key, list[Row]], summary: Summary) -> list[Column]:
    if not summary.counted:
        return []
    counts = {
        key[: len(summary.by)]: number_text(int(rows[0].get(summary.counted, len(rows))), 0)
        for key, rows in groups.items()
    }
    return [(summary.counted, counts)]


def _cells(shown: Shown, groups: Mapping[Key, list[Row]]) -> dict[Key, str]:
    """One column's text per group, all with the same number of decimals: none where all are whole."""
    found = {key: _put_together(shown, rows) for key, rows in groups.items()}
    known = [(value, error) for value, error in found.values() if not math.isnan(value)]
    is_whole = all(error is None and value.is_integer() for value, error in known)
    decimals = 0 if is_whole else decimals_of(value for value, _ in known)
    return {key: _cell(value, error, decimals) for key, (value, error) in found.items()}


def _cell(value: float, error: float | None, decimals: int) -> str:
    if math.isnan(value):
        return NOTHING
    spread = "" if error is None else f" ±{number_text(error, decimals)}"
    return number_text(value, decimals) + spread


def _put_together(shown: Shown, rows: Sequence[Row]) -> tuple[float, float | None]:
    """The value of a group, and its standard error where it has one. What is not a number is left out."""
    values = [float(row[shown.column]) for row in rows if math.isfinite(float(row[shown.column]))]
    if not values:
        return math.nan, None
    if shown.how in ("least", "largest"):
        return (min if shown.how == "least" else max)(values), None
    if shown.error_column:
        (row,) = rows  # a mean already
        return values[0], float(row[shown.error_column])
    has_error = shown.how == "mean" and len(values) > 1
    return fmean(values), stdev(values) / len(values) ** 0.5 if has_error else None


def _figures(figures: Mapping[Key, float]) -> dict[Key, str]:
    decimals = max((len(f"{value:g}".partition(".")[2]) for value in figures.values()), default=0)
    return {key: number_text(value, decimals) for key, value in figures.items()}


def _label(value: str | int | float) -> str:
    return value if isinstance(value, str) else number_text(value, 0) if value == int(value) else f"{value:g}"
