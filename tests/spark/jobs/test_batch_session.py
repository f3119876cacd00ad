"""Which masters are taken, and what is said about the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import InputError
from mooring.spark.jobs.batch_session import batch_session, check_master

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[2]",
        "local[*]",
        "local[2, 3]",
        "spark://host:7077",
        "yarn",
        "k8s://https://h",
        "sc://h:1",
    ],
)
def test_the_masters_of_spark_are_taken(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize(
    "master", ["", "locally", "local[x]", "host:7077", "sc://", "yarn-client", "http://h"]
)
def test_anything_else_is_refused_before_something_starts(master: str) -> None:
    with pytest.raises(InputError), batch_session(master):
        pytest.fail("a session on nothing")


def test_a_session_counts_time_in_utc(batch: SparkSession) -> None:
    """Instants in traces carry no zone."""
    assert batch.conf.get("spark.sql.session.timeZone") == "UTC"
