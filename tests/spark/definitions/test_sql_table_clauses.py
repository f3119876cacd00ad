"""What SQL says of a table before its query is read as Python's arguments are."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import InputError
from mooring.spark.definitions.sql_definitions import parse_statements
from mooring.spark.definitions.table_arguments import NOTHING_SAID, TableArguments

ALL = """\
CREATE STREAMING TABLE IF NOT EXISTS x (a INT COMMENT 'first, of two', b DECIMAL(10, 2))
USING ORC PARTITIONED BY (`b`) CLUSTER BY (a, c.d) COMMENT 'about x'
TBLPROPERTIES ('k.l' = 'v', m.n = 1)
"""
SAID = TableArguments(
    schema="a INT COMMENT 'first, of two', b DECIMAL(10, 2)",
    format="orc",
    partition_cols=("b",),
    cluster_by=("a", "c.d"),
    properties={"k.l": "v", "m.n": "1"},
    comment="about x",
)


@pytest.mark.parametrize("query", ["", "AS SELECT * FROM STREAM y"])
def test_all_clauses_are_read_with_and_without_a_query(query: str) -> None:
    (statement,) = parse_statements(ALL + query, "x.sql")
    assert statement.arguments == SAID
    assert (statement.query or "") == query.removeprefix("AS ")


def test_a_table_without_clauses_says_nothing() -> None:
    statements = parse_statements("CREATE STREAMING TABLE x; CREATE VIEW v (a) AS SELECT 1", "x.sql")
    assert [statement.arguments for statement in statements] == [NOTHING_SAID, NOTHING_SAID]


@pytest.mark.parametrize(
    ("clauses", "said"),
    [
        ("LOCATION '/data'", "LOCATION"),
        ("USING", "middle of a clause"),
        ("PARTITIONED BY (a", "middle of a clause"),
        ("TBLPROPERTIES", "middle of a clause"),
    ],
)
def test_other_clauses_are_refused_with_their_line(clauses: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as refusal:
        parse_statements(f"\nCREATE STREAMING TABLE x {clauses}", "x.sql")
    assert "x.sql:2" in str(refusal.value)
