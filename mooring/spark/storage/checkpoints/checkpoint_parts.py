"""A checkpoint made of another one, for a part of the fragment that wrote it.

Spark keeps a query's checkpoint in numbered files: `offsets/N` says how far every source will have been read
after batch N, a line per source; `commits/N` says that the batch is done; `sources/S` lists what a file
source has taken in; `state/O` is the state after each batch. A restart reads the newest two offsets and the
newest commit. So a part that goes on with the sources keeps those lines and lists; one that begins with a new
channel has a line that says "nothing yet".
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path

from mooring.errors import EngineError
from mooring.spark.storage import stream_logs
from mooring.spark.storage.fresh_folder import carry_into
from mooring.spark.storage.owned_folder import OwnedFolder
from mooring.whole_files import sync_folder, write_whole

_NOTHING_READ = "-"
"""How Spark writes the offset of a source of which nothing was read."""
_EMPTY = "v1"
"""A file of a sink's log that names none."""
_SINK_LOG_COMPACTED_EVERY = 10
"""Batches; Spark's default, which it also tells from two compacted files that it finds."""


def source_count(checkpoint: Path) -> int:
    """Sources of the query whose checkpoint this is."""
    return len(_newest_offsets(checkpoint)[2:])


def has_state(checkpoint: Path) -> bool:
    return any((checkpoint / "state").glob("*"))


def make_part(
    checkpoint: Path, aside: Path, *, sources: Sequence[int | None] | None, state: bool, query: bool
) -> None:
    """Make a checkpoint at `aside` that goes on where `checkpoint` stands, between two batches.

    `sources`: which of the old ones each of its sources goes on with, None for one of which nothing was read;
    None instead of all: just as they are. `state`: with its state. `query`: as the same query; two that run
    side by side need names of their own.
    """
    shutil.rmtree(aside, ignore_errors=True)
    aside.parent.mkdir(exist_ok=True)
    carry_into(checkpoint, aside)
    if not query:
        _replace(aside / "metadata", json.dumps({"id": str(uuid.uuid4())}, separators=(",", ":")))
    if not state:
        shutil.rmtree(aside / "state", ignore_errors=True)
    if sources is not None:
        _renumber(aside, sources)
    _on_disk(aside)


def _on_disk(folder: Path) -> None:
    """What the record will say was made has to outlast a power failure that the record outlasts."""
    for inner, _, _ in os.walk(folder):
        sync_folder(Path(inner))
    sync_folder(folder.parent)


def _renumber(checkpoint: Path, sources: Sequence[int | None]) -> None:
    logs, old_logs = checkpoint / "sources", checkpoint / ".sources"
    if logs.is_dir():
        logs.rename(old_logs)
        logs.mkdir()
        for number, old in enumerate(sources):
            if old is not None and (old_logs / str(old)).is_dir():
                (old_logs / str(old)).rename(logs / str(number))
        shutil.rmtree(old_logs)
    newest = stream_logs.last_batch(checkpoint / "offsets")
    for file in (checkpoint / "offsets" / str(batch) for batch in range(max(0, newest - 1), newest + 1)):
        version, settings, *offsets = file.read_text().splitlines()
        lines = [_NOTHING_READ if old is None else offsets[old] for old in sources]
        _replace(file, "\n".join([version, settings, *lines]))


def _replace(file: Path, content: str) -> None:
    """Without touching the file that it is a link to; a checksum beside it would be the old one's."""
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    write_whole(file, content, on_disk=True)


def begin_sink_log(log: Path, batch: int, owned: OwnedFolder) -> None:
    """Let the log of a new channel stand at `batch`, without a file: its writer goes on counting from there,
    and Spark expects every batch since the last compacted one.
    """
    if stream_logs.last_batch(log) >= batch:
        return
    owned.make_folder(log)
    compacted = (batch + 1) // _SINK_LOG_COMPACTED_EVERY * _SINK_LOG_COMPACTED_EVERY - 1
    for earlier in (compacted - _SINK_LOG_COMPACTED_EVERY, compacted):
        if earlier >= 0:
            owned.replace(log / f"{earlier}.compact", _EMPTY)
    for number in range(compacted + 1, batch + 1):
        owned.replace(log / str(number), _EMPTY)


def _newest_offsets(checkpoint: Path) -> list[str]:
    newest = stream_logs.last_batch(checkpoint / "offsets")
    try:
        return (checkpoint / "offsets" / str(newest)).read_text().splitlines()
    except OSError as failure:
        raise EngineError(f"the checkpoint {checkpoint} cannot be read: {failure}") from failure
