"""A format that Spark does not have is refused by name, with what to add; sinks say what they promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from mooring.errors import InputError
from mooring.spark.connectors.formats import check_format, delivery_note, missing_format, remedy_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("name", ["kafka", "delta", "iceberg", "nosuch"])
def test_a_format_without_its_connector_is_refused_with_what_to_add(session: SparkSession, name: str) -> None:
    with pytest.raises(InputError) as found:
        check_format(session, name, "the sink 'out'", "transformations/out.py:3")
    assert f"the sink 'out' has the format {name!r}, which Spark cannot find" in found.value.message
    assert found.value.file == "transformations/out.py:3"
    assert "add its connector to mooring.yml" in (found.value.remedy or "")


def test_a_format_that_only_misses_its_options_is_there(session: SparkSession) -> None:
    for name in ("parquet", "rate", "jdbc", "socket", "console"):
        check_format(session, name, "the sink 'out'", "out.py")


def test_a_flow_that_reads_a_format_without_its_connector_says_what_to_add(session: SparkSession) -> None:
    with pytest.raises(PySparkException) as found:
        _ = session.readStream.format("kafka").option("subscribe", "x").load().schema
    assert missing_format(found.value) == "kafka"
    assert "spark-sql-kafka" in (remedy_for(found.value) or "")
    assert remedy_for("[PATH_NOT_FOUND] Path does not exist") is None


@pytest.mark.parametrize(
    ("name", "noted"), [("kafka", True), ("jdbc", True), ("parquet", False), ("console", False)]
)
def test_only_sinks_that_may_repeat_rows_are_noted(name: str, noted: bool) -> None:
    note = delivery_note("out", name)
    assert (note is not None) == noted
    assert note is None or "at least once" in note
