"""What is said of tables is honoured, or refused before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import InputError
from mooring.spark.definitions.table_arguments import NOTHING_SAID
from tests.spark.pipeline.test_pipeline import HEAD, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.conftest import ProjectMaker

FLOW = "def t():\n    return spark.readStream.table('numbers')"


def test_arguments_and_columns_are_part_of_the_pipeline(
    make_project: ProjectMaker, session: SparkSession
) -> None:
    folder = make_project(
        more_py=HEAD
        + """
@dp.table(schema="n LONG, at TIMESTAMP, more STRING", format="ORC", partition_cols=["n"], comment="c",
          table_properties={"k": "v"})
"""
        + FLOW,
        two_sql="""
        CREATE STREAMING TABLE both COMMENT 'of two flows';
        CREATE FLOW one AS INSERT INTO both BY NAME SELECT n FROM STREAM numbers;
        CREATE FLOW two AS INSERT INTO both BY NAME SELECT more FROM STREAM t;
        CREATE STREAMING TABLE after AS SELECT n, more FROM STREAM both;
        """,
    )
    pipeline = read(folder, session)
    table = pipeline.datasets["t"].arguments
    assert table.stored == "orc partitioned by n"
    assert (table.comment, table.properties) == ("c", {"k": "v"})
    assert pipeline.schemas["t"].fieldNames() == ["n", "at", "more"]
    assert pipeline.schemas["both"].fieldNames() == ["n", "more"]
    assert pipeline.datasets["numbers"].arguments == NOTHING_SAID
    assert pipeline.datasets["both"].arguments.comment == "of two flows"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (f"@dp.table(schema='n INT, at TIMESTAMP')\n{FLOW}", "n int is stated, the flows write n bigint"),
        (f"@dp.table(schema='n LONG')\n{FLOW}", "at timestamp is not stated"),
        (f"@dp.table(schema='n OF KIND')\n{FLOW}", "the columns of 't' cannot be read"),
        (f"@dp.table(format='parket')\n{FLOW}", "did you mean 'parquet'"),
        (f"@dp.table(format='avro')\n{FLOW}", "'avro', which Spark cannot find"),
        (f"@dp.table(format='delta')\n{FLOW}", "tested Delta Lake, 4.4.0, is made for Spark 4.2"),
        (f"@dp.table(partition_cols=['day'])\n{FLOW}", "'day', which is not one of"),
        (f"@dp.table(partition_cols=['n'], cluster_by=['at'])\n{FLOW}", "both partition_cols and cluster_by"),
        (f"@dp.table(partition_cols=['n', 'at'])\n{FLOW}", "by all of its columns"),
        (f"@dp.table\n{FLOW}.groupBy('n').count()", "cannot be written row by row"),
        (f"@dp.table\n{FLOW}.orderBy('n')", "Sorting is not supported"),
        (f"@dp.table(spark_conf={{'spark.sql.warehouse.dir': 'x'}})\n{FLOW}", "a session does not allow"),
    ],
)
def test_what_cannot_be_honoured_is_refused_with_its_line(
    make_project: ProjectMaker, session: SparkSession, code: str, said: str
) -> None:
    with pytest.raises(InputError) as refusal:
        read(make_project(bad_py=HEAD + code), session)
    assert said in str(refusal.value)
    assert "bad.py:4" in str(refusal.value)


def test_an_aggregate_in_sql_without_a_watermark_is_refused_with_what_to_do(
    make_project: ProjectMaker, session: SparkSession
) -> None:
    sql = "CREATE STREAMING TABLE t AS SELECT n, count(*) AS c FROM STREAM numbers GROUP BY n"
    with pytest.raises(InputError, match="without watermark") as refusal:
        read(make_project(bad_sql=sql), session)
    assert "materialized view" in (refusal.value.remedy or "")
