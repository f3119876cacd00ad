"""SQL definition files are taken apart without Spark: statements, their lines, and the tables they read."""

from __future__ import annotations

import pytest

pytest.importorskip("sqlglot", reason="the `spark` extra is not installed")

from mooring.errors import InputError
from mooring.spark.definitions.sql_definitions import (
    TableRead,
    keeps_state,
    normalised,
    parse_statements,
    tables_read,
)


def test_statements_keep_their_queries_and_lines() -> None:
    text = (
        "-- head; with a semicolon\nCREATE OR REFRESH STREAMING TABLE a (x INT) COMMENT 'as select'\n"
        "AS SELECT ';' AS x FROM STREAM b;\n\nCREATE TEMPORARY VIEW v AS (SELECT 1);\n"
        "CREATE FLOW f AS INSERT INTO db.t BY NAME\nSELECT 2"
    )
    table, view, flow = parse_statements(text, "x.sql")
    assert (table.kind, table.name, table.line) == ("table", "a", 2)
    assert table.query == "SELECT ';' AS x FROM STREAM b"
    assert (view.kind, view.query, view.line) == ("view", "(SELECT 1)", 5)
    assert (flow.kind, flow.name, flow.target, flow.query) == ("flow", "f", "db.t", "SELECT 2")


@pytest.mark.parametrize(
    ("query", "reads"),
    [
        ("SELECT * FROM STREAM a", [TableRead("a", True)]),
        ("SELECT * FROM STREAM(a) AS x JOIN b ON x.i = b.i", [TableRead("a", True), TableRead("b", False)]),
        ("WITH c AS (SELECT * FROM STREAM d.a) SELECT * FROM c", [TableRead("d.a", True)]),
        ("SELECT window(t, '1 minute'), count(*) FROM STREAM a GROUP BY 1", [TableRead("a", True)]),
        ("SELECT * FROM a, STREAM b", [TableRead("a", False), TableRead("b", True)]),
        ("SELECT 'STREAM a' FROM b", [TableRead("b", False)]),
        ("SELECT * FROM (SELECT * FROM STREAM a) z", [TableRead("a", True)]),
    ],
)
def test_tables_are_read_off_the_query(query: str, reads: list[TableRead]) -> None:
    assert sorted(tables_read(query), key=lambda read: read.name) == reads


def test_state_is_seen_in_grouping_joining_and_limiting_only() -> None:
    assert keeps_state("SELECT window(t, '1 minute'), count(*) FROM STREAM a GROUP BY window(t, '1 minute')")
    assert keeps_state("SELECT * FROM STREAM a JOIN STREAM b ON a.i = b.i")
    assert keeps_state("SELECT * FROM STREAM a LIMIT 5")
    assert not keeps_state("SELECT x + 1 FROM STREAM a WHERE x > 3")


def test_layout_and_comments_do_not_change_a_query() -> None:
    assert normalised("SELECT x -- why\nFROM   STREAM a") == normalised("select x from STREAM(a)")
    assert normalised("SELECT x FROM STREAM a") != normalised("SELECT y FROM STREAM a")


@pytest.mark.parametrize(
    "text", ["CREATE FLOW f AS SELECT 1", "CREATE TEMPORARY VIEW v", "INSERT INTO t SELECT 1"]
)
def test_anything_else_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(InputError, match=r"x\.sql:2"):
        parse_statements("\n" + text, "x.sql")


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("CREATE TABLE t (n INT)", "CREATE STREAMING TABLE name AS"),
        ("CREATE OR REPLACE TABLE t AS SELECT 1", "CREATE MATERIALIZED VIEW"),
        ("INSERT INTO t SELECT 1", "CREATE FLOW name AS INSERT INTO"),
        ("USE CATALOG lake", "put the catalog into the pipeline spec"),
        ("SET CATALOG lake", "put the catalog into the pipeline spec"),
        ("SHOW TABLES", "run other statements outside the pipeline"),
        ("CREATE DATABASE lake", "run other statements outside the pipeline"),
        ("SELECT 1", "CREATE TEMPORARY VIEW"),
        ("SET", "SET name = value"),
    ],
)
def test_what_defines_nothing_is_refused_with_what_to_write_instead(text: str, instead: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_statements(text, "x.sql")
    assert instead in str(refused.value)


def test_variables_come_from_the_spec_and_from_set_in_the_same_file() -> None:
    text = (
        "SET low = 3;\nSET spark.sql.ansi.enabled=false;\n"
        "CREATE STREAMING TABLE ${db}.t AS\nSELECT ${low} FROM STREAM ${x}"
    )
    (table,) = parse_statements(text, "x.sql", {"db": "silver", "low": "1"})
    assert (table.name, table.query, table.line) == ("silver.t", "SELECT 3 FROM STREAM ${x}", 3)
    assert table.settings == {"spark.sql.ansi.enabled": "false"}


def test_use_says_where_the_tables_after_it_lie() -> None:
    text = (
        "CREATE STREAMING TABLE a;\nUSE SCHEMA silver;\nCREATE STREAMING TABLE b AS SELECT 1;\n"
        "CREATE TEMPORARY VIEW v AS SELECT 1;\nCREATE FLOW f AS INSERT INTO b SELECT 2;\n"
        "CREATE MATERIALIZED VIEW gold.c AS SELECT 1"
    )
    found = [(each.name, each.target, each.database) for each in parse_statements(text, "x.sql")]
    assert found == [
        ("a", "a", ""),
        ("silver.b", "silver.b", "silver"),
        ("v", "v", "silver"),
        ("f", "silver.b", "silver"),
        ("gold.c", "gold.c", "silver"),
    ]
