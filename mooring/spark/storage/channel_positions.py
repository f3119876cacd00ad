"""The positions of a channel and its readers, kept up with its logs without reading them again.

A position counts files in the order of the sink's log. What is remembered of a file is its name, and only
while a reader that runs has not committed it: of a month of results nothing remains but a count, the bytes,
the first and the last. Whenever a log is not simply longer than before, all of the channel's logs are read
from their beginning.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from mooring.disk import DISK, Disk
from mooring.errors import EngineError, described
from mooring.spark.storage.compacted_name import items_of, read_name
from mooring.spark.storage.followed_log import FollowedLog, News
from mooring.spark.storage.storage_root import local_path
from mooring.spark.storage.stream_logs import LogEntry, LogLine, committed_source_batches, entry_of

_RECENT = 1000
"""Newest entries that are kept whole, for those who count what was appended since they last asked."""


@dataclass
class _Source:
    """One source of a reader's query. A query has one for every channel it reads, and two where it reads a
    channel twice.
    """

    log: FollowedLog
    position: int
    """How far it has committed the channel's files without a gap."""
    next: int = 0
    """Number of entries that make up to there."""
    committed: int = -1
    """The last batch of its log that its query has committed."""
    here: bool | None = None
    """Whether it reads this channel; None while its log names no file."""
    planned: list[tuple[int, str]] = field(default_factory=list)
    """Batch and name of files that it took in and has not committed."""
    ahead: set[str] = field(default_factory=set)
    """Committed, but not next in the order of the channel."""
    past_merged: bool = False
    """It has committed a file as it was written, and so everything that was merged (see merges.py): under the
    names of the merged files, or under those of the files they stand for, which its log need not name."""

    def has(self, name: str) -> bool:
        """Whether it has committed a file that lies beyond its position."""
        return name in self.ahead or (self.past_merged and read_name(name) is not None)


class ChannelPositions:
    def __init__(
        self,
        sink_log: Path,
        folders: Collection[Path],
        checkpoint_of: Callable[[str], Path],
        inputs_of: Callable[[str], int | None] = lambda reader: None,
        disk: Disk = DISK,
    ) -> None:
        """`folders`: the paths under which logs know the channel's folder. `inputs_of`: how many channels a
        reader reads; None if that is not known.
        """
        self._sink_log = sink_log
        self._disk = disk
        self._inputs_of = inputs_of
        self._folders = frozenset(folders)
        self._checkpoint_of = checkpoint_of
        self._prefixes: dict[str, str | None] = {}
        """How the files of a folder are called, by its address: None where it is none of the channel's. A log
        names few, and each many times."""
        self._unread: dict[str, int] = {}
        """Reader -> how many of its sources have not committed any file of any channel."""
        self.damaged: dict[str, str] = {}
        """Readers whose logs cannot be read, and why. They count as having committed nothing."""
        self._clear(0, frozenset())

    def _clear(self, start: int, gone: frozenset[str]) -> None:
        self.start = self.end = start
        """Position of the oldest file that is stored, and after the newest."""
        self.entries = 0
        """What is stored; less than the positions where files were merged."""
        self.stored_bytes = 0
        self.first: LogEntry | None = None
        self.last: LogEntry | None = None
        self._gone = gone
        self._sink = FollowedLog(self._sink_log, self._disk)
        self._sources: dict[tuple[str, Path], _Source] = {}
        self._recent: deque[LogLine] = deque(maxlen=_RECENT)
        self._names: list[str] = []
        """Of the newest entries, as many as some source has not committed."""
        self._outside: set[str] = set()
        """Names that are no file of the channel's folder. There are none unless somebody changed the log."""

    def refresh(self, start: int, gone: Iterable[Path], readers: Iterable[str]) -> None:
        """Take in what the logs tell beyond the last call.

        `gone`: files that were taken out of the sink's log, and may be back in it for a while.
        """
        hidden = frozenset(self._name_of(path) for path in gone)
        committed = self._committed_batches(readers)
        if not (start == self.start and hidden <= self._gone and self._read_on(committed)):
            self._clear(start, hidden)
            self._read_all(committed)
        self._gone = hidden

    def committed(self, reader: str) -> int:
        """The position up to which every source of the reader has committed; `start` if there is none.

        A query that reads a channel twice may have committed a batch in which one side has read nothing yet.
        Its log names no file, so nothing tells which channel that side reads. It counts as this one's, unless
        the reader has no more sources than channels, and so one for each.
        """
        if reader in self.damaged:
            return self.start
        sources = [source for (name, _), source in self._sources.items() if name == reader]
        number = len(sources) + self._unread.get(reader, 0)
        known = sum(source.here is not None for source in sources)
        if known < number != self._inputs_of(reader):
            return self.start
        return min((source.position for source in sources if source.here), default=self.start)

    def not_taken(self, reader: str) -> list[str] | None:
        """Names of files that one of the reader's sources has not committed; None if none of its sources is
        known to read this channel.
        """
        mine = [source for (name, _), source in self._sources.items() if name == reader and source.here]
        if not mine or reader in self.damaged:
            return None
        base = self.entries - len(self._names)
        left = [[name for name in self._names[each.next - base :] if not each.has(name)] for each in mine]
        return max(left, key=len)

    def entries_from(self, position: int) -> list[LogEntry] | None:
        """Files from a position on; None if it lies too far back to be remembered."""
        found, at = list[LogEntry](), self.end
        for line in reversed(self._recent):
            if at <= max(position, self.start):
                break
            found.append(entry_of(line, self._sink_log, self._disk))
            at -= found[-1].items
        return found[::-1] if at <= max(position, self.start) else None

    def _committed_batches(self, readers: Iterable[str]) -> dict[tuple[str, Path], int]:
        """Of the sources that have committed anything from files."""
        found, self._unread, self.damaged = dict[tuple[str, Path], int](), {}, {}
        for reader in readers:
            checkpoint = self._checkpoint_of(reader)
            try:
                batches = committed_source_batches(checkpoint, self._disk)
            except (EngineError, OSError) as damage:
                self.damaged[reader] = described(damage)
                continue
            for number, batch in enumerate(batches):
                if batch == -1:
                    self._unread[reader] = self._unread.get(reader, 0) + 1
                elif batch is not None:
                    found[reader, checkpoint / "sources" / str(number)] = batch
        return found

    def _read_on(self, committed: dict[tuple[str, Path], int]) -> bool:
        """False if anything but longer logs was found; what is known is then of no use any more."""
        if committed.keys() != self._sources.keys():
            return False
        sink = self._sink.news()
        if sink.anew:
            return False
        self._append(sink.lines)
        for key, source in self._sources.items():
            news = self._news(key, source)
            if news is None:
                continue
            if news.anew or committed[key] < source.committed:
                return False
            self._advance(source, news.lines, committed[key])
        self._let_go()
        return True

    def _read_all(self, committed: dict[tuple[str, Path], int]) -> None:
        self._append(self._sink.news().lines)
        stored = set(self._names)
        for key, batch in committed.items():
            source = self._sources[key] = _Source(FollowedLog(key[1], self._disk), self.start)
            if (news := self._news(key, source)) is None:
                continue
            self._advance(source, news.lines, batch)
            source.ahead &= stored  # the rest was trimmed before
        self._let_go()

    def _news(self, key: tuple[str, Path], source: _Source) -> News | None:
        """None if the log cannot be read, which concerns its reader and nobody else. Once it can be, all of
        it is news.
        """
        try:
            return source.log.news()
        except (EngineError, OSError) as damage:
            self.damaged[key[0]] = described(damage)
            return None

    def _append(self, lines: list[LogLine]) -> None:
        for line in lines:
            name = self._name(line)
            if name in self._gone:
                continue
            if _is_outside(name):
                self._outside.add(name)
            if self.first is None:
                self.first = entry_of(line, self._sink_log, self._disk)
            self._names.append(name)
            self._recent.append(line)
            self.stored_bytes += line.size
            self.entries += 1
            self.end += items_of(name)
        if self._recent:
            self.last = entry_of(self._recent[-1], self._sink_log, self._disk)

    def _advance(self, source: _Source, lines: list[LogLine], committed: int) -> None:
        taken = [(line.batch, self._name(line)) for line in lines]
        mine = [(batch, name) for batch, name in taken if not _is_outside(name) or name in self._outside]
        if taken and source.here is None:
            source.here = bool(mine)
        source.planned += mine
        source.committed = committed
        fresh = [name for batch, name in source.planned if batch <= committed]
        source.ahead.update(fresh)
        source.past_merged = source.past_merged or any(read_name(name) is None for name in fresh)
        source.planned = [(batch, name) for batch, name in source.planned if batch > committed]
        if not source.here:
            return
        base = self.entries - len(self._names)
        while source.next < self.entries:
            name = self._names[source.next - base]
            if not source.has(name):
                break
            source.ahead.discard(name)
            source.position += items_of(name)
            source.next += 1

    def _let_go(self) -> None:
        """Forget the names that every source here has committed, and all where there is no such source."""
        needed = min((s.next for s in self._sources.values() if s.here is not False), default=self.entries)
        del self._names[: len(self._names) - (self.entries - needed)]

    def _name(self, line: LogLine) -> str:
        """A file's name, below the channel's folder; its whole path if it lies outside."""
        folder, _, name = line.path.rpartition("/")
        if folder not in self._prefixes:
            self._prefixes[folder] = self._prefix(local_path(folder, self._sink_log, self._disk))
        if (prefix := self._prefixes[folder]) is None:
            return str(local_path(line.path, self._sink_log, self._disk))
        return prefix + (unquote(name) if "%" in name else name)

    def _name_of(self, path: Path) -> str:
        prefix = self._prefix(path.parent)
        return str(path) if prefix is None else prefix + path.name

    def _prefix(self, folder: Path) -> str | None:
        """Empty for the channel's folder itself, and the way down to those of partitions."""
        for own in self._folders:
            if folder == own:
                return ""
            if folder.is_relative_to(own) and ".." not in folder.parts:
                return f"{folder.relative_to(own)}/"
        return None


def _is_outside(name: str) -> bool:
    return name.startswith("/")
