"""Flows that plain Spark would refuse too, or that cannot be run as they are: why, and what to write."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame

from mooring.errors import InputError, UnsupportedError
from mooring.spark.connectors.formats import remedy_for
from mooring.spark.definitions.definitions import FlowDefinition, Place, line_of_failure
from mooring.spark.definitions.foreign_features import foreign_remedy
from mooring.spark.sites.endpoint import first_line


def refuse_wrong_kind(flow: FlowDefinition, kind: str, streaming: bool, static: Sequence[str]) -> None:
    """A materialized view is computed from tables as they stand, everything else is fed by streams."""
    if kind == "materialized" and streaming:
        raise UnsupportedError(
            f"the materialized view {flow.target!r} reads a stream, but a view is computed from the "
            "present rows of its inputs",
            file=str(flow.place),
            remedy="read with spark.read (SQL: without STREAM), or make it a streaming table (@dp.table)",
        )
    if kind != "materialized" and not streaming and static:
        raise UnsupportedError(
            f"the flow {flow.name!r} reads the streaming dataset {static[0]!r} as a fixed table",
            file=str(flow.place),
            remedy=f"read it as a stream: spark.readStream.table({static[0]!r}), or FROM STREAM {static[0]}; "
            "or make the flow a materialized view",
        )
    if kind != "materialized" and not streaming:
        raise UnsupportedError(
            f"the flow {flow.name!r} reads no stream, so it would run once over a fixed table",
            file=str(flow.place),
            remedy="read with spark.readStream (SQL: FROM STREAM x), or make it a materialized view "
            "(@dp.materialized_view), which is refreshed when its inputs change",
        )


def refused_lent_stream(flow: FlowDefinition, table: str) -> UnsupportedError:
    return UnsupportedError(
        f"the flow {flow.name!r} reads {table!r} of another pipeline as a stream; only materialized views "
        "can read it, because its pipeline deletes rows without waiting for readers elsewhere",
        file=str(flow.place),
        remedy="define both in one pipeline, or read it in a materialized view (spark.read.table)",
    )


def refused_second_flow(flow: FlowDefinition) -> UnsupportedError:
    return UnsupportedError(
        f"the flow {flow.name!r} is the second one into the materialized view {flow.target!r}, which takes "
        "one query only",
        file=str(flow.place),
        remedy=f"union the two in the query of {flow.target!r}, or make it a streaming table",
    )


def refused_shared_files(flows: Sequence[str], folder: str, place: Place) -> UnsupportedError:
    return UnsupportedError(
        f"the flows {', '.join(map(repr, flows))} write files into one folder, {folder}, whose log takes "
        "each batch number once: Spark would silently skip batches of all but one of them",
        file=str(place),
        remedy="let the flows write a streaming table, and one flow take that into the sink; or give each "
        "flow a sink with a path of its own",
    )


def bad_flow(flow: FlowDefinition, failure: Exception) -> InputError:
    """A flow whose function failed, or that Spark cannot analyse, with the line of it that is to blame."""
    cause = first_line(failure)
    if not isinstance(failure, PySparkException):
        cause = f"{type(failure).__name__}: {cause}"
    place = flow.place
    if (line := line_of_failure(failure, place.file)) is not None:
        place = Place(place.file, line)
    remedy = foreign_remedy(failure, flow.target) or remedy_for(failure) or _remedy_for_missing(failure)
    message = f"the flow {flow.name!r} is wrong: {cause}"
    if isinstance(failure, PySparkException) and failure.getCondition() == "PATH_NOT_FOUND":
        path = (failure.getMessageParameters() or {}).get("path", "")
        return MissingPathError(message, path, file=str(place), remedy=remedy)
    return InputError(message, file=str(place), remedy=remedy)


class MissingPathError(InputError):
    """A flow reads a path where nothing is."""

    def __init__(self, message: str, path: str, *, file: str, remedy: str | None) -> None:
        """`path`: as Spark names it."""
        super().__init__(message, file=file, remedy=remedy)
        self.path = path

    def as_json(self) -> dict[str, object]:
        return {**super().as_json(), "kind": InputError.__name__}


_MISSING = {
    "PATH_NOT_FOUND": (
        "relative paths start at the current folder, as with spark-pipelines: change the folder, or "
        "give an absolute path"
    ),
    "TABLE_OR_VIEW_NOT_FOUND": (
        "neither this pipeline nor the site's catalog has it; Mooring finds tables of pipelines in "
        "this or a neighbouring folder after their first run; other tables need an existing endpoint "
        "whose catalog has them (`connect:`)"
    ),
}


def _remedy_for_missing(failure: Exception) -> str | None:
    condition = failure.getCondition() if isinstance(failure, PySparkException) else None
    return _MISSING.get(condition or "")


def stuck_flows(
    left: Sequence[FlowDefinition], waiting: Mapping[str, str], fed: Collection[str]
) -> InputError:
    """Flows that wait for datasets in a circle, or for one that is not `fed`."""
    flow, unfed = left[0], waiting.get(left[0].name, "")
    if unfed not in fed:
        return InputError(
            f"the flow {flow.name!r} reads {unfed!r}, which no flow writes", file=str(flow.place)
        )
    waits = "; ".join(f"{each.name!r} waits for {waiting.get(each.name)!r}" for each in left)
    return InputError(f"the flows read each other in a circle: {waits}", file=str(flow.place))


_REFUSED_LATER = "Async progress tracking cannot be used with AvailableNow trigger"
_REMEDIES = {
    "aggregat": (
        "add a watermark and group by a window of its column (withWatermark, then window), or make it "
        "a materialized view"
    ),
    "sort": "sort where the table is read, or make it a materialized view",
    "join": "add a watermark to both sides and a time range to the join, or make it a materialized view",
}


def check_appends(frame: DataFrame, flow: str, place: str) -> None:
    """Refuse a flow whose rows may still change after they were written, before anything runs.

    A streaming table only grows, so a row that is written must be final ("append"). Spark refuses a query
    whose rows are not, as an aggregate without a watermark, when it is started. Here it is started in a way
    that Spark refuses for another reason, once it has analysed the query and before anything is read:
    asynchronous progress tracking with a trigger that cannot have it.
    """
    writer = frame.writeStream.format("noop").outputMode("append").trigger(availableNow=True)
    try:
        started = writer.option("asyncProgressTrackingEnabled", "true").start()
    except AnalysisException as refused:
        why = str(refused).split(" SQLSTATE")[0].split(";\n")[0].strip().splitlines()[0].rstrip(";")
        remedy = next((said for word, said in _REMEDIES.items() if word in why.lower()), None)
        raise InputError(
            f"the flow {flow!r} cannot be written row by row: {why}", file=place, remedy=remedy
        ) from refused
    except PySparkException as refused:
        if _REFUSED_LATER not in str(refused):
            raise
    else:
        started.stop()
