"""Channels: the note of the readers and their needs, the folder behind its link, the sink's log, each file it
names."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mooring.checksum import checked
from mooring.doctor.diagnosis import Diagnosis, some
from mooring.doctor.stored_parts import StoredParts
from mooring.errors import EngineError
from mooring.quantity import quantity
from mooring.spark.storage import stream_logs
from mooring.spark.storage.checkpoints.fallback import Fallback
from mooring.spark.storage.file_channel import FileChannel
from mooring.spark.storage.views.versions import VIEWS

PART = "channel"
_FROM_A_COPY = "restore it from a copy, or start the pipeline over with --fresh"


def look_at_channels(parts: StoredParts) -> Iterator[Diagnosis]:
    folders = parts.channel_folders()
    for folder in folders:
        if isinstance(parts.fallbacks.get(folder.name), Fallback):
            continue  # told where its writer's checkpoint is looked at
        try:
            yield from _look_at(parts, folder)
        except (EngineError, OSError) as damage:
            remedy = damage.remedy if isinstance(damage, EngineError) else "make it readable"
            message = damage.message if isinstance(damage, EngineError) else str(damage)
            yield Diagnosis(PART, folder.name, "lost", message, remedy)
    yield from _links_to_nothing(parts, {folder.name for folder in folders})


def _look_at(parts: StoredParts, folder: Path) -> Iterator[Diagnosis]:
    name, note_file = folder.name, parts.channel_note(folder)
    if not note_file.exists():
        log = folder / "_spark_metadata"
        if stream_logs.last_batch(log) >= 0:
            what = f"holds rows, but its list of readers {note_file} is missing"
            yield Diagnosis(PART, name, "lost", what, _FROM_A_COPY)
        else:
            yield Diagnosis(
                PART, name, "pending", "an empty folder without a note", "the next run creates it"
            )
        return
    note = _note(note_file)
    channel = FileChannel(name, folder, parts.links / name, parts.checkpoint, parts.owned)
    if (lost := channel.lost()) is not None:
        yield Diagnosis(PART, name, "lost", lost, _FROM_A_COPY)
        return
    of_view = (parts.root / VIEWS / folder.parent.name).is_dir()  # whose refreshes no checkpoint counts
    planned = stream_logs.last_batch(parts.checkpoint(name) / "offsets")
    if not of_view and channel.goes_beyond(planned):
        what = "has a batch that its writer's checkpoint lacks; resuming would drop rows"
        yield Diagnosis(PART, name, "lost", what, f"restore the checkpoint of {name}, or use --fresh")
        return
    trouble = _files_lost(channel, note)
    if trouble is not None:
        yield Diagnosis(PART, name, "lost", trouble, _FROM_A_COPY)
        return
    yield Diagnosis(PART, name, "sound", _described(channel, note))
    if note["trimming"]:
        what = f"{len(note['trimming'])} files were being trimmed"
        yield Diagnosis(PART, name, "pending", what, "the next run finishes it")
    if channel.merges.under_way(note):
        what = f"{len(channel.merges.replaced(note))} small files were being merged"
        yield Diagnosis(PART, name, "pending", what, "the next run finishes it")


def _note(file: Path) -> dict[str, Any]:
    """As a run writes it; `EngineError` if it is damaged."""
    try:
        note = json.loads(checked(file.read_bytes()))
        expected = {"start": int, "trimming": list, "doubtful": dict, "readers": dict}
        wrong = [key for key, kind in expected.items() if not isinstance(note[key], kind)]
    except (ValueError, KeyError, TypeError) as damage:
        raise EngineError(f"{file} cannot be read: {damage!r}", remedy=_FROM_A_COPY) from None
    if wrong:
        raise EngineError(f"{file} has no usable {some(wrong)}", remedy=_FROM_A_COPY)
    found: dict[str, Any] = note
    return found


def _stored(channel: FileChannel, note: dict[str, Any]) -> list[stream_logs.LogEntry]:
    gone = {*note["trimming"], *(path for _, path in note["doubtful"].get("_spark_metadata", ()))}
    return [entry for entry in stream_logs.sink_entries(channel.sink_log) if str(entry.path) not in gone]


def _files_lost(channel: FileChannel, note: dict[str, Any]) -> str | None:
    """A run looks for the oldest and the newest file at every look; here every file is looked for."""
    absent, cut = [], []
    for entry in _stored(channel, note):
        try:
            size = os.stat(entry.path).st_size
        except OSError:
            absent.append(entry.path.name)
        else:
            if size != entry.size:
                cut.append(entry.path.name)
    if absent:
        return f"{len(absent)} files of its log are missing: {some(absent)}"
    return f"{len(cut)} files have another size than its log says: {some(cut)}" if cut else None


def _described(channel: FileChannel, note: dict[str, Any]) -> str:
    state, stored = channel.state(), _stored(channel, note)
    said = [f"{len(stored)} files, {quantity(state.stored_bytes, 'B')}"]
    for reader, position in sorted(state.committed.items()):
        if reader.startswith("results "):
            said.append("kept as results")
        else:
            behind = state.end - position
            said.append(f"{reader} has read all" if not behind else f"{reader} has {behind} to read")
    known = {entry.path.name for entry in stored} | channel.merges.replaced(note)
    if unlisted := len([name for name in _file_names(channel.folder) if name not in known]):
        said.append(f"{unlisted} files of batches that never committed, which no reader uses")
    return "; ".join(said)


def _file_names(folder: Path) -> Iterator[str]:
    """Of rows, in the folders of partitions too."""
    for _, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_spark"))]
        yield from (name for name in files if not name.startswith((".", "_")))


def _links_to_nothing(parts: StoredParts, channels: set[str]) -> Iterator[Diagnosis]:
    """A link without a channel: folder and note are both gone."""
    if not parts.links.is_dir():
        return
    for name in sorted(os.listdir(parts.links)):
        if name not in channels:
            what = f"folder and note are missing, but {parts.links / name} exists"
            yield Diagnosis(PART, name, "lost", what, _FROM_A_COPY)
