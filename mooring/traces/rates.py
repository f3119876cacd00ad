"""Rates of streams over time: counted from arrivals, described by a few numbers, kept as CSV.

The CSV has a header `time_s,<stream>,<stream>...` and one line per bin: the second at which the bin begins,
then each stream's rate in tuples per second. Problem files take it as a stream's history (`rates:
history.csv`).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mooring.arrays import Floats
from mooring.errors import InputError
from mooring.traces.bounded import as_text, read_expanded
from mooring.traces.packets import checked_instants

_MOST_BINS = 50_000_000


@dataclass(frozen=True)
class RateTable:
    """Rates in tuples per second, a row per bin and a column per stream; bins are equally long."""

    time_s: Floats
    """When each bin begins."""
    streams: tuple[str, ...]
    rates: Floats

    def mean(self) -> Floats:
        return np.asarray(self.rates.mean(axis=0))

    def deviation(self) -> Floats:
        """Standard deviation of each stream's rate."""
        return np.asarray(self.rates.std(axis=0))

    def correlation(self) -> Floats:
        """Correlation matrix of the rates; a stream that never changes is correlated with itself alone."""
        centred = self.rates - self.mean()
        scale = np.sqrt((centred**2).sum(axis=0))
        changing = scale > 0
        unit = np.where(changing, centred / np.where(changing, scale, 1.0), 0.0)
        correlation = np.clip(unit.T @ unit, -1.0, 1.0)
        np.fill_diagonal(correlation, 1.0)
        return np.asarray(correlation)


def rate_series(instants_s: Floats, bin_s: float, span_s: float | None = None) -> Floats:
    """Arrivals per second in the whole bins of [0, span_s); by default the whole bins up to the last arrival.

    >>> rate_series(np.array([0.0, 0.5, 1.2, 4.0]), bin_s=2.0)
    array([1.5, 0. ])
    """
    instants_s = checked_instants(instants_s)
    if not 0 < bin_s < np.inf:
        raise InputError(f"is {bin_s}, expected a positive number of seconds", field="bin_s")
    if instants_s.size and instants_s[0] < 0:
        raise InputError(
            f"the first arrival is at {instants_s[0]} s", field="instants_s", remedy="begin at 0"
        )
    until_s = span_s if span_s is not None else (instants_s[-1] if instants_s.size else 0.0)
    # A span of a whole number of bins must not lose one to rounding.
    bins = int(until_s / bin_s + 1e-9)
    if bins > _MOST_BINS:
        raise InputError(f"the trace has too many bins ({bins})", field="bin_s", remedy="take a longer bin")
    within = instants_s[: np.searchsorted(instants_s, bins * bin_s)]
    at = np.minimum((within / bin_s).astype(np.int64), max(bins - 1, 0))
    return np.bincount(at, minlength=bins)[:bins] / bin_s


def rate_table(arrivals: Mapping[str, Floats], bin_s: float, span_s: float | None = None) -> RateTable:
    """The rates of several streams over the same bins; by default up to the last arrival of any."""
    if span_s is None:
        span_s = max(
            (float(instants_s[-1]) for instants_s in arrivals.values() if instants_s.size), default=0.0
        )
    columns = [rate_series(instants_s, bin_s, span_s) for instants_s in arrivals.values()]
    bins = columns[0].size if columns else 0
    rates = np.column_stack(columns) if columns else np.zeros((0, 0))
    return RateTable(np.arange(bins, dtype=np.float64) * bin_s, tuple(arrivals), rates)


def write_rates(path: Path, table: RateTable) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["time_s", *table.streams])
        for time_s, row in zip(table.time_s.tolist(), table.rates.tolist(), strict=True):
            writer.writerow([f"{time_s:.9g}", *(f"{rate:.9g}" for rate in row)])


def read_rates(path: Path) -> RateTable:
    """A table that `write_rates` wrote or that follows its form; says which line is wrong."""
    try:
        rows = list(csv.reader(as_text(read_expanded(path), path)))
    except csv.Error as error:
        raise InputError(f"is no CSV: {error}", file=path, remedy="time_s,<stream>,... per line") from None
    if not rows or len(rows[0]) < 2 or rows[0][0] != "time_s":
        raise InputError("the header must be time_s,<stream>,...", file=path, field="line 1")
    streams = tuple(rows[0][1:])
    if len(set(streams)) < len(streams):
        raise InputError("a stream is named twice", file=path, field="line 1", remedy="name each stream once")
    values = np.array(
        [_numbers(row, len(streams) + 1, line, path) for line, row in enumerate(rows[1:], start=2)]
    )
    if values.size == 0:
        raise InputError("holds no rates", file=path, remedy="one line per bin after the header")
    _check_bins(values[:, 0], path)
    return RateTable(values[:, 0], streams, values[:, 1:])


def _numbers(row: list[str], expected: int, line: int, path: Path) -> list[float]:
    try:
        values = [float(cell) for cell in row]
    except ValueError as error:
        raise InputError(str(error), file=path, field=f"line {line}") from None
    if len(values) != expected:
        raise InputError(f"has {len(values)} cells, expected {expected}", file=path, field=f"line {line}")
    if not all(np.isfinite(values)) or min(values[1:]) < 0:
        raise InputError(
            "rates must be finite numbers, zero or more, in tuples per second",
            file=path,
            field=f"line {line}",
        )
    return values


def _check_bins(time_s: Floats, path: Path) -> None:
    if time_s.size < 2:
        return
    steps = np.diff(time_s)
    wrong = np.flatnonzero(
        (steps <= 0) | (np.abs(steps - steps[0]) > 1e-6 * max(1.0, float(np.abs(time_s).max())))
    )
    if wrong.size:
        raise InputError(
            f"the bin lasts {steps[wrong[0]]:g} s, the first {steps[0]:g} s",
            file=path,
            field=f"line {wrong[0] + 2}",
            remedy="bins must be in order and equally long",
        )
