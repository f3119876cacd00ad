"""A dataset is the same in however many parts it is named (no Spark needed)."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.spark.definitions.names import PipelineNames
from mooring.spark.definitions.sql_names import with_database, with_view_names

NAMES = PipelineNames(catalog="lake", database="sales")
KNOWN = ("orders", "silver.orders", "other.silver.orders")


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("orders", "orders"),
        ("Orders", "orders"),
        ("sales.orders", "orders"),
        ("`lake`.`sales`.`ORDERS`", "orders"),
        ("silver.orders", "silver.orders"),
        ("LAKE.silver.orders", "silver.orders"),
        ("other.silver.orders", "other.silver.orders"),
        ("other.sales.orders", None),
        ("bronze.orders", None),
    ],
)
def test_a_name_stands_for_one_dataset(written: str, key: str | None) -> None:
    assert NAMES.found(written, KNOWN) == key


def view_of(written: str) -> str | None:
    return NAMES.found(written, KNOWN)


@pytest.mark.parametrize(
    ("query", "sent"),
    [
        ("SELECT * FROM orders", "SELECT * FROM orders"),
        ("SELECT * FROM bronze.orders", "SELECT * FROM bronze.orders"),
        ("SELECT * FROM silver.orders", "SELECT * FROM `silver.orders` AS orders"),
        ("SELECT * FROM STREAM silver.orders s", "SELECT * FROM STREAM `silver.orders` s"),
        ("SELECT * FROM STREAM(silver.orders)", "SELECT * FROM STREAM(`silver.orders`) AS orders"),
        (
            "SELECT silver.orders.id FROM silver.orders WHERE orders.x > 1.5",
            "SELECT orders.id FROM `silver.orders` AS orders WHERE orders.x > 1.5",
        ),
        ("SELECT * FROM x, lake.silver.orders", "SELECT * FROM x, `silver.orders` AS orders"),
        ("SELECT silver.orders FROM t AS silver", "SELECT silver.orders FROM t AS silver"),
        ("SELECT 'silver.orders' FROM sales.orders AS o", "SELECT 'silver.orders' FROM `orders` AS o"),
    ],
)
def test_names_in_a_query_become_those_of_views_and_the_rest_stays(query: str, sent: str) -> None:
    assert with_view_names(query, view_of) == sent
    assert with_view_names(sent, view_of) == sent


def test_a_used_database_completes_the_names_of_its_datasets_alone() -> None:
    query = "WITH c AS (SELECT orders.id FROM STREAM orders) SELECT * FROM c JOIN other ON c.id = other.id"
    assert with_database(query, "silver", {"silver.orders"}.__contains__) == query.replace(
        "STREAM orders", "STREAM silver.orders"
    )
