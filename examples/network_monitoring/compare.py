"""Holds what the pipeline delivered against the truth, row by row."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow
from truth import Row, Rows

from mooring.spark.runs.results import read_stored

KEYS = {
    "source_seconds": ("source",),
    "busy_sources": ("source",),
    "pair_seconds": ("source", "destination"),
    "source_sliding": ("source",),
    "source_minutes": ("source",),
    "pair_minutes": ("source", "destination"),
    "totals": (),
}


@dataclass(frozen=True)
class Verdict:
    query: str
    delivered: int
    missing: int
    extra: int
    """Rows that are wrong or there twice."""

    @property
    def exact(self) -> bool:
        return self.missing == 0 and self.extra == 0


def delivered_rows(storage: Path, query: str) -> Counter[Row]:
    return counted_rows(read_stored(storage, query), query)


def counted_rows(table: pyarrow.Table, query: str) -> Counter[Row]:
    """Rows as (window start in microseconds, keys..., packets, bytes); means must follow from these."""
    rows: Counter[Row] = Counter()
    if not table.num_rows:
        return rows
    columns = [table["since"].cast(pyarrow.timestamp("us")).cast("int64")]
    columns += [table[key] for key in KEYS[query]] + [table["packets"], table["bytes"]]
    for *row, mean in zip(*(c.to_pylist() for c in columns), table["mean_bytes"].to_pylist(), strict=True):
        if mean != row[-1] / row[-2]:
            raise AssertionError(f"{query}: mean {mean} of {row}")
        rows[tuple(row)] += 1
    return rows


def compare(storage: Path, expected: dict[str, Rows]) -> list[Verdict]:
    verdicts = []
    for query, truth in expected.items():
        verdicts.append(verdict_on(query, delivered_rows(storage, query), truth))
    return verdicts


def verdict_on(query: str, found: Counter[Row], truth: Rows) -> Verdict:
    extra = sum(found.values()) - len(truth & found.keys())
    return Verdict(query, sum(found.values()), len(truth - found.keys()), extra)
