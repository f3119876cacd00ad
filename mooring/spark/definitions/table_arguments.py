"""The arguments of a table beside its query: columns, format, layout, comment.

Tables are files that Spark's file sink writes, so every format of that sink can be had, and partitions too.
Clustering, properties and comment go to the catalog of an endpoint where tables are registered there; with
files there is nothing else that Spark does with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyspark.pipelines.output import Table
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from mooring.errors import InputError, UnsupportedError
from mooring.model.problem.reading.fields import nearest
from mooring.spark.connectors import formats

PARQUET = "parquet"
FILE_FORMATS = (PARQUET, "orc", "json", "csv", "text")
"""What Spark's file sink writes and its file source reads."""
CONNECTED_FORMATS = ("avro",)
"""The same, where the format's jar is on the sites' class path."""


@dataclass(frozen=True)
class TableArguments:
    schema: StructType | str | None = None
    """The table's columns; as text, a DDL such as `a INT, b STRING`. None: those of its flows."""
    format: str = PARQUET
    partition_cols: tuple[str, ...] = ()
    """Columns whose values name the folders that rows lie in."""
    cluster_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str = ""

    @property
    def stored(self) -> str:
        """How rows lie in files. It cannot change while there are some."""
        partitioned = f" partitioned by {', '.join(self.partition_cols)}" if self.partition_cols else ""
        return f"{self.format}{partitioned}"

    @property
    def mergeable(self) -> bool:
        """Whether several of its files can become one: their columns are all in the files, as parquet."""
        return self.format == PARQUET and not self.partition_cols


NOTHING_SAID = TableArguments()


def arguments_of(output: Table) -> TableArguments:
    """As Python passed them."""
    return TableArguments(
        output.schema,
        (output.format or PARQUET).lower(),
        tuple(output.partition_cols or ()),
        tuple(output.cluster_by or ()),
        {str(key): str(value) for key, value in output.table_properties.items()},
        output.comment or "",
    )


def stated_schema(
    arguments: TableArguments, name: str, session: SparkSession, place: str
) -> StructType | None:
    """The columns that the definition of a table states, with their types; None if it does not."""
    if arguments.schema is None or isinstance(arguments.schema, StructType):
        return arguments.schema
    try:
        parsed = session._parse_ddl(arguments.schema)
    except Exception as failure:
        raise InputError(
            f"the columns of {name!r} cannot be read: {str(failure).strip().splitlines()[0]}",
            file=place,
            remedy='write them as "a INT, b STRING"',
        ) from failure
    if not isinstance(parsed, StructType):
        raise InputError(
            f"the columns of {name!r} are {arguments.schema!r}, expected names with types",
            file=place,
            remedy='write them as "a INT, b STRING"',
        )
    return parsed


def check_format(arguments: TableArguments, name: str, session: SparkSession, place: str) -> None:
    if arguments.format in FILE_FORMATS:
        return
    if arguments.format in CONNECTED_FORMATS:
        formats.check_format(session, arguments.format, f"the table {name!r}", place)
        return
    if arguments.format in formats.MADE_FOR:
        raise UnsupportedError(
            f"the table {name!r} has the format {arguments.format!r}, which Mooring does not support for "
            f"tables: {formats.made_for(arguments.format)}, and fails with 4.3",
            file=place,
            remedy=(
                f"remove the format or use {PARQUET!r}; at an endpoint with a fitting release, define "
                "a sink of that format and a flow into it"
            ),
        )
    known = (*FILE_FORMATS, *CONNECTED_FORMATS)
    closest = nearest(arguments.format, known)
    raise UnsupportedError(
        f"the table {name!r} has the format {arguments.format!r}, expected one of {', '.join(known)}",
        file=place,
        remedy=f"did you mean {closest!r}?" if closest else f"remove it, or use {PARQUET!r}",
    )


def check_columns(arguments: TableArguments, columns: Iterable[str], name: str, place: str) -> None:
    """Those that rows are partitioned or clustered by are columns of the table."""
    known = {column.lower(): column for column in columns}
    for what, given in (("partition_cols", arguments.partition_cols), ("cluster_by", arguments.cluster_by)):
        for column in given:
            # Of a nested column, which only clustering takes, the outermost is looked for.
            if column.lower() not in known and column.split(".")[0].lower() not in known:
                closest = nearest(column, known.values())
                raise InputError(
                    f"{what} of {name!r} names {column!r}, which is not one of its columns",
                    file=place,
                    remedy=f"did you mean {closest!r}?" if closest else f"it has {', '.join(known.values())}",
                )
    if arguments.partition_cols and len(set(map(str.lower, arguments.partition_cols))) >= len(known):
        raise InputError(
            f"{name!r} is partitioned by all of its columns, so its files would have none",
            file=place,
            remedy="partition it by some of them",
        )
    if arguments.partition_cols and arguments.cluster_by:
        raise InputError(
            f"{name!r} has both partition_cols and cluster_by",
            file=place,
            remedy="Spark allows one of them",
        )
