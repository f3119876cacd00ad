"""Which files of a streaming table are committed now.

A flow's batch is committed for its readers once the log of its channel names it: the writer notes a batch
there before its own checkpoint does, and never writes another one under that number. So what the log names
is the table. What lies in the folder beside that are leftovers of killed batches, merged files that are not
in place yet, and files that merged ones stand for: a glob finds them all, and rows twice or never committed.

The logs may be read while the pipeline runs. A batch that is noted meanwhile is in or out as a whole, and so
is a merge, which takes one rename.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from mooring.spark.storage.file_channel import Committed, FileChannel


@dataclass(frozen=True)
class CommittedFile:
    path: Path
    """As Mooring sees it, under the name by which Spark wrote it."""
    size: int
    """Bytes."""
    merged: bool
    """It stands for several files that a flow wrote."""


@dataclass(frozen=True)
class CommittedFiles:
    """Of one table, at one moment."""

    batches: dict[str, int]
    """Writing flow -> its last committed batch; -1 before the first."""
    files: tuple[CommittedFile, ...]
    """Flow by flow, each in the order in which it wrote them."""

    @property
    def stored_bytes(self) -> int:
        return sum(file.size for file in self.files)


@contextmanager
def held_files(channels: Iterable[FileChannel]) -> Iterator[CommittedFiles]:
    """Of the table whose channels, one per writing flow, are given (`Layout.writers_of`). Each stays on disk
    meanwhile: the channels are those of the run itself, which is the only one to delete anything.
    """
    found = dict[str, Committed]()
    with ExitStack() as held:
        for channel in channels:
            with channel.holds.lock:
                found[channel.name] = committed = channel.committed()
                number = channel.holds.take(committed.position)
            held.callback(channel.holds.release, number)
        yield committed_files_of(found)


def committed_files_of(found: Mapping[str, Committed]) -> CommittedFiles:
    files = [
        CommittedFile(entry.path, entry.size, entry.items > 1)
        for committed in found.values()
        for entry in committed.entries
    ]
    return CommittedFiles({flow: committed.batch for flow, committed in found.items()}, tuple(files))
