"""A merged file has the rows of its files, in order, with the same types (no Spark needed)."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

import pyarrow as pa
import pyarrow.parquet as pq

from mooring.spark.storage.compacted_file import Unmergeable, write_merged

TYPES = {
    "flag": pa.array([True, None, False]),
    "small": pa.array([1, -2, None], pa.int8()),
    "whole": pa.array([2**62, None, -1]),
    "real": pa.array([0.5, float("nan"), None]),
    "text": pa.array(["a", None, "ü" * 300]),
    "raw": pa.array([b"\x00", None, b""]),
    "day": pa.array([date(1, 1, 1), None, date(9999, 12, 31)]),
    "price": pa.array([Decimal("1.25"), None, Decimal("-9999.99")], pa.decimal128(6, 2)),
    "large": pa.array([Decimal(10) ** 20, None, Decimal(0)], pa.decimal128(38, 4)),
    "list": pa.array([[1, None], None, []], pa.list_(pa.int64())),
    "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}]),
}
INSTANTS = [datetime(1, 1, 1), None, datetime(9999, 12, 31, 23, 59, 59, 999999)]


@pytest.mark.parametrize("old", [True, False], ids=["INT96", "microseconds"])
def test_rows_types_and_what_spark_noted_are_kept(tmp_path: Path, old: bool) -> None:
    zone = None if old else "UTC"
    instants = [at if at is None or old else at.replace(tzinfo=UTC) for at in INSTANTS]
    table = pa.table({**TYPES, "at": pa.array(instants, pa.timestamp("us", zone))})
    files = []
    for number in range(4):
        files.append(tmp_path / f"part-{number}")
        with pq.ParquetWriter(
            files[-1],
            table.schema,
            use_deprecated_int96_timestamps=old,
            store_schema=False,
            store_decimal_as_integer=True,
        ) as writer:
            writer.write_table(table.slice(number % 3))
            writer.add_key_value_metadata({"org.apache.spark.version": "4.3.0"})
    assert write_merged(files, tmp_path / "merged") == 4
    merged = pq.ParquetFile(tmp_path / "merged", coerce_int96_timestamp_unit="us")
    first = pq.ParquetFile(files[0], coerce_int96_timestamp_unit="us")
    assert merged.schema.equals(first.schema)
    assert merged.metadata.metadata == first.metadata.metadata
    rows = [pq.ParquetFile(file, coerce_int96_timestamp_unit="us").read() for file in files]
    # As text, since a NaN is not equal to itself.
    assert str(merged.read().to_pylist()) == str(pa.concat_tables(rows).to_pylist())


def test_files_are_merged_as_far_as_they_are_alike(tmp_path: Path) -> None:
    for number, column in enumerate(["a", "a", "b"]):
        pq.write_table(pa.table({column: [number]}), tmp_path / f"part-{number}")
    assert write_merged([tmp_path / f"part-{number}" for number in range(3)], tmp_path / "merged") == 2
    assert pq.read_table(tmp_path / "merged")["a"].to_pylist() == [0, 1]


def test_what_cannot_be_written_as_it_is_is_refused(tmp_path: Path) -> None:
    files = [tmp_path / "part-0", tmp_path / "part-1"]
    for file in files:
        pq.write_table(pa.table({"list": [[1]]}), file, use_compliant_nested_type=False, store_schema=False)
    with pytest.raises(Unmergeable, match="part-0"):
        write_merged(files, tmp_path / "merged")
