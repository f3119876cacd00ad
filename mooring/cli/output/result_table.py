"""A table of results as text: what a command prints and what a record in docs/results/ keeps are the same."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = str | int | float | bool | None
MOST_BESIDE = 1e4
"""Numbers farther apart than this factor have decimals of their own."""
NOTHING = ""
"""What stands for a value that is missing or not a number."""


@dataclass(frozen=True)
class ResultTable:
    """Headings over cells, all of them text already."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    is_text: tuple[bool, ...]
    """Per column: words, which begin at its left; numbers end at its right."""

    @classmethod
    def of(cls, title: str, rows: Sequence[Mapping[str, Value]]) -> ResultTable:
        """From rows whose keys are the headings; a key that a row lacks leaves its cell empty.

        >>> table = ResultTable.of("Speeds", [{"case": "small", "rows_per_s": 1234.5}, {"case": "none"}])
        >>> print("\\n".join(table.markdown()))
        | case  | rows per s |
        | :---- | ---------: |
        | small |      1,234 |
        | none  |            |
        """
        names = list(dict.fromkeys(name for row in rows for name in row))
        columns = [[row.get(name) for row in rows] for name in names]
        return cls(
            title,
            tuple(name.replace("_", " ") for name in names),
            tuple(zip(*map(texts_of, columns), strict=True)),
            tuple(any(isinstance(value, str) for value in column) for column in columns),
        )

    def markdown(self) -> list[str]:
        """Lines of a Markdown table whose columns also line up where nobody renders it."""
        rules = [
            ":" + "-" * (width - 1) if text else "-" * (width - 1) + ":" for width, text in self._columns
        ]
        return [self._line(self.headings), self._line(rules), *map(self._line, self.rows)]

    @property
    def _columns(self) -> list[tuple[int, bool]]:
        widths = [max(2, *map(len, cells)) for cells in zip(self.headings, *self.rows, strict=True)]
        return list(zip(widths, self.is_text, strict=True))

    def _line(self, cells: Iterable[str]) -> str:
        padded = (
            cell.ljust(width) if text else cell.rjust(width)
            for cell, (width, text) in zip(cells, self._columns, strict=True)
        )
        return f"| {' | '.join(padded)} |"


def texts_of(column: Sequence[Value]) -> list[str]:
    """The cells of a column: its numbers with as many decimals, unless that would hide the small ones.

    >>> texts_of([0.5, 12, float("nan")]), texts_of([3, True, "x"]), texts_of([0.031, 2400.0])
    (['0.500', '12.000', ''], ['3', 'yes', 'x'], ['0.0310', '2,400'])
    """
    numbers = [abs(v) for v in column if isinstance(v, float) and math.isfinite(v) and v != 0.0]
    if numbers and max(numbers) / min(numbers) > MOST_BESIDE:
        return [_text(v, decimals_of([v]) if isinstance(v, float) else 0) for v in column]
    decimals = decimals_of(numbers)
    return [_text(v, decimals) for v in column]


def decimals_of(values: Iterable[float]) -> int:
    """So many that the largest value shows three or four digits.

    >>> decimals_of([0.25, 3.0]), decimals_of([31.0]), decimals_of([4000.0]), decimals_of([0.0025])
    (3, 2, 0, 5)
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if largest == 0.0:
        return 0
    digits = math.floor(math.log10(largest)) + 1
    return max((4 if largest >= 1.0 else 3) - digits, 0)


def number_text(value: float, decimals: int) -> str:
    return f"{value:,.{decimals}f}"


def _text(value: Value, decimals: int) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    return NOTHING if value is None or math.isnan(value) else number_text(value, decimals)
