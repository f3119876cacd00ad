"""Tables of a pipeline in the catalog of an endpoint, under their own names, for tools that look there.

A table is registered over its channel's link. Spark's reader follows the log that it finds there, so a read
of the table returns exactly what is committed at that moment. A table of several flows is a view over one
table per flow, named after both. A materialized view is registered as a table over a folder whose log follows
its versions. Nothing that exists is ever replaced, unless this storage registered it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from mooring.spark.definitions.table_arguments import TableArguments
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.table_schema import as_ddl, quoted, stored_columns
from mooring.spark.sites.endpoint import first_line

_OWNER = "mooring.storage"
"""A property of what Mooring registered: of which storage it is."""
_DEFINITION = "mooring.definition"


def register_tables(layout: Layout, site: str, session: SparkSession) -> list[str]:
    """Returns what could not be registered, and why."""
    if layout.address(layout.root).startswith("viewfs"):
        return [
            f"no table is registered at {site}: sites mount the storage under different paths, and a "
            "catalog holds one path"
        ]
    said = []
    for dataset, columns in layout.pipeline.schemas.items():
        writers = [flow.name for flow in layout.pipeline.writers(dataset)]
        stored = dataset not in layout.unstored and all(name in layout.channels for name in writers)
        if not stored and dataset not in layout.views:
            continue
        try:
            for registered in _registered(layout, dataset, columns):
                _carry_out(session, registered, str(layout.root))
        except (_Taken, PySparkException) as failure:
            why = failure if isinstance(failure, _Taken) else first_line(failure)
            said.append(f"{dataset} is not registered at {site}: {why}")
    return said


class _Taken(Exception):
    """There is something of that name already."""


@dataclass(frozen=True)
class _Registered:
    """A table or view of a catalog, in the parts of the statement that creates it."""

    kind: Literal["TABLE", "VIEW"]
    name: str
    head: str
    """Between the name and the properties."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """As the pipeline states them."""
    tail: str = ""
    """After the properties."""

    @property
    def definition(self) -> str:
        """Differs whenever the statement would."""
        return hashlib.sha256(self.statement({}).encode()).hexdigest()[:16]

    def statement(self, marks: Mapping[str, str]) -> str:
        """`marks`: Mooring's own properties."""
        stated = {**self.properties, **marks}
        said = ", ".join(f"{_text(key)} = {_text(value)}" for key, value in stated.items())
        properties = f" TBLPROPERTIES ({said})" if stated else ""
        return f"CREATE {self.kind} {_name(self.name)}{self.head}{properties}{self.tail}"


def _registered(layout: Layout, dataset: str, columns: StructType) -> Iterator[_Registered]:
    """A dataset and its parts, the parts first."""
    arguments = layout.pipeline.datasets[dataset].arguments
    if dataset in layout.views:
        yield _table(layout, dataset, layout.listed(dataset).folder, columns, arguments, apart=True)
        return
    channels = layout.writers_of(dataset)
    if len(channels) == 1:
        yield _table(layout, dataset, channels[0].link, columns, arguments)
        return
    parts = {f"{dataset}__{channel.name}": channel for channel in channels}
    for part, channel in parts.items():
        yield _table(layout, part, channel.link, columns, arguments)
    names = ", ".join(quoted(name) for name in columns.fieldNames())
    union = " UNION ALL ".join(f"SELECT {names} FROM {_name(part)}" for part in parts)
    said = f" COMMENT {_text(arguments.comment)}" if arguments.comment else ""
    yield _Registered("VIEW", dataset, said, tail=f" AS {union}")


def _table(
    layout: Layout,
    name: str,
    folder: Path,
    columns: StructType,
    arguments: TableArguments,
    *,
    apart: bool = False,
) -> _Registered:
    """`apart`: the files lie elsewhere than the log that vouches for them."""
    ordered = stored_columns(columns, arguments.partition_cols)
    laid_out = f" CLUSTER BY ({', '.join(map(quoted, arguments.cluster_by))})" if arguments.cluster_by else ""
    said = f" COMMENT {_text(arguments.comment)}" if arguments.comment else ""
    # With partitions Spark looks at all files anyway.
    options = " OPTIONS ('recursiveFileLookup' 'true')" if apart and not arguments.partition_cols else ""
    head = (
        f" ({as_ddl(ordered)}) USING {arguments.format}{options}{laid_out}{said} "
        f"LOCATION {_text(layout.address(folder))}"
    )
    return _Registered("TABLE", name, head, arguments.properties)


def _carry_out(session: SparkSession, registered: _Registered, root: str) -> None:
    name = registered.name
    if session.catalog.tableExists(name):
        found = _properties(session, name)
        if found.get(_OWNER) != root:
            raise _Taken(f"the catalog has another table or view {name}, which Mooring did not create")
        if found.get(_DEFINITION) == registered.definition:
            return
        session.sql(f"DROP {registered.kind} {_name(name)}").collect()
    session.sql(registered.statement({_OWNER: root, _DEFINITION: registered.definition})).collect()


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
