"""Sample rows fed to a profiled fragment in batches of chosen sizes, for as long as they are asked for.

A sample is replayed over and over. Each time around, its timestamps are moved on by the length of the sample:
otherwise a watermark would drop every row after the first round as late, and windows would never close.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.compute
import pyarrow.parquet

_LOG_VERSION = "v1"
_COMPACT_EVERY = 10
"""Spark's file sink compacts its log every so many batches, and its readers count on it."""

Publish = Callable[[], None]
"""Shows a fragment what was written for it."""


@dataclass
class EndlessSample:
    """One input's sample, endless. `span_us`: what a round moves its timestamps on by."""

    table: pyarrow.Table
    span_us: int
    position: int = 0

    def take(self, rows: int) -> pyarrow.Table:
        """The next rows."""
        parts = []
        while rows > 0:
            around, start = divmod(self.position, self.table.num_rows)
            piece = self.table.slice(start, rows)
            parts.append(_moved(piece, around * self.span_us))
            self.position += piece.num_rows
            rows -= piece.num_rows
        return pyarrow.concat_tables(parts) if parts else self.table.slice(0, 0)


def replays(samples: Sequence[pyarrow.Table]) -> list[EndlessSample]:
    """Samples that are read together keep their clocks in step: all move on by the longest one's span."""
    ordered = [_in_time_order(table) for table in samples]
    span_us = max((_span_us(table) for table in ordered), default=0)
    return [EndlessSample(table, span_us) for table in ordered]


def shares_of(samples: Sequence[pyarrow.Table], rows: int) -> list[int]:
    """How many of `rows` come from each sample, in proportion to their lengths, at least one each."""
    total = sum(table.num_rows for table in samples)
    return [max(1, round(rows * table.num_rows / total)) for table in samples]


def _timestamps(table: pyarrow.Table) -> list[str]:
    return [column.name for column in table.schema if pyarrow.types.is_timestamp(column.type)]


def _in_time_order(table: pyarrow.Table) -> pyarrow.Table:
    """By the first timestamp, and all timestamps in microseconds, which is what Spark knows."""
    columns = _timestamps(table)
    for name in columns:
        at = table.schema.get_field_index(name)
        kind = pyarrow.timestamp("us", tz="UTC")
        table = table.set_column(at, name, _as_us(table[name], kind))
    return table.sort_by(columns[0]) if columns else table


def _as_us(column: Any, kind: Any) -> Any:
    if column.type.tz is None:
        column = pyarrow.compute.assume_timezone(column, "UTC")
    return column.cast(kind, safe=False)


def _span_us(table: pyarrow.Table) -> int:
    """From the first row to the last, plus the mean distance of two rows."""
    columns = _timestamps(table)
    if not columns or table.num_rows == 0:
        return 0
    least_most = pyarrow.compute.min_max(table[columns[0]].cast("int64"))
    span = int(least_most["max"].as_py() or 0) - int(least_most["min"].as_py() or 0)
    return span + max(1, span // max(1, table.num_rows - 1))


def _moved(table: pyarrow.Table, by_us: int) -> pyarrow.Table:
    for name in _timestamps(table) if by_us else ():
        at, column = table.schema.get_field_index(name), table[name]
        moved = pyarrow.compute.add(column.cast("int64"), by_us).cast(column.type)
        table = table.set_column(at, name, moved)
    return table


class FedChannel:
    """Writes files into a channel's folder exactly as Spark's file sink would: data first, then its log."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "_spark_metadata"
        self._entries: list[str] = []
        self._batch = 0
        self._log.mkdir(parents=True, exist_ok=True)

    def write(self, table: pyarrow.Table) -> Publish:
        file = self._folder / f"part-00000-{self._batch:08d}.snappy.parquet"
        # As Spark writes timestamps unless told otherwise.
        pyarrow.parquet.write_table(table, file, use_deprecated_int96_timestamps=True)
        entry = {
            "path": file.as_uri(),
            "size": file.stat().st_size,
            "isDir": False,
            "modificationTime": int(1000 * file.stat().st_mtime),
            "blockReplication": 1,
            "blockSize": 33554432,
            "action": "add",
        }
        self._entries.append(json.dumps(entry))
        compact = (self._batch + 1) % _COMPACT_EVERY == 0
        lines = self._entries if compact else self._entries[-1:]
        publish = _hidden_log(self._log / f"{self._batch}{'.compact' if compact else ''}", lines)
        self._batch += 1
        return publish


class FedFolder:
    """A folder that a file source lists: files of its own format, so many per batch.

    Their number stays the same whatever the size of the batch: more rows per second mean larger files.
    """

    def __init__(self, folder: Path, kind: str = "parquet", files: int = 1) -> None:
        self.folder = folder
        self.files = files
        self._write = WRITERS[kind]
        self._written = 0
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, table: pyarrow.Table) -> Publish:
        step = -(-table.num_rows // max(1, self.files)) or 1
        hidden = []
        for start in range(0, max(1, table.num_rows), step):
            file = self.folder / f".{self._written:08d}"
            self._write(table.slice(start, step), file)
            hidden.append(file)
            self._written += 1

        def publish() -> None:
            for file in hidden:
                os.replace(file, file.with_name(file.name[1:]))

        return publish


def publish_together(targets: Sequence[FedChannel | FedFolder], tables: Sequence[pyarrow.Table]) -> None:
    """Rows for all inputs of a batch: written first and shown then, or a trigger between two of them would
    take some now and the others with the next batch.
    """
    written = [target.write(table) for target, table in zip(targets, tables, strict=True)]
    for publish in written:
        publish()


def _write_json(table: pyarrow.Table, file: Path) -> None:
    with file.open("w", encoding="utf-8") as out:
        for row in table.to_pylist():
            out.write(json.dumps(row, default=_json_value) + "\n")


def _json_value(value: Any) -> str:
    return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)


def _write_text(table: pyarrow.Table, file: Path) -> None:
    file.write_text("".join(f"{value}\n" for value in table.column(0).to_pylist()), encoding="utf-8")


WRITERS: dict[str, Callable[[pyarrow.Table, Path], object]] = {
    "parquet": pyarrow.parquet.write_table,
    "json": _write_json,
    "text": _write_text,
}
"""Formats of sources whose files we can write as the user's do; other sources are stood in for by parquet."""


def _hidden_log(file: Path, lines: Iterable[str]) -> Publish:
    hidden = file.with_name(f".{file.name}.new")
    hidden.write_text("\n".join([_LOG_VERSION, *lines]))
    return lambda: os.replace(hidden, file)
