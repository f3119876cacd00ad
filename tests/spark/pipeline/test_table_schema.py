"""A table has the columns of all its flows, and those that are stated."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from pyspark.sql.types import LongType, StringType, StructType

from mooring.errors import InputError
from mooring.spark.pipeline.table_schema import checked_schema, merged_schema, stored_columns

N = StructType().add("n", LongType())
NAMED = StructType().add("N", LongType()).add("name", StringType())
TEXT = StructType().add("n", StringType())


def test_flows_may_have_different_columns_and_one_type_for_each() -> None:
    assert merged_schema(N, NAMED, "they", "f.py").fieldNames() == ["n", "name"]
    with pytest.raises(InputError, match="differ in the column 'n': bigint and string"):
        merged_schema(N, TEXT, "they", "f.py")


def test_stated_columns_may_be_more_and_not_others() -> None:
    assert checked_schema(NAMED, N, "t", "f.py") == NAMED
    with pytest.raises(InputError, match="name string is not stated"):
        checked_schema(N, NAMED, "t", "f.py")
    with pytest.raises(InputError, match="n string is stated, the flows write n bigint"):
        checked_schema(TEXT, N, "t", "f.py")


def test_what_names_folders_is_read_last() -> None:
    assert stored_columns(NAMED, ["n"]).fieldNames() == ["name", "N"]
