"""The columns of a table, from those of its flows and those that its definition states, as Spark takes them.

The flows into a table need not have the same columns: the table has all of them, and a row has none in the
columns of other flows. What two flows, or a flow and the definition, both name must have one type. Columns
that the definition does not name are refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from mooring.errors import InputError


def merged_schema(one: StructType, other: StructType, what: str, place: str) -> StructType:
    """All columns of both; `what` says whose they are should they not go together."""
    known = {field.name.lower(): field for field in one}
    for field in other:
        same = known.get(field.name.lower())
        if same is None:
            known[field.name.lower()] = field
        elif same.dataType.simpleString() != field.dataType.simpleString():
            raise InputError(
                f"{what} differ in the column {field.name!r}: {same.dataType.simpleString()} and "
                f"{field.dataType.simpleString()}",
                file=place,
                remedy="give it one type, with a cast",
            )
    return StructType(list(known.values()))


def checked_schema(stated: StructType, found: StructType, table: str, place: str) -> StructType:
    """The stated columns, where the flows have no others and none of another type."""
    known = {field.name.lower(): field for field in stated}
    problems = []
    for field in found:
        same = known.get(field.name.lower())
        if same is None:
            problems.append(f"{_shown(field)} is not stated")
        elif same.dataType.simpleString() != field.dataType.simpleString():
            problems.append(f"{_shown(same)} is stated, the flows write {_shown(field)}")
    if problems:
        raise InputError(
            f"the stated columns of {table!r} differ from those of its flows: {'; '.join(problems)}",
            file=place,
            remedy=(
                "correct the schema, or cast and select in the flow; a stated column that no flow "
                "writes is empty"
            ),
        )
    return stated


def in_table_order(frame: DataFrame, columns: Sequence[str], schema: StructType) -> DataFrame:
    """A flow's rows with all columns of its table; `columns` are those it has."""
    if list(columns) == schema.fieldNames():
        return frame
    own = {name.lower() for name in columns}
    return frame.select(
        *(
            F.col(quoted(field.name)).alias(field.name)
            if field.name.lower() in own
            else F.lit(None).cast(field.dataType).alias(field.name)
            for field in schema
        )
    )


def quoted(name: str) -> str:
    """A column's name as Spark takes any.

    >>> quoted("a.b")
    '`a.b`'
    """
    return "`" + name.replace("`", "``") + "`"


def stored_columns(schema: StructType, partition_cols: Sequence[str]) -> StructType:
    """The columns in the order in which Spark reads them back: what names folders stands last."""
    by_name = {field.name.lower(): field for field in schema}
    last = [by_name[name.lower()] for name in partition_cols]
    return StructType([*(field for field in schema if field not in last), *last])


def as_ddl(schema: StructType) -> str:
    """As SQL and readers take columns."""
    return ", ".join(f"{quoted(field.name)} {field.dataType.simpleString()}" for field in schema)


def _shown(field: StructField) -> str:
    return f"{field.name} {field.dataType.simpleString()}"
