"""Reading and shortening the logs that Spark's streaming files are kept by.

Three logs matter to a channel, all of them folders of small files named by batch number, each starting with a
version line: what a file sink has written (`_spark_metadata`), what a file source has read (`sources/N` in
the reader's checkpoint), and what the reader has committed (`offsets` and `commits`). The first two are
compacted by Spark every tenth batch (`19.compact` holds everything up to 19) but never shortened, so they
grow with every file ever written. They may be shortened from outside: Spark reads them back only at the next
compaction or at a restart, a written file never changes, and we replace it in one rename.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mooring.errors import EngineError
from mooring.spark.storage.storage_root import local_path
from mooring.whole_files import write_whole

_NUMBERED = re.compile(r"(\d+)(\.compact)?")
_VERSION = "v1"


@dataclass(frozen=True)
class LogEntry:
    """One data file in a log."""

    path: Path
    size: int
    batch: int
    """Only sources note it; -1 in a sink's log."""
    modified_s: float = 0.0
    """When it was written, in seconds since 1970."""


def sink_entries(log: Path) -> list[LogEntry]:
    """Files a file sink has committed, oldest first."""
    return [entry for _, entry in _entries(log)]


def source_entries(log: Path, upto_batch: int) -> list[LogEntry]:
    """Files a file source had taken in by the given batch of its own log."""
    return [entry for _, entry in _entries(log) if entry.batch <= upto_batch]


def committed_source_batches(checkpoint: Path) -> list[int]:
    """For each source of a query, the last batch of its log that the query has committed (-1: none)."""
    committed = _last_number(checkpoint / "commits")
    if committed is None:
        return []
    try:
        lines = (checkpoint / "offsets" / str(committed)).read_text().splitlines()
    except FileNotFoundError:  # retired between the two reads; the caller looks again later
        return []
    return [_log_offset(line) for line in lines[2:]]


def _log_offset(line: str) -> int:
    """Of one source in an offsets file; those without a log of files (`rate`, sockets) write other things."""
    try:
        offset = json.loads(line)
    except ValueError:
        return -1
    return int(offset.get("logOffset", -1)) if isinstance(offset, dict) else -1


def last_committed_batch(checkpoint: Path) -> int | None:
    return _last_number(checkpoint / "commits")


def recorded_settings(checkpoint: Path) -> dict[str, str]:
    """The settings that a query's newest batch was planned under, which Spark keeps to; empty before any."""
    planned = _last_number(checkpoint / "offsets")
    if planned is None:
        return {}
    try:
        lines = (checkpoint / "offsets" / str(planned)).read_text().splitlines()
        settings = json.loads(lines[1]).get("conf") if len(lines) > 1 else None
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return {str(name): str(value) for name, value in (settings or {}).items()}


def last_batch(log: Path) -> int:
    """Number of the newest file of a log; -1 if it has none."""
    number = _last_number(log)
    return -1 if number is None else number


def absent_batch(log: Path) -> int | None:
    """The first batch that is in no file of the log although a later one is; None if there is none."""
    live = _live_files(log)  # once: a log that is written to meanwhile is not the same twice
    numbers = {number for number, _ in live}
    first = min(numbers) if any(file.suffix == ".compact" for _, file in live) else 0
    return next((number for number in range(first, max(numbers, default=-1)) if number not in numbers), None)


def drop_entries(log: Path, dropped: Collection[Path]) -> set[Path]:
    """Rewrite a log without the given files and say which it held; each file of the log in one rename.

    Spark may be compacting meanwhile from what it read before: the entries then come back with its next
    file, and have to be dropped again (see file_channel.py).
    """
    doomed = set(dropped)
    found: set[Path] = set()
    for _, file in _live_files(log) if doomed else ():
        if (content := _content(file)) is None:
            continue
        version, lines = content
        paths = [local_path(_fields(line, file)["path"], log) for line in lines]
        remaining = [line for line, path in zip(lines, paths, strict=True) if path not in doomed]
        if len(remaining) < len(lines):
            found.update(path for path in paths if path in doomed)
            # Clusters that keep checksum files beside others would find ours wrong.
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
            write_whole(file, "\n".join([version, *remaining]))
    return found


def _entries(log: Path) -> Iterator[tuple[int, LogEntry]]:
    for number, file in _live_files(log):
        if (content := _content(file)) is None:
            continue
        for line in content[1]:
            fields = _fields(line, file)
            modified_ms = fields.get("modificationTime", fields.get("timestamp", 0))
            yield (
                number,
                LogEntry(
                    local_path(fields["path"], log),
                    fields.get("size", 0),
                    fields.get("batchId", -1),
                    modified_ms / 1000,
                ),
            )


def _content(file: Path) -> tuple[str, list[str]] | None:
    """Version and lines of a log file; None if it was retired a moment ago."""
    try:
        version, *lines = file.read_text().splitlines() or [""]
    except FileNotFoundError:
        return None
    if version != _VERSION:
        found = "empty" if not version else f"of version {version!r}"
        raise EngineError(
            f"{file} is {found}, expected {_VERSION!r}", remedy="put it back as Spark wrote it, from a copy"
        )
    return version, lines


def _fields(line: str, file: Path) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except ValueError:
        fields = None
    if not isinstance(fields, dict) or not isinstance(fields.get("path"), str):
        raise EngineError(
            f"{file} has a line that names no file: {line[:60]!r}",
            remedy="put it back as Spark wrote it, from a copy",
        )
    return fields


def _live_files(log: Path) -> list[tuple[int, Path]]:
    """The newest compacted file and what came after it, in order; older ones only repeat."""
    found = []
    for name in os.listdir(log) if log.is_dir() else ():
        if (match := _NUMBERED.fullmatch(name)) is not None:
            found.append((int(match[1]), match[2] is not None, log / name))
    first = max((number for number, compact, _ in found if compact), default=-1)
    return sorted((number, path) for number, _, path in found if number >= first)


def _last_number(folder: Path) -> int | None:
    names = os.listdir(folder) if folder.is_dir() else []
    return max((int(match[1]) for name in names if (match := _NUMBERED.fullmatch(name))), default=None)
