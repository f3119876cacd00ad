"""A checkpoint of which nothing was read yet, and whose first batch has a number later than 0.

Sinks take a batch once by its number: what their log has already, they skip. A new query with a sink that was
written before must therefore continue the numbers where the sink's log ends. Spark plans the batch after the
newest one in `offsets` and `commits`, so these hold one that reads nothing. A stateful query loads the state
of that number, so there is an empty one for each of its stores.
"""

from __future__ import annotations

import json
import uuid
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from mooring.disk import DISK, Disk, is_file
from mooring.spark.storage.checkpoints.state_store import PROVIDER, ROCKSDB

NOTED_SETTINGS = (
    PROVIDER,
    "spark.sql.streaming.multipleWatermarkPolicy",
    "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion",
    "spark.sql.streaming.aggregation.stateFormatVersion",
    "spark.sql.streaming.join.stateFormatVersion",
    "spark.sql.streaming.stateStore.compression.codec",
    "spark.sql.streaming.stateStore.rocksdb.formatVersion",
    "spark.sql.streaming.stateStore.rocksdb.mergeOperatorVersion",
    "spark.sql.streaming.statefulOperator.useStrictDistribution",
    "spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled",
    "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan",
    "spark.sql.streaming.stateStore.encodingFormat",
    "spark.sql.streaming.stateStore.rowChecksum.enabled",
    "spark.sql.function.protobufExtensions.enabled",
    "spark.sql.streaming.queryEvolution.enableSourceEvolution",
    "spark.sql.dropDuplicates.deterministicKeyOrder.enabled",
    "spark.sql.shuffle.partitions",
)
"""What Spark notes with every batch and keeps to. What is missing it takes to be as in older releases."""

_CODEC = "spark.sql.streaming.stateStore.compression.codec"
_NOTHING_READ = "-"
"""How Spark writes the offset of a source of which nothing was read."""
_END = b"\xff\xff\xff\xff"
"""After the last key of a snapshot."""
_END_SUM = bytes.fromhex("db804d08")
_NO_KEYS = (
    b"LZ4Block\x15" + b"\x04\0\0\0" * 2 + _END_SUM + _END  # one block of four bytes, not compressed
    + b"LZ4Block\x15" + bytes(12)  # and the end of blocks
)  # fmt: skip
"""A snapshot of the maps in memory, in LZ4 as Spark writes it."""
_NO_FILES = 'v1\n{"sstFiles":[],"logFiles":[],"numKeys":0,"numInternalKeys":0}'
"""RocksDB's list of what a version consists of."""
_JOIN_STORES = tuple(
    f"{side}-{kind}" for side in ("left", "right") for kind in ("keyToNumValues", "keyWithIndexToValue")
)


def name_query(checkpoint: Path, disk: Disk) -> None:
    """Give a checkpoint the id by which Spark knows its query; on disk when this returns."""
    disk.replace(checkpoint / "metadata", json.dumps({"id": str(uuid.uuid4())}).encode())


@dataclass(frozen=True)
class KeptState:
    """What a query keeps from batch to batch in one of its operators."""

    operator: int
    partitions: int
    join: bool
    """Of two streams, which keeps four stores; all others keep one without a name."""


@dataclass(frozen=True)
class LaterBeginning:
    batch: int
    """The newest number that is taken; the query's first batch has the next."""
    sources: int
    settings: Mapping[str, str]
    """Those of `NOTED_SETTINGS` that the site knows."""
    states: tuple[KeptState, ...] = ()

    def write(self, checkpoint: Path, disk: Disk = DISK) -> None:
        """Into the folder of a checkpoint that no query has planned a batch in."""
        for folder, name, content in self._state_files():
            disk.make_folder(checkpoint / folder, parents=True, exist_ok=True)
            disk.replace(checkpoint / folder / name, content)
        for folder in ("offsets", "commits"):
            disk.make_folder(checkpoint / folder, parents=True, exist_ok=True)
        if not is_file(disk, checkpoint / "metadata"):
            name_query(checkpoint, disk)
        noted = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {**self.settings, _CODEC: "lz4"}}
        offsets = "\n".join(["v1", json.dumps(noted), *[_NOTHING_READ] * self.sources])
        for number in range(max(0, self.batch - 1), self.batch + 1):
            disk.replace(checkpoint / "offsets" / str(number), offsets.encode())
        disk.replace(checkpoint / "commits" / str(self.batch), b'v1\n{"nextBatchWatermarkMs":0}')

    def _state_files(self) -> Iterable[tuple[str, str, bytes]]:
        version = self.batch + 1
        if self.settings.get(PROVIDER) == ROCKSDB:
            name, content = f"{version}.zip", _zipped(_NO_FILES)
        else:
            name, content = f"{version}.snapshot", _NO_KEYS
        for state in self.states:
            for partition in range(state.partitions):
                for store in _JOIN_STORES if state.join else (".",):
                    yield f"state/{state.operator}/{partition}/{store}", name, content


def _zipped(metadata: str) -> bytes:
    made = BytesIO()
    with zipfile.ZipFile(made, "w") as packed:
        packed.writestr("metadata", metadata)
    return made.getvalue()
