"""Formats of sources, sinks and tables: whether Spark has them, and what a sink of each promises."""

from __future__ import annotations

import re

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mooring.errors import InputError

_NOT_FOUND = re.compile(r"[Ff]ailed to find (?:the )?data source: ([\w.-]*\w)")
_EXACTLY_ONCE = frozenset({"parquet", "json", "csv", "orc", "text", "delta", "iceberg"})
"""Files of batches that a log commits; the last two have a log of their own, which knows query and batch."""
_NOBODYS = frozenset({"console", "memory", "noop"})
"""For looking on: what they show is kept nowhere."""


def missing_format(failure: BaseException | str) -> str | None:
    """The format that Spark could not find; None where it failed for another reason.

    >>> missing_format("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta. Make sure ...")
    'delta'
    >>> missing_format("[PATH_NOT_FOUND] ...") is None
    True
    """
    found = _NOT_FOUND.search(str(failure))
    return None if found is None else found[1]


def remedy_for(failure: BaseException | str) -> str | None:
    """What to do about a format that Spark does not have."""
    if (name := missing_format(failure)) is None:
        return None
    example = (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION" if name == "kafka" else "group:name:version"
    )
    return (
        f"Spark has no {name!r} of its own: add its connector to mooring.yml, packages: [{example}] or "
        "jars: [lib/*.jar], or to spark.jars of the spec; an existing endpoint must have it from its start"
    )


def check_format(session: SparkSession, name: str, what: str, place: str) -> None:
    """Refuse a format that Spark at this site cannot find; `what` uses it, defined at `place`."""
    if name.lower() in _EXACTLY_ONCE - {"delta", "iceberg"} | _NOBODYS:
        return
    try:
        _ = session.read.format(name).load().schema
    except PySparkException as failure:  # most formats miss their options here, and so are there
        if missing_format(failure) is not None:
            raise InputError(
                f"{what} has the format {name!r}, which Spark cannot find",
                file=place,
                remedy=remedy_for(failure),
            ) from failure


def delivery_note(sink: str, name: str) -> str | None:
    """Whether rows may reach a sink twice, in words; None where they cannot, or where nobody would mind."""
    if name.lower() in _EXACTLY_ONCE | _NOBODYS:
        return None
    return (
        f"rows reach the sink {sink!r} ({name}) at least once: after a failure its last micro-batch may be "
        "delivered again, so give rows a key by which their readers can tell repeats"
    )
