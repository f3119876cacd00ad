"""A rehearsal: one batch of a fragment at its target, over copies and into scratch, before it moves there.

A first batch at a site loads classes, compiles the plan's generated code and reads the state: most of the
pause of a first move. The rehearsal does the same while the fragment still runs at its source. It repeats
the newest batch of a hard-linked checkpoint, with the same plan and the same writer. Its id, its checkpoint,
its sink's log and its rows lie in a folder of their own, so it changes nothing that anybody reads.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from pathlib import Path

from pyspark.errors import PySparkException

from mooring.disk import Disk
from mooring.errors import EngineError
from mooring.spark.definitions.running_session import active_session
from mooring.spark.engine.fragment_query import PreparedFragment, query_writer
from mooring.spark.storage import stream_logs
from mooring.spark.storage.checkpoints.later_beginning import name_query
from mooring.spark.storage.checkpoints.state_store import LARGE_STATE_BYTES
from mooring.spark.storage.fresh_folder import carry_into

LONGEST_BATCH_S = 10.0
"""In a batch that takes longer, rows count for more than what a rehearsal saves."""
_PATIENCE_S = 60
_NUMBER = re.compile(r"(\d+)(\.compact)?")
_IGNORE_MISSING = "spark.sql.files.ignoreMissingFiles"


def pays(prepared: PreparedFragment, state_bytes: float, batch_s: float | None) -> bool:
    """Whether a rehearsal is possible, and shortens the move: it reads channels alone, which may be read
    twice, and it does not hold a large state twice.
    """
    layout, fragment = prepared.layout, prepared.fragment
    if prepared.starter is not None or fragment.name not in layout.channels or batch_s is None:
        return False
    if any(layout.pipeline.flows[flow].outside for flow in fragment.operators):
        return False
    return state_bytes <= LARGE_STATE_BYTES and batch_s <= LONGEST_BATCH_S


def rehearse(prepared: PreparedFragment) -> bool:
    """Repeat the fragment's newest batch in the session in which it will start. A rehearsal that fails is no
    failure: the move is then slower, or says itself what is wrong.
    """
    layout, session = prepared.layout, prepared.session
    folder = layout.storage_root.folder / "warming" / uuid.uuid4().hex
    try:
        if not _copied(prepared, folder):
            return False
        # What the batch read may have been trimmed since.
        asked = str(session.conf.get(_IGNORE_MISSING))
        session.conf.set(_IGNORE_MISSING, "true")
        try:
            with active_session(session):
                writer = query_writer(
                    *(layout, prepared.fragment, prepared.definitions, prepared.frame),
                    folder / "checkpoint",
                    into=folder / "rows",
                )
                query = writer.trigger(once=True).start()
        finally:
            session.conf.set(_IGNORE_MISSING, asked)
        try:
            return bool(query.awaitTermination(_PATIENCE_S))
        finally:
            query.stop()
    except (PySparkException, EngineError, OSError):
        return False
    finally:
        with contextlib.suppress(OSError):  # what stays is never read
            layout.disk.delete(folder)


def _copied(prepared: PreparedFragment, folder: Path) -> bool:
    """Checkpoint and sink log as they were before the newest batch; False if there is none."""
    layout, disk = prepared.layout, prepared.layout.disk
    checkpoint = folder / "checkpoint"
    disk.make_folder(folder, parents=True)
    carry_into(layout.checkpoint(prepared.fragment.name), checkpoint, disk, left_out={"metadata"})
    planned = stream_logs.last_batch(checkpoint / "offsets", disk)
    if planned < 0:
        return False
    name_query(checkpoint, disk)
    disk.delete(checkpoint / "commits" / str(planned))
    log = folder / "rows" / "_spark_metadata"
    disk.make_folder(log.parent)
    carry_into(layout.channels[prepared.fragment.name].sink_log, log, disk)
    _cut(log, planned, disk)
    return True


def _cut(log: Path, batch: int, disk: Disk) -> None:
    """Spark skips a batch that the sink's log has."""
    for name in disk.list(log):
        if (match := _NUMBER.fullmatch(name)) is not None and int(match[1]) >= batch:
            disk.delete(log / name)
