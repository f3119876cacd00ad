"""A format that Spark does not have is refused by name, with what to add; sinks say what they promise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.connect import AnalysisException, SparkConnectGrpcException

from mooring.errors import InputError, UnsupportedError
from mooring.spark.connectors.formats import (
    check_format,
    check_works,
    delivery_note,
    missing_format,
    remedy_for,
)

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


@dataclass
class Failing:
    """A site that fails with `said` whatever a format is asked."""

    said: PySparkException

    def range(self, rows: int) -> Failing:
        raise self.said


@pytest.mark.parametrize(
    ("name", "failure", "refused"),
    [
        ("iceberg", SparkConnectGrpcException('<x\n\tdetails = "Found interface CatalogManager"\n>'), True),
        ("iceberg", AnalysisException("[TABLE_OR_VIEW_NOT_FOUND] no such table"), False),
        ("delta", AnalysisException("[DELTA_CONFIGURE_SPARK_SESSION] Found interface CatalogManager"), True),
        ("kafka", AnalysisException("never asked"), False),
    ],
)
def test_a_connector_made_for_another_spark_is_refused_with_what_it_says(
    name: str, failure: PySparkException, refused: bool
) -> None:
    session: Any = Failing(failure)
    if not refused:
        check_works(session, name, "/scratch", "the sink 'out'", "out.py:3")
        return
    with pytest.raises(UnsupportedError, match=r"cannot use: .*Found interface CatalogManager") as found:
        check_works(session, name, "/scratch", "the sink 'out'", "out.py:3")
    assert "is made for Spark" in (found.value.remedy or "")
