"""Formats of sources, sinks and tables: whether Spark has them, and what a sink of each promises."""

from __future__ import annotations

import re

from pyspark.errors import PySparkException
from pyspark.errors.exceptions.connect import SparkConnectGrpcException
from pyspark.sql import SparkSession

from mooring.errors import InputError, UnsupportedError
from mooring.spark.sites.endpoint import first_line

_NOT_FOUND = re.compile(r"[Ff]ailed to find (?:the )?data source: ([\w.-]*\w)")
_FILES = frozenset({"parquet", "json", "csv", "orc", "text"})
"""Files of batches that a log commits, which every Spark has."""
_EXACTLY_ONCE = _FILES | {"avro", "delta", "iceberg"}
"""The same by connectors; the last two have a log of their own, which knows query and batch."""
_PACKAGES = {
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION",
    "avro": "org.apache.spark:spark-avro_2.13:VERSION",
}
MADE_FOR = {"delta": ("Delta Lake", "4.4.0", "4.2"), "iceberg": ("Iceberg", "1.12.0", "4.1")}
"""Formats with a log of their own: name, newest release on Maven Central, and the newest Spark it is made for
(docs/decisions/0047-tables-are-of-file-formats.md).
"""
_NOBODYS = frozenset({"console", "memory", "noop"})
"""For looking on: what they show is kept nowhere."""
_BY_QUERY = frozenset({"delta", "iceberg", "kafka"})
"""They know a batch by its query too, or not at all."""


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
    example = _PACKAGES.get(name, "group:name:version")
    return (
        f"Spark does not include {name!r}: add its connector to mooring.yml, packages: [{example}] or "
        "jars: [lib/*.jar], or to spark.jars of the spec; an existing endpoint must start with it"
    )


def check_format(session: SparkSession, name: str, what: str, place: str) -> None:
    """Refuse a format that Spark at this site cannot find; `what` uses it, defined at `place`."""
    if name.lower() in _FILES | _NOBODYS:
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


def check_works(session: SparkSession, name: str, scratch: str, what: str, place: str) -> None:
    """Refuse a format with a log of its own that this site has and cannot use: a release made for another
    Spark is found like any other. It is tried out in a folder that is not there yet.
    """
    if name.lower() not in MADE_FOR:
        return
    try:
        session.range(1).write.format(name).mode("append").save(scratch)
        session.read.format(name).load(scratch).count()
    except PySparkException as failure:
        if name.lower() == "iceberg" and type(failure) is not SparkConnectGrpcException:
            return  # it is there, and wants a table of a catalog rather than a folder
        raise UnsupportedError(
            f"{what} has the format {name!r}, which this site has and cannot use: {_told(failure)}",
            file=place,
            remedy=f"use a connector made for the site's Spark ({made_for(name)}), or a sink of parquet",
        ) from failure


def is_of_files(name: str) -> bool:
    """Whether Spark writes a sink of this format as files with a log beside them."""
    return name.lower() in _FILES | {"avro", "xml"}


def counts_batches(name: str) -> bool:
    """Whether a sink of this format may know a batch by its number alone, and skip one that it has."""
    return name.lower() not in _NOBODYS | _BY_QUERY


def made_for(name: str) -> str:
    """What is known of the releases of a format.

    >>> made_for("iceberg")
    'the newest tested Iceberg, 1.12.0, is made for Spark 4.1'
    """
    return "the newest tested {}, {}, is made for Spark {}".format(*MADE_FOR[name.lower()])


def _told(failure: PySparkException) -> str:
    """Of an error that is none of Spark's own, only the details say anything."""
    details = re.search(r'details = "(.*)"', str(failure))
    return details[1] if details is not None else first_line(failure)


def delivery_note(sink: str, name: str) -> str | None:
    """Whether rows may reach a sink twice, in words; None where they cannot, or where nobody would mind."""
    if name.lower() in _EXACTLY_ONCE | _NOBODYS:
        return None
    return (
        f"the sink {sink!r} ({name}) receives rows at least once: after a failure its last micro-batch may "
        "arrive again, so give rows a key for deduplication"
    )
