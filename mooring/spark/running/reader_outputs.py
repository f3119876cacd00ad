"""What readers made of a channel's files is on disk before the channel removes these.

Embedded sites sync every file that Spark writes (`sites/local_files.py`). Other sites do not, so a power cut
could take a reader's last batches while the files that they were made from are gone for good. There the run
syncs what a reader has written: its checkpoint, and the files and the log of its output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mooring.disk import DiskEntry, Tag, everything_below
from mooring.spark.pipeline.layout import Layout
from mooring.spark.storage import stream_logs
from mooring.spark.storage.followed_log import FollowedLog


@dataclass
class ReaderOutputs:
    layout: Layout
    sites_sync: Callable[[], bool]
    """Whether all sites sync what they write."""
    _unsynced: bool = False
    """Some site did not, so files of that time may still be left to sync."""
    _logs: dict[str, FollowedLog] = field(default_factory=dict)
    _done: dict[str, set[Tag]] = field(default_factory=dict)
    """Reader -> files of its checkpoint and log that were synced; none changes once it has its name."""

    def secure(self, reader: str) -> None:
        """All that the reader has committed survives a power cut from now on. `OSError` or `EngineError` if
        that cannot be had.
        """
        self._unsynced = self._unsynced or not self.sites_sync()
        if not self._unsynced or reader not in self.layout.fragments:
            return
        disk, done = self.layout.disk, self._done.get(reader, set())
        log = self._log(reader)
        lines = [] if log is None else log.news().lines
        try:
            small = dict(self._small_files(reader, log))
            new = (path for path, found in small.items() if found.kind == "folder" or found.tag not in done)
            disk.sync(new)
            if log is not None:
                rows = [stream_logs.entry_of(line, log.log, disk).path for line in lines]
                there = [path for path in rows if disk.look(path) is not None]  # the rest was trimmed
                disk.sync([*there, *(path.parent for path in there)])
        except BaseException:
            self._logs.pop(reader, None)  # what was told of and not synced is told of again
            raise
        self._done[reader] = {found.tag for found in small.values() if found.kind == "file"}

    def _small_files(self, reader: str, log: FollowedLog | None) -> Iterator[tuple[Path, DiskEntry]]:
        checkpoint = self.layout.checkpoint(reader)
        for folder in (checkpoint, *([] if log is None else [log.log])):
            if (found := self.layout.disk.look(folder)) is not None:
                yield folder, found
                yield from everything_below(self.layout.disk, folder)

    def _log(self, reader: str) -> FollowedLog | None:
        """Of the sink that it writes; None where that is no folder of files that can be seen from here."""
        if reader not in self._logs:
            channel, sink = self.layout.channels.get(reader), self.layout.sink_of(reader)
            place = sink.log if channel is None and sink is not None else None
            log = place if channel is None else channel.sink_log
            if log is None:
                return None
            self._logs[reader] = FollowedLog(log, self.layout.disk)
        return self._logs[reader]
