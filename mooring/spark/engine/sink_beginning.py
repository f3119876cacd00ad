"""The first batch number of a new query whose sink was written before.

Two properties of the query only Spark can give. The number of its sources comes from a query over the same
plan with a checkpoint of none: Spark refuses it and names the number. Which operators keep state, in how many
partitions, stands in the physical plan.
"""

from __future__ import annotations

import json
import re
import secrets
import uuid
from collections.abc import Callable
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from mooring.disk import DISK
from mooring.errors import EngineError
from mooring.model.deployment.fragments import Fragment
from mooring.spark.pipeline.layout import Layout
from mooring.spark.sites.endpoint import first_line
from mooring.spark.storage import stream_logs
from mooring.spark.storage.checkpoints.later_beginning import NOTED_SETTINGS, KeptState, LaterBeginning
from mooring.spark.storage.sink_numbers import SinkPlace, last_taken

_SOURCES = re.compile(r"now there are \[(\d+)\] sources")
_STATE = re.compile(r"opId = (\d+), ver = \d+, numPartitions = (\d+)")
_JOIN = "StreamingSymmetricHashJoin"
_CHECKPOINT_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_PATIENCE_S = 60
"""Seconds for Spark to refuse a query; it reads nothing."""


def later_beginning(
    layout: Layout, fragment: Fragment, frame: DataFrame, session: SparkSession
) -> LaterBeginning | None:
    """How the query of a fragment begins whose checkpoint is empty and whose sink is not; None for others."""
    sink = layout.sink_of(fragment.name)
    if sink is None or stream_logs.last_batch(layout.checkpoint(fragment.name) / "offsets", layout.disk) >= 0:
        return None
    batch = last_taken(layout.root, sink)
    if batch < 0 or (sink.log is None and _is_gone(sink, session)):
        return None
    stateful = any(layout.pipeline.flows[name].stateful for name in fragment.operators)
    scratch = layout.root / f".tried-{secrets.token_hex(4)}"
    try:
        return told_about(frame, session, batch, scratch, layout.address, stateful=stateful)
    except _UntoldError as untold:
        raise EngineError(
            f"the sink {sink.dataset!r} has batches up to {batch} of an earlier query, and the query of "
            f"{fragment.name!r} cannot continue after them: {untold}",
            remedy="give the sink an empty path or table, where batches begin with 0",
        ) from untold


def told_about(
    frame: DataFrame,
    session: SparkSession,
    batch: int,
    scratch: Path,
    address: Callable[[Path], str],
    *,
    stateful: bool,
) -> LaterBeginning:
    """What a query of this plan needs to begin after `batch`. `scratch`: a folder to be made and removed, for
    which the site has an address.
    """
    states = _states(frame, session)
    if stateful and not states:
        raise _UntoldError("its physical plan does not list its state")
    if states and (version := str(session.conf.get(_CHECKPOINT_FORMAT))) != "1":
        raise _UntoldError(f"{_CHECKPOINT_FORMAT} is {version}, under which an empty state has no name")
    return LaterBeginning(batch, _source_count(frame, scratch, address), _settings(session), states)


class _UntoldError(Exception):
    """What is not known of a query."""


def _is_gone(sink: SinkPlace, session: SparkSession) -> bool:
    """Whether the site finds nothing where the sink's files were: a log that is gone has no numbers."""
    try:
        _ = sink.path and session.read.format("binaryFile").load(sink.path).schema
    except PySparkException as failure:
        return failure.getCondition() == "PATH_NOT_FOUND"
    return False


def _settings(session: SparkSession) -> dict[str, str]:
    found = {}
    for name in NOTED_SETTINGS:
        try:
            found[name] = str(session.conf.get(name))
        except PySparkException:  # of another release, which does not note it either
            continue
    return found


def _source_count(frame: DataFrame, scratch: Path, address: Callable[[Path], str]) -> int:
    try:
        DISK.make_folder(scratch / "offsets", parents=True)
        DISK.replace(scratch / "metadata", json.dumps({"id": str(uuid.uuid4())}).encode(), durable=False)
        nothing = b'v1\n{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'
        DISK.replace(scratch / "offsets" / "0", nothing, durable=False)
        return _told_sources(frame, address(scratch))
    finally:
        DISK.delete(scratch)


def _told_sources(frame: DataFrame, checkpoint: str) -> int:
    writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination(_PATIENCE_S)
        said = "nothing"
    except PySparkException as failure:
        if (found := _SOURCES.search(str(failure))) is not None:
            return int(found[1])
        said = first_line(failure)
    finally:
        query.stop()
    raise _UntoldError(f"Spark does not report the number of its sources: {said}")


def _states(frame: DataFrame, session: SparkSession) -> tuple[KeptState, ...]:
    plan = session.client.explain_string(frame._plan.to_proto(session.client), explain_mode="extended")
    found: dict[int, KeptState] = {}
    for line in plan.partition("== Physical Plan ==")[2].splitlines():
        if (state := _STATE.search(line)) is not None:
            operator = int(state[1])
            found.setdefault(operator, KeptState(operator, int(state[2]), _JOIN in line))
    return tuple(found.values())
