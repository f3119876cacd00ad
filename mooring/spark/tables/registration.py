"""Tables of a pipeline in the catalog of an endpoint, under their own names, for tools that look there.

A table is registered over its channel's link. Spark's reader goes by the log it finds there, so that whoever
reads the table finds exactly what is committed at that moment. A table of several flows is a view over one
table per flow, named after both. A materialized view is registered as a table over a folder whose log follows
its versions. Nothing that exists is ever replaced, unless this storage registered it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.tables.table_arguments import TableArguments
from mooring.spark.pipeline.tables.table_schema import as_ddl, quoted, stored_columns
from mooring.spark.sites.endpoint import first_line

_OWNER = "mooring.storage"
"""A property of what Mooring registered: of which storage it is."""
_DEFINITION = "mooring.definition"


def register_tables(layout: Layout, site: str, session: SparkSession) -> list[str]:
    """Returns what could not be registered, and why."""
    if layout.address(layout.root).startswith("viewfs"):
        return [
            f"nothing is registered at {site}: sites mount the storage under different paths, and a catalog "
            "knows one"
        ]
    said = []
    for dataset, columns in layout.pipeline.schemas.items():
        writers = [flow.name for flow in layout.pipeline.writers(dataset)]
        stored = dataset not in layout.unstored and all(name in layout.channels for name in writers)
        if not stored and dataset not in layout.views:
            continue
        try:
            for statement, name in _statements(layout, dataset, columns):
                _carry_out(session, statement, name, str(layout.root))
        except (_Taken, PySparkException) as failure:
            why = failure if isinstance(failure, _Taken) else first_line(failure)
            said.append(f"{dataset} is not registered at {site}: {why}")
    return said


class _Taken(Exception):
    """There is something of that name already."""


def _statements(layout: Layout, dataset: str, columns: StructType) -> Iterator[tuple[str, str]]:
    """What creates a table and its parts, each with the name of what it creates."""
    arguments = layout.pipeline.datasets[dataset].arguments
    if dataset in layout.views:
        listed = layout.listed(dataset).folder
        yield _table(layout, dataset, listed, columns, arguments, apart=True), dataset
        return
    channels = layout.writers_of(dataset)
    if len(channels) == 1:
        yield _table(layout, dataset, channels[0].link, columns, arguments), dataset
        return
    parts = {f"{dataset}__{channel.name}": channel for channel in channels}
    for part, channel in parts.items():
        yield _table(layout, part, channel.link, columns, arguments), part
    names = ", ".join(quoted(name) for name in columns.fieldNames())
    union = " UNION ALL ".join(f"SELECT {names} FROM {_name(part)}" for part in parts)
    said = f" COMMENT {_text(arguments.comment)}" if arguments.comment else ""
    yield f"CREATE VIEW {_name(dataset)}{said} TBLPROPERTIES (PROPERTIES) AS {union}", dataset


def _table(
    layout: Layout,
    name: str,
    folder: Path,
    columns: StructType,
    arguments: TableArguments,
    *,
    apart: bool = False,
) -> str:
    """`apart`: the files lie elsewhere than the log that vouches for them."""
    ordered = stored_columns(columns, arguments.partition_cols)
    laid_out = f" CLUSTER BY ({', '.join(map(quoted, arguments.cluster_by))})" if arguments.cluster_by else ""
    said = f" COMMENT {_text(arguments.comment)}" if arguments.comment else ""
    # With partitions Spark looks at all files anyway.
    options = " OPTIONS ('recursiveFileLookup' 'true')" if apart and not arguments.partition_cols else ""
    own = "".join(f", {_text(key)} = {_text(value)}" for key, value in arguments.properties.items())
    return (
        f"CREATE TABLE {_name(name)} ({as_ddl(ordered)}) USING {arguments.format}{options}{laid_out}{said} "
        f"LOCATION {_text(layout.address(folder))} TBLPROPERTIES (PROPERTIES{own})"
    )


def _carry_out(session: SparkSession, statement: str, name: str, root: str) -> None:
    definition = hashlib.sha256(statement.encode()).hexdigest()[:16]
    if session.catalog.tableExists(name):
        found = _properties(session, name)
        if found.get(_OWNER) != root:
            raise _Taken(f"there is a table or view {name} already, which Mooring did not make")
        if found.get(_DEFINITION) == definition:
            return
        kind = "VIEW" if statement.startswith("CREATE VIEW") else "TABLE"
        session.sql(f"DROP {kind} {_name(name)}").collect()
    marks = f"{_text(_OWNER)} = {_text(root)}, {_text(_DEFINITION)} = {_text(definition)}"
    session.sql(statement.replace("PROPERTIES)", f"{marks})").replace("(PROPERTIES,", f"({marks},")).collect()


def _properties(session: SparkSession, name: str) -> dict[str, str]:
    try:
        rows = session.sql(f"SHOW TBLPROPERTIES {_name(name)}").collect()
    except AnalysisException:  # a temporary view has none
        return {}
    return {row.key: row.value for row in rows}


def _name(dataset: str) -> str:
    """A name of one, two or three parts, as SQL takes any."""
    return ".".join(quoted(part) for part in dataset.split("."))


def _text(value: str) -> str:
    """
    >>> _text("it's")
    "'it\\\\'s'"
    """
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
