"""Past rates of streams, read from the CSV file that a stream's `rates` names."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mooring.arrays import Floats
from mooring.errors import InputError

MAX_ROWS = 1_000_000


@dataclass(frozen=True, eq=False)
class RateHistory:
    """Rates of all streams at common instants; a stream without a history keeps its present rate."""

    rates: Floats
    """Samples x streams, tuples per second."""

    @property
    def peaks(self) -> Floats:
        return np.asarray(self.rates.max(axis=0))


def read_history_columns(path: Path, *, with_time: bool = False) -> dict[str, Floats]:
    """The columns of a history file: a header of names, then one row of rates per instant.

    A column `time_s` is allowed and left out unless asked for: often the samples only have to be taken
    together.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.reader(file)
            header = [cell.strip() for cell in next(rows, [])]
            if len(set(header)) != len(header) or not all(header):
                raise InputError(
                    "found a header with empty or repeated names", file=path, remedy="name every column once"
                )
            values = _read_rows(rows, header, path)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot be read: {error}", file=path) from None
    return {name: values[:, k] for k, name in enumerate(header) if with_time or name != "time_s"}


def _read_rows(rows: Iterable[list[str]], header: list[str], path: Path) -> Floats:
    values: list[list[float]] = []
    for line, row in enumerate(rows, start=2):
        if not row:
            continue
        if len(row) != len(header):
            raise InputError(f"found {len(row)} columns in line {line}, expected {len(header)}", file=path)
        if len(values) >= MAX_ROWS:
            raise InputError(f"found more than {MAX_ROWS} rows", file=path, remedy="use longer bins")
        try:
            numbers = [float(cell) for cell in row]
        except ValueError:
            raise InputError(f"found text in line {line}, expected numbers", file=path) from None
        if not all(math.isfinite(value) and value >= 0 for value in numbers):
            raise InputError(f"found a negative or not finite rate in line {line}", file=path)
        values.append(numbers)
    if not values:
        raise InputError(
            "found no rows", file=path, remedy="a header of stream names, then one row per instant"
        )
    return np.array(values)
