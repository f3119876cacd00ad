"""Which store keeps a fragment's state: Spark's default, maps in memory written out as deltas, or RocksDB.

A checkpoint keeps the store that it began with, also if a session sets another one later (Spark notes it with
every batch), so the choice is made once. Measurements and reasons: docs/decisions/0013-state-stores.md.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from mooring.disk import DISK, Disk
from mooring.spark.sites import local_files
from mooring.spark.storage import stream_logs

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
MAPS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
LARGE_STATE_BYTES = 50e6
"""From here on moving RocksDB's files is quicker than replaying the maps' deltas."""

_LOCAL_FILES = "spark.hadoop.fs.file.impl"
_CHECKED = {
    local_files.SETTINGS[_LOCAL_FILES]: local_files.CHECKED,
    local_files.HADOOPS_FILES[_LOCAL_FILES]: "org.apache.hadoop.fs.LocalFileSystem",
}
"""The checksummed counterpart of a file system without checksums."""


def choose_store(session: SparkSession, checkpoint: Path, expected_bytes: float, disk: Disk = DISK) -> str:
    """Set the session up for the fragment's store and return it: the checkpoint's own, or one the user or the
    cluster has chosen, or by the state that is expected.
    """
    asked = str(session.conf.get(PROVIDER))
    recorded = stream_logs.recorded_settings(checkpoint, disk).get(PROVIDER)
    if recorded is None and asked == MAPS and expected_bytes >= LARGE_STATE_BYTES:
        asked = ROCKSDB
        session.conf.set(PROVIDER, ROCKSDB)
        session.conf.set(CHANGELOG, "false")
    store = recorded or asked
    if store == ROCKSDB and (checked := _CHECKED.get(str(session.conf.get(_LOCAL_FILES, "")))) is not None:
        # RocksDB's upload insists on a checksummed local file system; embedded sites go without for speed, so
        # this session gets its own.
        session.conf.set("fs.file.impl", checked)
        session.conf.set("fs.file.impl.disable.cache", "true")
    return store
