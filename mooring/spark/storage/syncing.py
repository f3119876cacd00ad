"""Syncing what Spark has committed where it does not do so itself, before anything goes that it is made from.

Embedded sites sync every file that Spark commits (`sites/local_files.py`). Existing endpoints do not, nor do
sites with another class for local files. What they wrote within the last half minute lies in memory, while a
deletion in the same storage may be on disk at once: a power cut then leaves neither a row nor what it was
made from. So a channel checks here before it deletes files. First what its readers have made of them is
synced: offsets, commits, state and the logs of their sources, then the rows and the log of what they write;
and the channel's own log, which names the files that merges have made.

What was synced and has not changed since is not synced again. Of a query at a site that syncs by itself, all
is synced once after its start: what it began with may be another site's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mooring.disk import Disk, Tag, everything_below, is_folder
from mooring.spark.storage.followed_log import FollowedLog
from mooring.spark.storage.stream_logs import entry_of, live_files

MOST_AT_ONCE = 500
"""Files and folders that are synced before a channel's trimming is put off to the next look."""
NEWEST = 1000
"""Files of rows that are looked at, of all that a log names. Older ones of earlier runs a system has written
to disk by itself, which it does within a minute."""


@dataclass
class _Written:
    """By one fragment."""

    synced: dict[Path, Tag] = field(default_factory=dict)
    """What is on disk, and as what."""
    log: FollowedLog | None = None
    rows: deque[Path] = field(default_factory=lambda: deque(maxlen=NEWEST))
    settled: Path | None = None
    """The epoch of its checkpoint from whose start on its site syncs everything."""


class Syncing:
    def __init__(
        self,
        disk: Disk,
        checkpoint_of: Callable[[str], Path],
        log_of: Callable[[str], Path | None],
        syncs_itself: Callable[[str], bool],
    ) -> None:
        """`log_of`: that of the channel or of the sink of files that a fragment writes. `syncs_itself`:
        whether it runs at a site that syncs what Spark commits there.
        """
        self._disk, self._checkpoint_of, self._log_of = disk, checkpoint_of, log_of
        self._syncs_itself = syncs_itself
        self._written: dict[str, _Written] = {}

    def is_done(self, fragments: Iterable[str]) -> bool:
        """Whether all that these have written is on disk now; False if it is too much for one time. `OSError`
        if the disk refuses.
        """
        left = MOST_AT_ONCE
        for fragment in fragments:
            left -= self._sync(fragment, left)
            if left < 0:
                return False
        return True

    def _sync(self, fragment: str, most: int) -> int:
        """Sync so many files and folders at most; returns how many there were to sync."""
        epoch, written = self._checkpoint_of(fragment), self._written.setdefault(fragment, _Written())
        by_itself = self._syncs_itself(fragment)
        if by_itself and written.settled == epoch:
            return 0
        found = dict(self._found(fragment, epoch, written))
        new = [path for path, tag in found.items() if written.synced.get(path) != tag]
        for path in new[:most]:
            try:
                self._disk.sync([path])
            except FileNotFoundError:  # Spark has retired it meanwhile
                continue
            written.synced[path] = found[path]
        if len(new) <= most:
            written.synced = found
            written.settled = epoch if by_itself else None
        return len(new)

    def _found(self, fragment: str, epoch: Path, written: _Written) -> Iterator[tuple[Path, Tag]]:
        """Every file before the folder that it lies in: names last."""
        folders = dict[Path, None]()
        if is_folder(self._disk, epoch):
            for path, entry in everything_below(self._disk, epoch):
                if entry.kind == "folder":
                    folders[path] = None
                else:
                    yield path, entry.tag
            folders |= dict.fromkeys((epoch, epoch.parent))
        if (log := self._log_of(fragment)) is not None and is_folder(self._disk, log):
            named = [file for _, file in live_files(log, self._disk)]
            for path in (*self._rows(log, written), *named):
                if (there := self._disk.look(path)) is not None:
                    yield path, there.tag
                    folders[path.parent] = None
            folders[log.parent] = None
        for folder in sorted(folders, key=lambda each: len(each.parts), reverse=True):
            if (there := self._disk.look(folder)) is not None:
                yield folder, there.tag

    def _rows(self, log: Path, written: _Written) -> Iterable[Path]:
        if written.log is None or written.log.log != log:
            written.log = FollowedLog(log, self._disk)
        news = written.log.news()
        if news.anew:
            written.rows.clear()
        written.rows.extend(entry_of(line, log, self._disk).path for line in news.lines[-NEWEST:])
        return tuple(written.rows)
