"""Many small files of a table as one larger file: the same rows, in the same order, of the same types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow
import pyarrow.parquet

from mooring.disk import DISK, Disk

_ROWS_AT_ONCE = 200_000
"""Rows of one row group, and so about what is held in memory."""


class Unmergeable(Exception):
    """These files cannot be written anew as they are; says why."""


def write_merged(inputs: Sequence[Path], target: Path, disk: Disk = DISK) -> int:
    """Write the rows of the files, as far as they have one schema, into `target`; returns how many of the
    files it holds. On disk when this returns.
    """
    first = _open(inputs[0])
    types = [first.schema.column(i).physical_type for i in range(len(first.schema))]
    written = _Written()
    with pyarrow.parquet.ParquetWriter(
        target,
        first.schema_arrow,
        compression=_compression(first),
        store_schema=False,
        store_decimal_as_integer=True,
        use_deprecated_int96_timestamps="INT96" in types,
    ) as writer:
        for table in _row_groups(inputs, first, written):
            writer.write_table(table, row_group_size=max(1, table.num_rows))
        writer.add_key_value_metadata(first.metadata.metadata or {})
    made = _open(target)
    if made.metadata.num_rows != written.rows or not _alike(made, first):
        raise Unmergeable(f"{inputs[0]} has types that cannot be rewritten unchanged: {first.schema}")
    disk.sync([target])
    return written.files


@dataclass
class _Written:
    files: int = 0
    rows: int = 0


def _row_groups(
    inputs: Sequence[Path], first: pyarrow.parquet.ParquetFile, written: _Written
) -> Iterator[pyarrow.Table]:
    waiting: list[pyarrow.Table] = []
    for path in inputs:
        file = _open(path)
        if not _alike(file, first):
            break
        waiting.append(file.read(use_threads=False))
        written.files += 1
        written.rows += file.metadata.num_rows
        if sum(table.num_rows for table in waiting) >= _ROWS_AT_ONCE:
            yield pyarrow.concat_tables(waiting).combine_chunks()
            waiting = []
    if waiting:
        yield pyarrow.concat_tables(waiting).combine_chunks()


def _open(path: Path) -> pyarrow.parquet.ParquetFile:
    # Spark's old timestamps (INT96) have microseconds; nanoseconds would not reach beyond the year 2262.
    return pyarrow.parquet.ParquetFile(path, coerce_int96_timestamp_unit="us")


def _alike(one: pyarrow.parquet.ParquetFile, other: pyarrow.parquet.ParquetFile) -> bool:
    """Columns, how they are stored, and what Spark noted of them."""
    return bool(
        one.schema.equals(other.schema)
        and one.schema_arrow.equals(other.schema_arrow)
        and (one.metadata.metadata or {}) == (other.metadata.metadata or {})
    )


def _compression(file: pyarrow.parquet.ParquetFile) -> str:
    if file.metadata.num_row_groups == 0 or file.metadata.num_columns == 0:
        return "snappy"
    return str(file.metadata.row_group(0).column(0).compression).lower().replace("uncompressed", "none")
