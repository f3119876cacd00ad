"""Reading and shortening the logs that Spark's streaming files are kept by.

Three logs matter to a channel, all of them folders of small files named by batch number, each starting with a
version line: what a file sink has written (`_spark_metadata`), what a file source has read (`sources/N` in
the reader's checkpoint), and what the reader has committed (`offsets` and `commits`). The first two are
compacted by Spark every tenth batch (`19.compact` holds everything up to 19) but never shortened, so they
grow with every file ever written. They may be shortened from outside: Spark reads them back only at the next
compaction or at a restart, a written file never changes, and we replace it in one rename.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from mooring.disk import DISK, Disk, read_if_there
from mooring.errors import EngineError
from mooring.spark.storage.compacted_name import items_of, read_name
from mooring.spark.storage.storage_root import local_path

VERSION = b"v1"
"""The first line of every log file."""
_USUAL_INTERVAL = 10
"""Spark's default; the first compacted file of a log is at most so far in."""
_LISTINGS = 20
"""How often a log is listed that lacks a file."""
_FROM_A_COPY = "restore it from a copy, as Spark wrote it"
_NOTHING_READ = "-"
"""What an offsets file says of a source that has read nothing."""
_NUMBERED = re.compile(r"(\d+)(\.compact)?")


class LogLine(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={"batch": "batchId", "modified_ms": "modificationTime", "seen_ms": "timestamp"},
):
    """One line of a log as Spark wrote it; what Mooring has no use for is left out."""

    path: str
    """An address, as sites call the file."""
    size: int = 0
    batch: int = -1
    """Only sources note it."""
    modified_ms: int = 0
    """When the file was written: what sinks note."""
    seen_ms: int = 0
    """The same, as sources note it."""


_LINES = msgspec.json.Decoder(LogLine)


@dataclass(frozen=True)
class LogEntry:
    """One data file in a log."""

    path: Path
    size: int
    batch: int
    """Only sources note it; -1 in a sink's log."""
    modified_s: float = 0.0
    """When its youngest rows were written, in seconds since 1970."""

    @property
    def items(self) -> int:
        """Files, as a flow wrote them, that it stands for."""
        return items_of(self.path.name)


def sink_entries(log: Path, disk: Disk = DISK) -> list[LogEntry]:
    """Files a file sink has committed, oldest first."""
    return list(_entries(log, disk))


def noted_entries(log: Path, disk: Disk = DISK) -> tuple[int, list[LogEntry]]:
    """The newest batch of a log (-1: none) and all files that it names up to there, from one listing.

    A listing that is made while Spark writes and retires log files may lack one, which is then looked for
    again.
    """
    for _ in range(_LISTINGS):
        live = live_files(log, disk)
        contents = [read_if_there(disk, file) for _, file in live]
        missing = _first_missing(live)
        if missing is None and None not in contents:
            parts = [parse_lines(text or b"", file) for (_, file), text in zip(live, contents, strict=True)]
            return (live[-1][0] if live else -1), [
                entry_of(line, log, disk) for part in parts for line in part
            ]
    raise EngineError(
        f"the log {log} has no batch {missing}"
        if missing is not None
        else f"{log} changes during every read",
        remedy=_FROM_A_COPY,
    )


def source_entries(log: Path, upto_batch: int, disk: Disk = DISK) -> list[LogEntry]:
    """Files a file source had taken in by the given batch of its own log."""
    return [entry for entry in _entries(log, disk) if entry.batch <= upto_batch]


def committed_source_batches(checkpoint: Path, disk: Disk = DISK) -> list[int | None]:
    """For each source of a query, the last batch of its log that the query has committed (-1: it has read
    nothing). None for those without a log of files (`rate`, sockets). `EngineError` if that cannot be told.
    """
    committed = _last_number(checkpoint / "commits", disk)
    if committed is None:
        return []
    content = read_if_there(disk, checkpoint / "offsets" / str(committed))
    if content is None:  # retired between the two reads; the caller looks again later
        return []
    lines = content.decode(errors="replace").splitlines()
    if len(lines) < 2:
        raise EngineError(
            f"{checkpoint / 'offsets' / str(committed)} is empty or cut short", remedy=_FROM_A_COPY
        )
    return [log_offset(line) for line in lines[2:]]


def log_offset(line: str) -> int | None:
    """Of one source in an offsets file."""
    if line.strip() == _NOTHING_READ:
        return -1
    try:
        offset = json.loads(line)
    except ValueError:
        return None
    return int(offset["logOffset"]) if isinstance(offset, dict) and "logOffset" in offset else None


def last_committed_batch(checkpoint: Path, disk: Disk = DISK) -> int | None:
    return _last_number(checkpoint / "commits", disk)


def query_id(checkpoint: Path, disk: Disk = DISK) -> str | None:
    """By which Spark knows the query of a checkpoint; None if that cannot be told."""
    try:
        return str(json.loads(disk.read(checkpoint / "metadata").data)["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def whole_entries(log: Path, disk: Disk = DISK, *, but: Collection[str] = ()) -> Iterator[LogEntry]:
    """Of every file of a log that is whole, superseded ones included; `but` those."""
    for name in disk.list(log):
        if _NUMBERED.fullmatch(name) and name not in but:
            with contextlib.suppress(EngineError):
                for line in read_lines(log / name, disk):
                    yield entry_of(line, log, disk)


def recorded_settings(checkpoint: Path, disk: Disk = DISK) -> dict[str, str]:
    """The settings that a query's newest batch was planned under, which Spark keeps to; empty before any."""
    planned = _last_number(checkpoint / "offsets", disk)
    if planned is None:
        return {}
    try:
        lines = disk.read(checkpoint / "offsets" / str(planned)).data.decode().splitlines()
        settings = json.loads(lines[1]).get("conf") if len(lines) > 1 else None
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return {str(name): str(value) for name, value in (settings or {}).items()}


def last_batch(log: Path, disk: Disk = DISK, *, current: bool = False) -> int:
    """Number of the newest file of a log; -1 if it has none. `current`: whatever this machine remembers."""
    number = _last_number(log, disk, current=current)
    return -1 if number is None else number


def absent_batch(log: Path, disk: Disk = DISK) -> int | None:
    """The first batch that is in no file of the log although a later one is; None if there is none."""
    return _first_missing(
        live_files(log, disk)
    )  # once: a log that is written to meanwhile is not the same twice


def _first_missing(live: list[tuple[int, Path]]) -> int | None:
    numbers = {number for number, _ in live}
    first = min(numbers) if any(file.suffix == ".compact" for _, file in live) else 0
    return next((number for number in range(first, max(numbers, default=-1)) if number not in numbers), None)


def drop_entries(
    log: Path,
    dropped: Collection[Path],
    replace: Callable[[Path, bytes], None],
    disk: Disk = DISK,
    *,
    spare_newest: bool = False,
) -> set[Path]:
    """Rewrite a log without the given files and say which it held; `replace` puts each file of the log into
    place in one rename.

    Spark may be compacting meanwhile from what it read before: the entries then come back with its next
    file, and have to be dropped again (see file_channel.py). `spare_newest` leaves the log's newest entry
    where it is, and tells of it as of the others.
    """
    doomed = set(dropped)
    found: set[Path] = set()
    if doomed and spare_newest and (newest := _newest_entry(log, disk)) in doomed:
        doomed.discard(newest)
        found.add(newest)
    for _, file in live_files(log, disk) if doomed else ():
        if (content := read_if_there(disk, file)) is None:
            continue
        paths = [local_path(line.path, log, disk) for line in parse_lines(content, file)]
        if held := doomed.intersection(paths):
            found |= held
            lines = [line for line in content.split(b"\n")[1:] if line.strip()]
            remaining = [line for line, path in zip(lines, paths, strict=True) if path not in doomed]
            # Clusters that keep checksum files beside others would find ours wrong.
            disk.delete(file.with_name(f".{file.name}.crc"))
            replace(file, b"\n".join([VERSION, *remaining]))
    return found


def settle_dropped(
    log: Path,
    doubtful: list[list[Any]],
    replace: Callable[[Path, bytes], None],
    disk: Disk = DISK,
    *,
    spare_newest: bool,
) -> list[list[Any]]:
    """Take the doubtful entries, each with a batch, out of a log; returns those that might still come back,
    with the batch of now.

    A reader's log keeps its newest entry until there is a newer one: by it, a source is known to read this
    channel, and a query that reads it twice is not taken to have read what one of its sources has.
    """
    found = drop_entries(log, [Path(path) for _, path in doubtful], replace, disk, spare_newest=spare_newest)
    latest = last_batch(log, disk)
    left = []
    for batch, path in doubtful:
        if Path(path) in found:
            left.append([latest, path])
        elif latest < batch + 2:
            left.append([batch, path])
    return left


def replace_entries(
    file: Path,
    names: Collection[str],
    into: str,
    size: int,
    modified_ms: int,
    replace: Callable[[Path, bytes], None],
    disk: Disk = DISK,
) -> None:
    """Let one entry of a log file take the place of others; `replace` puts the file into place in one
    rename.
    """
    content = disk.read(file).data
    doomed, lines, placed = set(names), list[bytes](), False
    raw = [line for line in content.split(b"\n")[1:] if line.strip()]
    for text, line in zip(raw, parse_lines(content, file), strict=True):
        folder, _, name = line.path.rpartition("/")
        if unquote(name) not in doomed:
            lines.append(text)
        elif not placed:
            entry = {"path": f"{folder}/{into}", "size": size, "modificationTime": modified_ms}
            lines.append(json.dumps({**json.loads(text), **entry}, separators=(",", ":")).encode())
            placed = True
    disk.delete(file.with_name(f".{file.name}.crc"))
    replace(file, b"\n".join([VERSION, *lines]))


def sink_line(address: str, size: int, modified_ms: int) -> bytes:
    """By which a sink's log vouches for a file, as Spark writes it."""
    entry = {
        "path": quote(address, safe="/:"),
        "size": size,
        "isDir": False,
        "modificationTime": modified_ms,
        "blockReplication": 1,
        "blockSize": 33554432,
        "action": "add",
    }
    return json.dumps(entry, separators=(",", ":")).encode()


def read_lines(file: Path, disk: Disk = DISK) -> list[LogLine]:
    """Of one file of a log; none if it was retired a moment ago."""
    return parse_lines(read_if_there(disk, file) or VERSION, file)


def compact_interval(log: Path, disk: Disk = DISK) -> int | None:
    """Batches from one compacted file to the next; None while that cannot be told."""
    found = (_NUMBERED.fullmatch(name) for name in disk.list(log))
    numbers = sorted(int(match[1]) for match in found if match and match[2])
    if len(numbers) > 1:
        return numbers[-1] - numbers[-2]
    return numbers[0] + 1 if numbers and numbers[0] < _USUAL_INTERVAL else None


def parse_lines(content: bytes, file: Path) -> list[LogLine]:
    """The lines of a log file after its version."""
    version, _, lines = content.partition(b"\n")
    if version != VERSION:
        found = "empty" if not version else f"of version {version.decode(errors='replace')!r}"
        raise EngineError(
            f"{file} is {found}, expected {VERSION.decode()!r}",
            remedy=_FROM_A_COPY,
        )
    try:
        return _LINES.decode_lines(lines)
    except (msgspec.DecodeError, UnicodeDecodeError) as damage:
        raise EngineError(
            f"{file} has a line that names no file: {damage}",
            remedy=_FROM_A_COPY,
        ) from damage


def entry_of(line: LogLine, log: Path, disk: Disk = DISK) -> LogEntry:
    """A line with its path as Mooring sees it."""
    path = local_path(line.path, log, disk)
    merged = read_name(path.name)
    modified_ms = line.modified_ms or line.seen_ms if merged is None else merged.newest_ms
    return LogEntry(path, line.size, line.batch, modified_ms / 1000)


def _entries(log: Path, disk: Disk) -> Iterator[LogEntry]:
    for _, file in live_files(log, disk):
        if (content := read_if_there(disk, file)) is not None:  # else it was retired a moment ago
            for line in parse_lines(content, file):
                yield entry_of(line, log, disk)


def _newest_entry(log: Path, disk: Disk) -> Path | None:
    for _, file in reversed(live_files(log, disk)):
        if lines := read_lines(file, disk):
            return local_path(lines[-1].path, log, disk)
    return None


def live_files(log: Path, disk: Disk = DISK, *, current: bool = False) -> list[tuple[int, Path]]:
    """The newest compacted file and what came after it, in order; older ones only repeat. `current`: whatever
    this machine remembers.
    """
    found = []
    for name in disk.list(log, current=current):
        if (match := _NUMBERED.fullmatch(name)) is not None:
            found.append((int(match[1]), match[2] is not None, log / name))
    first = max((number for number, compact, _ in found if compact), default=-1)
    return sorted((number, path) for number, _, path in found if number >= first)


def _last_number(folder: Path, disk: Disk, *, current: bool = False) -> int | None:
    found = (_NUMBERED.fullmatch(name) for name in disk.list(folder, current=current))
    return max((int(match[1]) for match in found if match), default=None)
