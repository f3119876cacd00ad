"""Every wait at a site has an end and a name."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from pyspark.errors import PySparkException

from mooring.errors import EngineError
from mooring.spark.sites.endpoint import Endpoint, close_session, open_session
from mooring.spark.sites.waiting import waited_for

if TYPE_CHECKING:
    from tests.spark.shared_cluster import SharedCluster

_BUSY = "SELECT sum(length(sha2(cast(id AS string), 512))) FROM range(0, 1000000000000, 1, {cores})"


def test_a_task_that_no_executor_has_room_for_ends_in_time_with_its_site_and_what_to_do(
    cluster: SharedCluster,
) -> None:
    """Another session keeps all cores of the cluster: its server answers, and runs nothing."""
    others, session = open_session(Endpoint(cluster.url)), open_session(Endpoint(cluster.url))

    def fill() -> None:
        with contextlib.suppress(PySparkException):
            others.sql(_BUSY.format(cores=len(cluster.worker_pids))).collect()

    def ask() -> None:
        session.range(0, 2, 1, 2).selectExpr("sum(id)").collect()

    def ask_until_late() -> None:
        while True:  # until the others have their cores
            with waited_for(session, "far", "a task that reads the storage", patience_s=1):
                ask()

    filler = threading.Thread(target=fill, daemon=True)
    try:
        ask()
        filler.start()
        with pytest.raises(EngineError) as late:
            ask_until_late()
        assert "site 'far': a task that reads the storage did not end within 1 s" in late.value.message
        assert "runs no task" in late.value.message
        assert "spark.cores.max" in str(late.value.remedy)
        with waited_for(session, "far", "an answer"):  # the session goes on
            assert session.sql("VALUES (1)").collect()[0][0] == 1
    finally:
        others.interruptAll()
        filler.join(30)
        close_session(others)
        close_session(session)


def test_what_ends_in_time_keeps_its_own_error(cluster: SharedCluster) -> None:
    session = open_session(Endpoint(cluster.url))
    try:
        with pytest.raises(ZeroDivisionError), waited_for(session, "far", "a sum"):
            _ = 1 / 0
    finally:
        close_session(session)
