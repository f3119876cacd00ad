"""Spark's micro-batches, as far as they touch files: what is read and written, in which order.

After Spark 4's `MicroBatchExecution`, `HDFSMetadataLog`, `CompactibleFileStreamLog`, `FileStreamSource`,
`SeenFilesMap`, `FileStreamSink` with `ManifestFileCommitProtocol`. One `MicroBatches` is one query that runs;
`step` is a micro-batch:

1. each file source lists its folder by the sink's log, and notes what it takes in (`sources/S/K`);
2. `offsets/N` is written: batch N is planned;
3. the sink writes its files, then `_spark_metadata/N`, unless its log is at N already;
4. `commits/N` is written.

A query that starts runs the last planned batch again if it was not committed. All logs are written under a
hidden name and renamed into place, without replacing anything. `durable` is whether files are synced before
they are renamed and their folders afterwards; Spark itself syncs nothing.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, unquote, urlsplit

from lab.storage_faults.simulated_disk import SimulatedDisk
from mooring.spark.storage.compaction import MAX_FILE_AGE_S

_MAGIC = b"PAR1"
_NUMBERED = re.compile(r"(\d+)(\.compact)?")
_SINK_LOG = "_spark_metadata"


class SparkFailure(Exception):
    """The query ends with it."""


@dataclass(frozen=True)
class SparkOptions:
    durable: bool = True
    compact_interval: int = 10
    retained_batches: int = 4
    """Offsets and commits that stay (`minBatchesToRetain`)."""
    cleanup_delay_s: float = 30.0
    files_per_batch: int = 3
    """Most that a source takes in (`maxFilesPerTrigger`)."""
    files_written: int = 1
    """By a batch: its partitions."""
    max_file_age_s: float = MAX_FILE_AGE_S
    """How much older than the newest one a source has seen a file may be (`maxFileAge`): as all readers in a
    pipeline have it."""


def as_parquet(rows: Sequence[str]) -> bytes:
    return _MAGIC + "\n".join(rows).encode() + _MAGIC


def rows_of(content: bytes, path: Path) -> list[str]:
    """As from a file of columns: one whose beginning or end is missing cannot be read."""
    if len(content) < 2 * len(_MAGIC) or not (content.startswith(_MAGIC) and content.endswith(_MAGIC)):
        raise SparkFailure(f"{path} is not a Parquet file")
    return [row for row in content[len(_MAGIC) : -len(_MAGIC)].decode().split("\n") if row]


@dataclass(frozen=True)
class Entry:
    """A line of a log of files."""

    path: str
    modified_ms: int
    size: int = 0
    batch: int = -1


class MetadataLog:
    """A folder of numbered files, each written once."""

    def __init__(self, disk: SimulatedDisk, folder: Path, options: SparkOptions) -> None:
        self.disk, self.folder, self.options = disk, folder, options
        if disk.look(folder) is None:
            disk.make_folder(folder, parents=True, exist_ok=True)
            if options.durable:
                disk.sync([folder.parent])

    def numbers(self) -> list[int]:
        names = self.disk.list(self.folder)
        if not names and self.disk.look(self.folder) is None:
            raise SparkFailure(f"File {self.folder} does not exist")
        return sorted({int(match[1]) for name in names if (match := _NUMBERED.fullmatch(name))})

    def latest(self) -> int | None:
        return max(self.numbers(), default=None)

    def lines(self, name: str) -> list[str]:
        content = self.disk.read(self.folder / name).data
        version, *lines = content.decode(errors="replace").split("\n")
        if version != "v1":
            raise SparkFailure(f"{self.folder / name} is incomplete or malformed")
        return lines

    def add(self, name: str, lines: Sequence[str]) -> bool:
        """Whether it was not there already."""
        path = self.folder / name
        if self.disk.look(path) is not None:
            return False
        hidden = self.folder / f".{name}.{self.disk.storage.operations:08x}.tmp"
        self.disk.write_file(hidden, "\n".join(["v1", *lines]).encode(), durable=self.options.durable)
        # Looks and renames, which is not one step on a local file system.
        if self.disk.look(path) is not None:
            self.disk.delete(hidden)
            return False
        self.disk.move(hidden, path)
        if self.options.durable:
            self.disk.sync([self.folder])
        return True

    def purge(self, below: int) -> None:
        for number in self.numbers():
            if number < below:
                self.disk.delete(self.folder / str(number))


class FilesLog(MetadataLog):
    """One that is written anew into one file every so many batches (`CompactibleFileStreamLog`)."""

    def is_compaction(self, number: int) -> bool:
        return (number + 1) % self.options.compact_interval == 0

    def name(self, number: int) -> str:
        return f"{number}.compact" if self.is_compaction(number) else str(number)

    def entries_of(self, number: int) -> list[Entry]:
        try:
            lines = self.lines(self.name(number))
        except FileNotFoundError:
            raise SparkFailure(f"{self.folder / self.name(number)} doesn't exist") from None
        try:
            return [_entry(line) for line in lines if line]
        except (ValueError, KeyError) as damage:
            raise SparkFailure(f"{self.folder / self.name(number)} is malformed") from damage

    def add_files(self, number: int, entries: Sequence[Entry], *, source: bool) -> bool:
        lines = [_line(entry, source=source) for entry in entries]
        if self.is_compaction(number):
            before: list[str] = []
            for earlier in range(max(0, number - self.options.compact_interval), number):
                try:
                    before += [line for line in self.lines(self.name(earlier)) if line]
                except FileNotFoundError:
                    raise SparkFailure(
                        f"{self.folder / self.name(earlier)} doesn't exist when compacting batch {number}"
                    ) from None
            lines = [*before, *lines]
        added = self.add(self.name(number), lines)
        if added:
            self._delete_expired(number)
        return added

    def _delete_expired(self, number: int) -> None:
        below = number + 1 - self.options.retained_batches
        compacted = below - below % self.options.compact_interval - 1
        if compacted < 0:
            return
        expired_s = self.disk.storage.clock.now_s() - self.options.cleanup_delay_s
        for name in self.disk.list(self.folder):
            match = _NUMBERED.fullmatch(name)
            if match is not None and int(match[1]) < compacted:
                found = self.disk.look(self.folder / name)
                if found is not None and found.modified_s <= expired_s:
                    self.disk.delete(self.folder / name)

    def all_files(self) -> list[Entry]:
        """From the newest compacted file on."""
        latest = self.latest()
        if latest is None:
            return []
        first = max(0, (latest + 1) // self.options.compact_interval * self.options.compact_interval - 1)
        return [entry for number in range(first, latest + 1) for entry in self.entries_of(number)]


def _entry(line: str) -> Entry:
    fields = json.loads(line)
    stamp = fields["modificationTime"] if "modificationTime" in fields else fields["timestamp"]
    return Entry(fields["path"], int(stamp), int(fields.get("size", 0)), int(fields.get("batchId", -1)))


def _line(entry: Entry, *, source: bool) -> str:
    if source:
        return json.dumps({"path": entry.path, "timestamp": entry.modified_ms, "batchId": entry.batch})
    fields = {"path": entry.path, "size": entry.size, "isDir": False, "modificationTime": entry.modified_ms}
    return json.dumps({**fields, "blockReplication": 1, "blockSize": 33554432, "action": "add"})


def local(address: str) -> Path:
    return Path(unquote(urlsplit(address).path))


class Source(Protocol):
    def latest(self, start: str) -> str:
        """The offset up to where there is something, in the words of offsets files; `-` for nothing."""
        ...

    def rows(self, start: str, end: str) -> list[str]: ...


class OutsideSource:
    """Rows that can be read again from any offset, as from Kafka."""

    def __init__(self, offered: list[str], most: int) -> None:
        self.offered, self.most = offered, most

    def latest(self, start: str) -> str:
        end = min(len(self.offered), _outside(start) + self.most)
        return json.dumps({"partition": end}) if end else "-"

    def rows(self, start: str, end: str) -> list[str]:
        return self.offered[_outside(start) : _outside(end)]


def _outside(offset: str) -> int:
    return 0 if offset == "-" else int(json.loads(offset)["partition"])


class ChannelSource:
    """Spark's file source over what a file sink wrote."""

    def __init__(
        self, disk: SimulatedDisk, folder: Path, log: Path, options: SparkOptions, side: str = ""
    ) -> None:
        """`side`: what it marks its rows with, where a query reads a channel twice."""
        self.disk, self.folder, self.options, self.side = disk, folder, options, side
        self._log = FilesLog(disk, log, options)
        latest = self._log.latest()
        self._offset = -1 if latest is None else latest
        self._seen: dict[str, int] = {}
        self._latest_ms = self._purged_ms = 0
        for entry in self._log.all_files():
            self._see(entry)
        self._purge()

    def _see(self, entry: Entry) -> None:
        self._seen[entry.path] = entry.modified_ms
        self._latest_ms = max(self._latest_ms, entry.modified_ms)

    def _purge(self) -> None:
        self._purged_ms = self._latest_ms - round(1000 * self.options.max_file_age_s)
        self._seen = {path: at_ms for path, at_ms in self._seen.items() if at_ms >= self._purged_ms}

    def _is_new(self, entry: Entry) -> bool:
        return entry.modified_ms >= self._purged_ms and entry.path not in self._seen

    def latest(self, start: str) -> str:
        found = []
        if self.disk.look(self.folder / _SINK_LOG) is not None:
            sink = FilesLog(self.disk, self.folder / _SINK_LOG, self.options)
            found = [entry for entry in sink.all_files() if self._is_new(entry)]
        elif self.disk.look(self.folder) is None:
            raise SparkFailure(f"Path does not exist: {self.folder}")
        found.sort(key=lambda entry: entry.modified_ms)
        taken = found[: self.options.files_per_batch]
        for entry in taken:
            self._see(entry)
        self._purge()
        if taken:
            number = self._offset + 1
            entries = [Entry(entry.path, entry.modified_ms, 0, number) for entry in taken]
            if not self._log.add_files(number, entries, source=True):
                raise SparkFailure(f"Concurrent update to the log {self._log.folder}, batch {number}")
            self._offset = number
        return json.dumps({"logOffset": self._offset}) if self._offset >= 0 else "-"

    def rows(self, start: str, end: str) -> list[str]:
        first, last = _logged(start) + 1, _logged(end)
        planned = [entry for entry in self._log.all_files() if first <= entry.batch <= last]
        if planned and self.disk.look(self.folder) is None:
            raise SparkFailure(f"Option 'basePath' must be a directory: {self.folder}")
        found = []
        for entry in planned:
            path = local(entry.path)
            if self.disk.look(path) is None:
                continue  # taken for deleted on purpose (decision 0017)
            found += [row + self.side for row in rows_of(self.disk.read(path).data, path)]
        return found


def _logged(offset: str) -> int:
    return -1 if offset == "-" else int(json.loads(offset)["logOffset"])


class FileSink:
    def __init__(self, disk: SimulatedDisk, folder: Path, options: SparkOptions) -> None:
        self.disk, self.folder, self.options = disk, folder, options
        self.log = FilesLog(disk, folder / _SINK_LOG, options)

    def add_batch(self, number: int, rows: Sequence[str]) -> None:
        latest = self.log.latest()
        if latest is not None and number <= latest:
            return  # "Skipping already committed batch"
        entries = []
        count = max(1, min(self.options.files_written, len(rows)))
        for part in range(count):
            name = f"part-{part:05d}-{self.disk.storage.operations:08x}-c000.snappy.parquet"
            path = self.folder / name
            if self.disk.look(self.folder) is None:
                self.disk.make_folder(self.folder, parents=True, exist_ok=True)
            content = as_parquet(rows[part::count])
            self.disk.write_file(path, content, durable=self.options.durable)
            found = self.disk.look(path)
            if found is None:
                raise SparkFailure(f"{path} is gone")
            address = "file://" + quote(posixpath.normpath(str(path)))
            entries.append(Entry(address, round(found.modified_s * 1000), len(content)))
        if self.options.durable:
            self.disk.sync([self.folder])
        if not self.log.add_files(number, entries, source=False):
            raise SparkFailure(f"Race while writing batch {number}")

    def delivered(self) -> list[str]:
        """Rows that its log vouches for."""
        found = []
        for entry in self.log.all_files():
            path = local(entry.path)
            found += rows_of(self.disk.read(path).data, path)
        return found


@dataclass
class MicroBatches:
    """A query, started over a checkpoint."""

    disk: SimulatedDisk
    checkpoint: Path
    sources: Sequence[Source]
    sink: FileSink
    options: SparkOptions
    batch: int = field(init=False, default=0)
    _start: list[str] = field(init=False)
    _planned: list[str] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._offsets = MetadataLog(self.disk, self.checkpoint / "offsets", self.options)
        self._commits = MetadataLog(self.disk, self.checkpoint / "commits", self.options)
        self._start = ["-"] * len(self.sources)
        latest = self._offsets.latest()
        if latest is None:
            return
        newest = self._offsets_of(latest)
        committed = self._commits.latest()
        if committed is not None:
            self._commits.lines(str(committed))
        if committed is not None and committed >= latest:
            self.batch, self._start = latest + 1, newest
            return
        self.batch, self._planned = latest, newest
        if latest > 0:
            try:
                self._start = self._offsets_of(latest - 1)
            except FileNotFoundError:
                raise SparkFailure(f"batch {latest - 1} doesn't exist") from None

    def _offsets_of(self, number: int) -> list[str]:
        lines = self._offsets.lines(str(number))[1:]
        if len(lines) != len(self.sources):
            raise SparkFailure(f"{self.checkpoint}/offsets/{number} has {len(lines)} sources")
        return lines

    def step(self) -> bool:
        """One micro-batch; False if there was nothing to do."""
        if self._planned is None and not self._plan():
            return False
        assert self._planned is not None
        rows = [
            row
            for source, start, end in zip(self.sources, self._start, self._planned, strict=True)
            for row in source.rows(start, end)
        ]
        self.sink.add_batch(self.batch, rows)
        if not self._commits.add(str(self.batch), ['{"nextBatchWatermarkMs":0}']):
            raise SparkFailure(f"Concurrent update to the log {self._commits.folder}, batch {self.batch}")
        self._start, self._planned = self._planned, None
        self.batch += 1
        return True

    def _plan(self) -> bool:
        ends = [source.latest(start) for source, start in zip(self.sources, self._start, strict=True)]
        if ends == self._start:
            return False
        if not self._offsets.add(str(self.batch), ['{"batchWatermarkMs":0,"conf":{}}', *ends]):
            raise SparkFailure(f"Concurrent update to the log {self._offsets.folder}, batch {self.batch}")
        self._offsets.purge(self.batch - self.options.retained_batches)
        self._commits.purge(self.batch - self.options.retained_batches)
        self._planned = ends
        return True
