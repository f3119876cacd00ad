"""A model of a kept table, its writer and its readers: what Spark does to them, without Spark."""

from __future__ import annotations

import functools
import json
from collections import Counter
from pathlib import Path

import pyarrow
import pyarrow.parquet

from mooring.spark.storage.compacted_file import write_merged
from mooring.spark.storage.compacted_name import read_name
from mooring.spark.storage.compaction import MAX_FILE_AGE_S, MergeOptions
from mooring.spark.storage.file_channel import FileChannel
from mooring.spark.storage.owned_folder import unowned
from mooring.spark.storage.retention import ALL, Keep
from mooring.spark.storage.stream_logs import live_files, read_lines, sink_entries
from tests.spark.storage.test_file_channel import FakeSpark

SMALL = MergeOptions(fan=3, spared=2, after_s=0, most_files=5, grace_s=0)

DAY_MS = 86_400_000
JUMPS_MS = (0, 30 * DAY_MS, 3652 * DAY_MS, -365 * DAY_MS)


class Writer(FakeSpark):
    """Also writes rows: one file per batch with one row, its number; a batch every five seconds."""

    ahead_ms = 0
    """Of its clock."""

    def append(self) -> None:
        self.now_ms = 1_700_000_000_000 + 5000 * (self.batch + 1) + self.ahead_ms
        super().append()
        part = self.log.parent / f"part-{self.batch}"
        pyarrow.parquet.write_table(pyarrow.table({"row": [self.batch]}), part)


def rows_of(path: Path) -> tuple[int, ...]:
    assert path.exists(), "a reader was told of a file that is gone"
    return _rows_of(path)


@functools.lru_cache(maxsize=10_000)
def _rows_of(path: Path) -> tuple[int, ...]:
    """Once: a file never changes."""
    return tuple(pyarrow.parquet.ParquetFile(path).read()["row"].to_pylist())


class Reader:
    """Takes in files as Spark's file source does: the oldest first, none that it has seen, and none that is
    too much older than the newest it has seen. At a restart its log is what it has seen.
    """

    def __init__(self, channel: Path, checkpoint: Path) -> None:
        self.channel, self.checkpoint = channel, checkpoint
        self.log = checkpoint / "sources" / "0"
        self.batch = -1
        self.rows: list[int] = []
        self.restart()

    def restart(self) -> None:
        lines = [line for _, file in live_files(self.log) for line in read_lines(file)]
        self.seen = {line.path: line.seen_ms for line in lines}
        self.latest_ms = max(self.seen.values(), default=0)
        self._purge()

    def _purge(self) -> None:
        self.purged_ms = self.latest_ms - MAX_FILE_AGE_S * 1000
        self.seen = {path: at for path, at in self.seen.items() if at >= self.purged_ms}

    def read(self) -> None:
        listed = [
            line for _, file in live_files(self.channel / "_spark_metadata") for line in read_lines(file)
        ]
        new = [
            line
            for line in sorted(listed, key=lambda line: line.modified_ms)
            if line.modified_ms >= self.purged_ms and line.path not in self.seen
        ][:4]
        if not new:
            return
        self.batch += 1
        for line in new:
            self.rows += rows_of(Path(line.path.removeprefix("file://")))
            self.seen[line.path] = line.modified_ms
            self.latest_ms = max(self.latest_ms, line.modified_ms)
        self._purge()
        self._note([(line.path, line.modified_ms) for line in new])

    def _note(self, files: list[tuple[str, int]]) -> None:
        for part in ("sources/0", "offsets", "commits"):
            (self.checkpoint / part).mkdir(parents=True, exist_ok=True)
        lines = [json.dumps({"path": path, "timestamp": at, "batchId": self.batch}) for path, at in files]
        name = str(self.batch)
        if self.batch % 3 == 2:
            before = [text for _, file in live_files(self.log) for text in file.read_text().split("\n")[1:]]
            name, lines = f"{name}.compact", [*before, *lines]
        (self.log / name).write_text("\n".join(["v1", *lines]))
        offsets = ["v1", "{}", json.dumps({"logOffset": self.batch})]
        (self.checkpoint / "offsets" / str(self.batch)).write_text("\n".join(offsets))
        (self.checkpoint / "commits" / str(self.batch)).write_text("v1\n{}")


class Table:
    """A kept table with a writer, readers, and what Mooring does to it."""

    def __init__(self, folder: Path, keep: Keep = ALL) -> None:
        self.folder, self.keep = folder, keep
        self.writer = Writer(folder)
        self.readers: dict[str, Reader] = {}
        self.reopen()
        self.channel.create()
        self.channel.register("results")

    def reopen(self) -> None:
        """As a run that is started again does."""
        self.channel = FileChannel(
            "c",
            self.folder / "channel",
            self.folder / "link",
            lambda name: self.folder / name,
            unowned(self.folder),
            self.keep,
        )
        self.channel.merges.options = SMALL

    def join(self, name: str) -> None:
        if name not in self.readers:
            self.channel.register(name)
            self.readers[name] = Reader(self.folder / "channel", self.folder / name)

    def append(self) -> None:
        self.writer.append()

    def clock_jumps(self) -> None:
        """Of whoever writes: thirty days ahead, ten years ahead, a year back, and right again."""
        at = JUMPS_MS.index(self.writer.ahead_ms)
        self.writer.ahead_ms = JUMPS_MS[(at + 1) % len(JUMPS_MS)]

    def start_compaction(self) -> None:
        self.writer.start_compaction()

    def trim(self) -> None:
        self.channel.trim()

    def merge(self) -> None:
        if (plan := self.channel.merge_plan()) is not None:
            self.channel.adopt(plan, write_merged([entry.path for entry in plan.files], plan.hidden))

    def early_joins(self) -> None:
        self.join("early")

    def late_joins(self) -> None:
        self.join("late")

    def early_reads(self) -> None:
        self._reader("read", "early")

    def late_reads(self) -> None:
        self._reader("read", "late")

    def early_restarts(self) -> None:
        self._reader("restart", "early")

    def late_restarts(self) -> None:
        self._reader("restart", "late")

    def _reader(self, step: str, name: str) -> None:
        if name in self.readers:
            getattr(self.readers[name], step)()

    def visible(self) -> list[int]:
        """What a batch reader finds now."""
        return [row for entry in sink_entries(self.writer.log) for row in rows_of(entry.path)]

    def check(self) -> None:
        assert self.visible() == list(range(self.writer.batch + 1))
        for reader in self.readers.values():
            assert max(Counter(reader.rows).values(), default=1) == 1, "a reader was given a row twice"
        state = self.channel.state()
        assert (state.start, state.end) == (0, self.writer.batch + 1)
        for name, reader in self.readers.items():
            assert state.committed[name] == len(reader.rows), "a reader's position is not what it has read"

    def go_on(self, batches: int = 12) -> None:
        for _ in range(batches):
            self.append()
            for reader in self.readers.values():
                reader.read()
            self.merge()
            self.trim()
        self.check()

    def check_over(self) -> None:
        """All rows are with all readers, and neither files nor logs are many."""
        for reader in self.readers.values():
            for _ in range(self.writer.batch):
                reader.read()
            assert sorted(reader.rows) == list(range(self.writer.batch + 1))
        self.check()
        assert any(read_name(entry.path.name) for entry in sink_entries(self.writer.log))
