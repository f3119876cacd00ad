"""The options of `mooring profile`, without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mooring.errors import InputError

ROW = 3
"""Batches of one size in a row; the first of them is left out (profiling.py)."""
BATCHES = 6
"""Per fragment and pass after warming up, of which two thirds count."""
PASSES = 7


@dataclass(frozen=True)
class ProfileOptions:
    batches: int = BATCHES
    passes: int = PASSES
    """Over all fragments (decision 0022)."""
    warm_up: int = 6
    """Least batches before measuring; more follow until batches stop getting cheaper."""
    most_warm_up: int = 24
    first_warm_up: int = 40
    """The same for the first fragment, which also warms up what all have in common."""
    warm_up_again: int = 2
    """The same from the second pass on: the code is compiled, the query is new."""
    largest_rows: int = 2_000_000
    """Rows of the largest batch at most: what a small heap holds comfortably."""
    sample: Path | None = None
    """Folder with a folder of files per source dataset; None: the sources' own files."""

    def __post_init__(self) -> None:
        if self.batches < 2 * ROW:
            raise InputError(
                f"found {self.batches} batches, expected at least {2 * ROW} to fit a line", field="--batches"
            )
