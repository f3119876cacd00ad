"""The session that definition files find: `SparkSession.active()`, `SparkSession.builder.getOrCreate()`."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any, cast

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectSession

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_spark_get_or_create = SparkSession.Builder.getOrCreate


@contextlib.contextmanager
def active_session(session: SparkSession) -> Iterator[None]:
    """Make `session` what `SparkSession.active()` and `builder.getOrCreate()` answer in this thread, and keep
    its client's error log quiet.

    The client logs every analysis error with its JVM stack, also those we expect while looking for an order;
    what remains an error is raised, with its source line.
    """
    held = type(session)._active_session
    before = getattr(held, "session", None)
    # Of Spark's own class: once one of plain Python is made, every later error of Spark is a TypeError.
    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    held.session = session
    SparkSession.Builder.getOrCreate = _get_or_create
    try:
        yield
    finally:
        held.session = before
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _get_or_create(builder: Any) -> SparkSession:
    """Spark's own asks for the address of a server before it looks for the session that there is."""
    if ConnectSession.getActiveSession() is None:
        return _spark_get_or_create(builder)
    options = ConnectSession.Builder().config(map=dict(builder._options))
    return cast(SparkSession, options.getOrCreate())
