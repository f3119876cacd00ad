"""Settings of Spark that a flow asks for (`spark_conf`): in force while it is analysed, and where it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mooring.errors import InputError
from mooring.spark.definitions.session_settings import shown_value


@contextmanager
def flow_settings(
    session: SparkSession, settings: Mapping[str, str], flow: str, place: str
) -> Iterator[None]:
    """The session has them meanwhile, and is as it was afterwards."""
    before = {name: session.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            _set(session, name, value, flow, place)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                session.conf.unset(name)
            elif session.conf.isModifiable(name):
                session.conf.set(name, old)


def _set(session: SparkSession, name: str, value: str, flow: str, place: str) -> None:
    try:
        session.conf.set(name, value)
    except PySparkException as refused:
        why = str(refused).split(" SQLSTATE")[0].strip().splitlines()[0]
        raise InputError(
            f"the flow {flow!r} asks for {name}={shown_value(name, value)}, which a session cannot have: "
            f"{why}",
            file=place,
            remedy="take it out of the flow's spark_conf; what holds for a whole server goes into the "
            "`configuration` of the pipeline spec",
        ) from refused
