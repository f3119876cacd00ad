"""A row means the same at every site, whatever its server was started with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mooring.spark.definitions.result_settings import (
    LEFT_ALONE,
    PREFIX,
    STATED,
    effective,
    settle_results,
    wanted_results,
)
from mooring.spark.sites.endpoint import Endpoint, close_session, open_session
from tests.spark.shared_cluster import OTHER_ANSWERS

if TYPE_CHECKING:
    from tests.spark.shared_cluster import SharedCluster


def answer(session: SparkSession, expression: str) -> str:
    """A value, or the condition of an error: rows that a flow does not give are missing."""
    try:
        return str(session.sql(f"SELECT {expression} AS it").collect()[0].it)
    except PySparkException as failure:
        return str(failure.getCondition())


@contextmanager
def session_at(url: str) -> Iterator[SparkSession]:
    session = open_session(Endpoint(url))
    try:
        yield session
    finally:
        close_session(session)


def test_settings_that_change_rows_are_made_equal_at_a_cluster_and_at_an_embedded_site(
    cluster: SharedCluster, session: SparkSession
) -> None:
    """Each of them changes what the cluster answers, until Mooring has settled what rows depend on."""
    assert len(OTHER_ANSWERS) >= 10
    with session_at(cluster.url) as there:
        before = {name: answer(there, expression) for name, (_, expression) in OTHER_ANSWERS.items()}
        assert settle_results(there, wanted_results({})) == {}
        assert effective(there, STATED) == STATED
        after = {name: answer(there, expression) for name, (_, expression) in OTHER_ANSWERS.items()}
    assert settle_results(session, wanted_results({})) == {}
    here = {name: answer(session, expression) for name, (_, expression) in OTHER_ANSWERS.items()}
    assert after == here
    assert [name for name in here if before[name] == here[name]] == []


def test_what_the_spec_states_wins_and_another_value_of_a_static_setting_is_refused_by_name(
    session: SparkSession,
) -> None:
    zone = f"{PREFIX}session.timeZone"
    fixed = f"{PREFIX}globalTempDatabase"
    refused = settle_results(session, {**wanted_results({zone: "Asia/Tokyo"}), fixed: "elsewhere"})
    assert session.conf.get(zone) == "Asia/Tokyo"
    assert list(refused) == [fixed]
    has, why = refused[fixed]
    assert has == "global_temp"
    assert "CANNOT_MODIFY" in why


def test_each_public_setting_of_this_spark_is_stated_or_left_alone_for_a_reason(
    session: SparkSession,
) -> None:
    """A new Spark that has more of them is to be looked at; its internal ones are listed by hand."""
    public = [row.key for row in session.sql("SET -v").collect()]
    assert len(public) > 250
    sql = [name for name in public if name.startswith(PREFIX)]
    assert [name for name in sql if name not in STATED and not LEFT_ALONE.match(name)] == []
    assert [name for name in STATED if LEFT_ALONE.match(name)] == []
