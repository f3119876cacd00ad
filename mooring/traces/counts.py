"""Arrivals that were only counted: one number per bin, such as the World Cup site's requests per minute."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mooring.arrays import Floats, Ints
from mooring.errors import InputError
from mooring.traces.bounded import as_text, read_expanded
from mooring.traces.extracts import extract_path

MAX_BINS = 10_000_000

# Checked before numpy reads it, which would also take "now", "NaT" and years beyond counting.
INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2})?")
COUNT = re.compile(r"[0-9]{1,15}")


@dataclass(frozen=True)
class Counts:
    """Arrivals per bin, without holes: a bin that the file leaves out had no arrival."""

    start: str
    """ISO date and time of the first bin's beginning, in the trace's own time zone."""
    bin_s: float
    counts: Ints

    @property
    def rates(self) -> Floats:
        """Arrivals per second in each bin."""
        return self.counts / self.bin_s

    def between(self, first_bin: int, last_bin: int) -> Counts:
        """The bins from `first_bin` up to, not including, `last_bin`."""
        start = np.datetime64(self.start, "s") + np.timedelta64(int(first_bin * self.bin_s), "s")
        return Counts(str(start), self.bin_s, self.counts[first_bin:last_bin])


def read_counts(name_or_path: str | Path, bin_s: int = 60) -> Counts:
    """A CSV of `instant,count[,...]` lines (also .gz, .zst, .zip), one per bin, in order of time.

    >>> read_counts("worldcup98-extract").bin_s
    60
    """
    path = extract_path(name_or_path) or Path(name_or_path)
    instants, counts = _columns(path)
    try:
        seconds = np.array(instants, dtype="datetime64[s]").astype(np.int64)
    except ValueError as error:
        raise InputError(f"first column: {error}", file=path, remedy="write 1998-06-25 14:03:00") from None
    bins, off = np.divmod(seconds - seconds[0], bin_s)
    wrong = np.flatnonzero((off != 0) | (np.diff(bins, prepend=-1) <= 0))
    if wrong.size:
        raise InputError(
            f"{instants[wrong[0]]!r} is not a later multiple of {bin_s} s after the first",
            file=path,
            field=f"line {wrong[0] + 2}",
            remedy="sort the lines, keep one per bin",
        )
    if bins[-1] >= MAX_BINS:
        raise InputError(f"spans {bins[-1] + 1} bins, at most {MAX_BINS} are read", file=path)
    filled = np.zeros(bins[-1] + 1, dtype=np.int64)
    filled[bins] = counts
    return Counts(str(np.datetime64(int(seconds[0]), "s")), bin_s, filled)


def _columns(path: Path) -> tuple[list[str], list[int]]:
    rows = csv.reader(as_text(read_expanded(path), path))
    instants: list[str] = []
    counts: list[int] = []
    try:
        next(rows, None)
        for line, row in enumerate(rows, start=2):
            if len(row) < 2 or not INSTANT.fullmatch(row[0]) or not COUNT.fullmatch(row[1]):
                raise InputError(
                    f"found {','.join(row)[:60]!r}, expected an instant and a whole count",
                    file=path,
                    field=f"line {line}",
                    remedy="one line per bin: 1998-06-25 14:03:00,5120",
                )
            instants.append(row[0])
            counts.append(int(row[1]))
    except csv.Error as error:
        raise InputError(f"is not a CSV file: {error}", file=path) from None
    if not instants:
        raise InputError("holds no counts", file=path, remedy="a header, then one line per bin")
    return instants, counts
