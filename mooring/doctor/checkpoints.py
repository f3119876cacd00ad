"""Checkpoints: epochs behind their fence, the note of their flows, and what each batch left."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from mooring.checksum import checked
from mooring.doctor.diagnosis import Diagnosis, some
from mooring.doctor.epochs import look_at_epochs
from mooring.doctor.stored_parts import StoredParts
from mooring.errors import EngineError
from mooring.spark.storage import stream_logs
from mooring.spark.storage.checkpoints.fallback import Fallback
from mooring.spark.storage.fencing import current_epoch, newest_number

PART = "checkpoint"
_FROM_A_COPY = "restore it from a copy, or start the pipeline over with --fresh"
_VERSION = re.compile(r"(\d+)(?:_[^.]+)?\.(?:delta|snapshot|zip|changelog)")


def look_at_checkpoints(parts: StoredParts) -> Iterator[Diagnosis]:
    for name in parts.fragments():
        try:
            yield from _look_at(parts, name)
        except (EngineError, OSError) as damage:
            remedy = damage.remedy if isinstance(damage, EngineError) else "make it readable"
            message = damage.message if isinstance(damage, EngineError) else str(damage)
            yield Diagnosis(PART, name, "lost", message, remedy)


def _look_at(parts: StoredParts, name: str) -> Iterator[Diagnosis]:
    home, note_file = parts.checkpoints / name, parts.fragment_note(name)
    newest = current_epoch(home)
    if not newest.is_dir():
        if note_file.exists():
            yield Diagnosis(PART, name, "lost", f"the checkpoint in {home} is missing", _FROM_A_COPY)
        elif newest_number(home):
            yield Diagnosis(PART, name, "sound", "was dropped on request; its epochs stay closed")
        return
    if (damage := _note_damage(note_file)) is not None:
        yield Diagnosis(PART, name, "lost", damage, _FROM_A_COPY)
    fallback = parts.fallbacks.get(name)
    if isinstance(fallback, Fallback):
        remedy = "the next run falls back to it and computes later batches again"
        yield Diagnosis(PART, name, "pending", str(fallback), remedy)
    elif fallback is not None:
        yield Diagnosis(PART, name, "lost", fallback.message, fallback.remedy)
    elif (damage := batches_lost(newest)) is not None:
        yield Diagnosis(PART, name, "lost", damage, _FROM_A_COPY)
    else:
        yield Diagnosis(PART, name, "sound", _described(home, newest))
    yield from look_at_epochs(home, PART, name)
    if not note_file.exists():
        what = f"{note_file} is missing, so edits of its flows cannot be detected"
        yield Diagnosis(PART, name, "pending", what, "the next start writes it")


def _note_damage(file: Path) -> str | None:
    try:
        note = json.loads(checked(file.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as damage:
        return f"{file} cannot be read: {damage}"
    fit = isinstance(note, dict) and isinstance(note.get("flows"), dict)
    return None if fit else f"{file} does not name the flows of the checkpoint"


def batches_lost(checkpoint: Path) -> str | None:
    """What is missing of the batches that a checkpoint says were committed; None if nothing is."""
    offsets, commits = _numbers(checkpoint / "offsets"), _numbers(checkpoint / "commits")
    if not (offsets or commits):
        return None
    if not (checkpoint / "metadata").is_file():
        return f"{checkpoint} has no `metadata`, which identifies its query"
    committed = max(commits, default=-1)
    for folder, numbers in (("offsets", offsets), ("commits", commits)):
        if absent := _absent(numbers):
            return f"{checkpoint / folder} has no {some([str(number) for number in absent])}"
    if commits and committed not in offsets:
        return f"{checkpoint / 'offsets'} has no {committed}, which was committed"
    for file in (checkpoint / "offsets" / str(max(offsets)), checkpoint / "commits" / str(committed)):
        if file.exists() and not file.read_bytes().startswith(b"v"):
            return f"{file} is empty or damaged"
    if (damage := _sources_lost(checkpoint)) is not None:
        return damage
    return _state_lost(checkpoint / "state", committed + 1)


def _sources_lost(checkpoint: Path) -> str | None:
    """Logs of the files that sources have read, as far as batches were committed."""
    for number, batch in enumerate(stream_logs.committed_source_batches(checkpoint)):
        log = checkpoint / "sources" / str(number)
        if batch is None or batch < 0:
            continue
        if stream_logs.last_batch(log) < batch:
            return f"{log} ends at batch {stream_logs.last_batch(log)}, its query has committed {batch}"
        stream_logs.source_entries(log, batch)  # every line can be read
    return None


def _state_lost(state: Path, version: int) -> str | None:
    """Every store has what its state is made of after the last commit: a file of that version."""
    if version < 1 or not state.is_dir():
        return None
    for partition in sorted(state.glob("[0-9]*/[0-9]*")):
        stores = [(folder, _versions(names)) for folder, _, names in os.walk(partition)]
        found = [(folder, versions) for folder, versions in stores if versions]
        for folder, versions in found or [(str(partition), set())]:
            if version not in versions:
                return f"the state in {folder} has no version {version}, which was committed"
    return None


def _versions(names: list[str]) -> set[int]:
    return {int(match[1]) for name in names if (match := _VERSION.fullmatch(name))}


def _numbers(folder: Path) -> set[int]:
    names = os.listdir(folder) if folder.is_dir() else []
    return {int(name) for name in names if name.isdigit()}


def _absent(numbers: set[int]) -> list[int]:
    """Of a log whose oldest entries are removed in order."""
    return sorted(set(range(min(numbers), max(numbers))) - numbers) if numbers else []


def _described(home: Path, newest: Path) -> str:
    committed = max(_numbers(newest / "commits"), default=None)
    planned = max(_numbers(newest / "offsets"), default=-1)
    epoch = f"epoch {newest_number(home)}"
    if committed is None:
        return f"{epoch}, nothing committed yet"
    in_doubt = f"; batch {planned} was planned and is done again" if planned > committed else ""
    return f"{epoch}, {committed + 1} batches committed{in_doubt}"
