"""A checkpoint made of another one, for a part of the fragment that wrote it.

Spark keeps a query's checkpoint in numbered files: `offsets/N` says how far every source will have been read
after batch N, a line per source; `commits/N` says that the batch is done; `sources/S` lists what a file
source has taken in; `state/O` is the state after each batch. A restart reads the newest two offsets and the
newest commit. So a part that goes on with the sources keeps those lines and lists; one that begins with a new
channel has a line that says "nothing yet".
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from pathlib import Path

from mooring.disk import DISK, Disk, everything_below, is_folder
from mooring.errors import EngineError
from mooring.spark.storage import stream_logs
from mooring.spark.storage.fresh_folder import carry_into
from mooring.spark.storage.owned_folder import OwnedFolder

_NOTHING_READ = "-"
"""How Spark writes the offset of a source of which nothing was read."""
_EMPTY = "v1"
"""A file of a sink's log that names none."""
_SINK_LOG_COMPACTED_EVERY = 10
"""Batches; Spark's default, which it also tells from two compacted files that it finds."""


def source_count(checkpoint: Path, disk: Disk = DISK) -> int:
    """Sources of the query whose checkpoint this is."""
    return len(_newest_offsets(checkpoint, disk)[2:])


def has_state(checkpoint: Path, disk: Disk = DISK) -> bool:
    return bool(disk.list(checkpoint / "state"))


def make_part(
    checkpoint: Path,
    aside: Path,
    disk: Disk = DISK,
    *,
    sources: Sequence[int | None] | None,
    state: bool,
    query: bool,
) -> None:
    """Make a checkpoint at `aside` that goes on where `checkpoint` stands, between two batches.

    `sources`: which of the old ones each of its sources goes on with, None for one of which nothing was read;
    None instead of all: just as they are. `state`: with its state. `query`: as the same query; two that run
    side by side need names of their own.
    """
    disk.delete(aside)
    disk.make_folder(aside.parent, exist_ok=True)
    carry_into(checkpoint, aside, disk)
    if not query:
        _replace(disk, aside / "metadata", json.dumps({"id": str(uuid.uuid4())}, separators=(",", ":")))
    if not state:
        disk.delete(aside / "state")
    if sources is not None:
        _renumber(disk, aside, sources)
    _on_disk(disk, aside)


def _on_disk(disk: Disk, folder: Path) -> None:
    """What the record will say was made has to outlast a power failure that the record outlasts."""
    inner = (path for path, found in everything_below(disk, folder) if found.kind == "folder")
    disk.sync([folder, *inner, folder.parent])


def _renumber(disk: Disk, checkpoint: Path, sources: Sequence[int | None]) -> None:
    logs, old_logs = checkpoint / "sources", checkpoint / ".sources"
    if is_folder(disk, logs):
        disk.move(logs, old_logs)
        disk.make_folder(logs)
        for number, old in enumerate(sources):
            if old is not None and is_folder(disk, old_logs / str(old)):
                disk.move(old_logs / str(old), logs / str(number))
        disk.delete(old_logs)
    newest = stream_logs.last_batch(checkpoint / "offsets", disk)
    for file in (checkpoint / "offsets" / str(batch) for batch in range(max(0, newest - 1), newest + 1)):
        version, settings, *offsets = disk.read(file).data.decode().splitlines()
        lines = [_NOTHING_READ if old is None else offsets[old] for old in sources]
        _replace(disk, file, "\n".join([version, settings, *lines]))


def _replace(disk: Disk, file: Path, content: str) -> None:
    """Without touching the file that it is a link to; a checksum beside it would be the old one's."""
    disk.delete(file.with_name(f".{file.name}.crc"))
    disk.replace(file, content.encode())


def begin_sink_log(log: Path, batch: int, owned: OwnedFolder) -> None:
    """Let the log of a new channel stand at `batch`, without a file: its writer goes on counting from there,
    and Spark expects every batch since the last compacted one.
    """
    if stream_logs.last_batch(log, owned.disk) >= batch:
        return
    owned.make_folder(log)
    compacted = (batch + 1) // _SINK_LOG_COMPACTED_EVERY * _SINK_LOG_COMPACTED_EVERY - 1
    for earlier in (compacted - _SINK_LOG_COMPACTED_EVERY, compacted):
        if earlier >= 0:
            owned.replace(log / f"{earlier}.compact", _EMPTY, on_disk=True)
    for number in range(compacted + 1, batch + 1):
        owned.replace(log / str(number), _EMPTY, on_disk=True)


def _newest_offsets(checkpoint: Path, disk: Disk) -> list[str]:
    newest = stream_logs.last_batch(checkpoint / "offsets", disk)
    try:
        return disk.read(checkpoint / "offsets" / str(newest)).data.decode().splitlines()
    except OSError as failure:
        raise EngineError(f"the checkpoint {checkpoint} cannot be read: {failure}") from failure
