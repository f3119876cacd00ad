"""The inputs of a flow, read from the plan that its DataFrame would send to Spark (a protobuf message)."""

from __future__ import annotations

import hashlib
import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message
from pyspark.cloudpickle import loads as unpickle
from pyspark.sql import DataFrame

from mooring.spark.definitions import sql_definitions
from mooring.spark.definitions.plan_messages import messages_in
from mooring.spark.definitions.relative_paths import relative_in_names, relative_in_source
from mooring.spark.definitions.sql_definitions import TableRead, tables_read

_STATEFUL = {
    "Aggregate",
    "Deduplicate",
    "Join",
    "Limit",
    "GroupMap",
    "CoGroupMap",
    "ApplyInPandasWithState",
    "AsOfJoin",
}

_JOINS = {"Join", "AsOfJoin"}

_ADDRESSES = ("path", "kafka.bootstrap.servers")
"""Options that say where a source lies, and nothing of what it delivers."""


@dataclass(frozen=True)
class PlanReads:
    tables: tuple[TableRead, ...]
    outside: bool
    """Reads a streaming source other than a named table (files, Kafka, rate, ...)."""
    outside_at_rest: bool
    """Reads files or the like as they lie there, other than by a table's name."""
    stateful: bool
    fingerprint: str
    """Changes when the plan's meaning may have changed; not with layout, comments or position in the file."""
    unplaced_fingerprint: str
    """The same, whatever the folder its sources lie in: what was measured of it holds elsewhere too."""
    sorted: bool = False
    """It puts rows in order, which a stream seldom can."""
    relative_paths: tuple[str, ...] = ()
    """Of what it reads outside the pipeline."""
    joins: bool = False


@dataclass(frozen=True)
class FoldedReads:
    """What a flow reads once its temporary views are replaced by what they read."""

    inputs: tuple[str, ...]
    static: tuple[str, ...]
    views: tuple[str, ...]
    outside: bool
    unobserved: bool
    stateful: bool
    fingerprint: str
    unplaced_fingerprint: str
    relative_paths: tuple[str, ...]
    lent: tuple[str, ...]
    """Tables of other pipelines."""
    joins: bool = False


def plan_of(frame: DataFrame) -> Message:
    plan: Message = frame._plan.to_proto(frame.sparkSession.client)
    return plan


def reads_of(plan: Message) -> PlanReads:
    tables: dict[TableRead, None] = {}
    outside = at_rest = stateful = in_order = joins = False
    paths: list[str] = []
    for message in messages_in(plan):
        kind = message.DESCRIPTOR.name
        stateful = stateful or kind in _STATEFUL
        joins = joins or kind in _JOINS
        in_order = in_order or kind == "Sort"
        if kind == "Read":
            read: Any = message
            if read.WhichOneof("read_type") == "named_table":
                name = read.named_table.unparsed_identifier.replace("`", "")
                tables[TableRead(name, read.is_streaming)] = None
            else:
                outside = outside or read.is_streaming
                at_rest = at_rest or not read.is_streaming
                paths += relative_in_source(read.data_source)
        elif kind == "SQL":
            query = message.query
            tables.update(dict.fromkeys(tables_read(query)))
            stateful = stateful or sql_definitions.keeps_state(query)
            joins = joins or sql_definitions.joins(query)
            in_order = in_order or sql_definitions.puts_in_order(query)
    marks = fingerprint_of(plan), fingerprint_of(plan, placed=False)
    paths += relative_in_names(table.name for table in tables)
    relative = tuple(dict.fromkeys(paths))
    return PlanReads(tuple(tables), outside, at_rest, stateful, *marks, in_order, relative, joins)


def folded(
    reads: PlanReads,
    local_name: Callable[[str], str],
    views: Mapping[str, FoldedReads],
    datasets: Collection[str],
    lent: Collection[str],
) -> FoldedReads:
    """With temporary views replaced by what they read; `lent` are tables of other pipelines."""
    inputs, static, seen = dict[str, None](), dict[str, None](), dict[str, None]()
    outside, unobserved, stateful = reads.outside, reads.outside_at_rest, reads.stateful
    joins = reads.joins
    marks, unplaced_marks, paths, borrowed = [], [], list(reads.relative_paths), list[str]()
    for table in reads.tables:
        name = local_name(table.name)
        if (view := views.get(name)) is not None:
            inputs.update(dict.fromkeys(view.inputs))
            static.update(dict.fromkeys(view.static))
            seen.update(dict.fromkeys([*view.views, name]))
            outside, stateful = outside or view.outside, stateful or view.stateful
            unobserved, joins = unobserved or view.unobserved, joins or view.joins
            marks.append(view.fingerprint)
            unplaced_marks.append(view.unplaced_fingerprint)
            paths += view.relative_paths
            borrowed += view.lent
        elif name in datasets:
            (inputs if table.streaming else static)[name] = None
        elif name in lent:
            borrowed, unobserved = [*borrowed, name], True
        else:  # a table the cluster has; a stream only if it is read as one
            outside, unobserved = outside or table.streaming, unobserved or not table.streaming
    return FoldedReads(
        *(tuple(inputs), tuple(static), tuple(seen), outside, unobserved, stateful),
        _joined(reads.fingerprint, marks),
        _joined(reads.unplaced_fingerprint, unplaced_marks),
        *(tuple(dict.fromkeys(paths)), tuple(dict.fromkeys(borrowed))),
        joins=joins,
    )


def _joined(fingerprint: str, marks: list[str]) -> str:
    return hashlib.sha256("".join([fingerprint, *marks]).encode()).hexdigest()[:16]


def fingerprint_of(plan: Message, *, placed: bool = True) -> str:
    """A hash of the plan without what differs between two readings of the same definition.

    `placed`: the paths of its sources count.
    """
    copy = type(plan)()
    copy.CopyFrom(plan)
    functions = []
    for message in messages_in(copy):
        names = {field.name for field in message.DESCRIPTOR.fields}
        for noise in {"plan_id", "origin", "common"} & names:
            message.ClearField(noise)
        if message.DESCRIPTOR.name == "PythonUDF":
            functions.append(_function_fingerprint(message.command))
            message.ClearField("command")
        if message.DESCRIPTOR.name == "DataSource" and not placed:
            source: Any = message
            source.ClearField("paths")
            for option in _ADDRESSES:
                source.options.pop(option, None)
        if message.DESCRIPTOR.name == "SQL":
            message.query = sql_definitions.normalised(message.query)
    digest = hashlib.sha256(copy.SerializeToString(deterministic=True))
    for part in functions:
        digest.update(part)
    return digest.hexdigest()[:16]


def _function_fingerprint(command: bytes) -> bytes:
    """Of a user function: its code, not its position in the file, which the pickled form also holds."""
    try:
        loaded = unpickle(command)  # our own process pickled it a moment ago
    except Exception:
        return command
    function = loaded[0] if isinstance(loaded, tuple) else loaded
    code = getattr(function, "__code__", None)
    return command if code is None else repr(_code_parts(code)).encode()


def _code_parts(code: types.CodeType) -> tuple[object, ...]:
    constants = tuple(
        _code_parts(item) if isinstance(item, types.CodeType) else repr(item) for item in code.co_consts
    )
    return code.co_code, code.co_names, code.co_varnames, constants
