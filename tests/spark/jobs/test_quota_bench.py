"""The delay operator does what its name says: a row goes through as many steps as were asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from lab.quota_bench.workload import delay_expression

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def folded(n: int, steps: int) -> int:
    for step in range(1, steps + 1):
        n = (n * 31 + step) % 1_000_003
    return n


@pytest.mark.parametrize("steps", [1, 2, 20_000])
def test_every_row_goes_through_every_step_of_its_delay(session: SparkSession, steps: int) -> None:
    """How much CPU that takes is in lab/benchmarks/spark_delays.py."""
    rows = session.range(0, 50, 1, 1).selectExpr("id as n").selectExpr("n", f"{delay_expression(steps)} as d")
    assert [row.d for row in rows.collect()] == [folded(n, steps) for n in range(50)]
    # Neither done once for all rows beforehand, nor carried as a list of its steps.
    plan = rows._explain_string(mode="simple")
    assert "aggregate(sequence(" in plan
    assert len(plan) < 2_000
