"""A log of Spark's, followed: each call returns what was added since the last, and reads nothing else.

A file of a log never changes once it is written, so one that was read needs a look at its inode, size and
time only. Every tenth batch Spark writes the whole log into one new file, followed by the batch itself: it
repeats the known part up to a byte that can be computed beforehand, and only the rest is read. Where
something else is found (a log that was shortened, put back from a copy, went back or has a hole) the log is
read from its beginning, and that is said.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path

from mooring.disk import DISK, Disk, Tag
from mooring.spark.storage.stream_logs import VERSION, LogLine, live_files, parse_lines

_ATTEMPTS = 5


@dataclass(frozen=True)
class News:
    lines: list[LogLine]
    anew: bool
    """These are all lines of the log; what was told before no longer counts."""


class FollowedLog:
    def __init__(self, log: Path, disk: Disk = DISK) -> None:
        self.log = log
        self._disk = disk
        self._forget()

    def news(self) -> News:
        """What the log tells beyond the last call; everything at the first."""
        for _ in range(_ATTEMPTS):
            try:
                return self._look()
            except FileNotFoundError:  # retired between listing and reading; a newer file repeats it
                self._forget()
            except BaseException:
                self._forget()  # what was read and not told must be told next time
                raise
        return self._look()

    def _forget(self) -> None:
        self._begun = False
        self._seen: dict[str, Tag] = {}
        """The live files as they were when they were read."""
        self._newest = -1
        """Batch up to which everything was told."""
        self._length = len(VERSION)
        """Bytes of one file with all that was told."""
        self._last_line = b""

    def _look(self) -> News:
        live = live_files(self.log, self._disk)
        if not self._begun or not self._goes_on(live):
            return self._from_the_beginning(live)
        told: list[LogLine] = []
        for number, file in [each for each in live if each[0] > self._newest]:
            if (lines := self._read(number, file)) is None:
                return self._from_the_beginning(live)
            told += lines
        kept = {file.name for _, file in live}
        self._seen = {name: tag for name, tag in self._seen.items() if name in kept}
        return News(told, anew=False)

    def _goes_on(self, live: list[tuple[int, Path]]) -> bool:
        """Whether what was read is still there as it was, as far as no compacted file has taken its place."""
        if not live:
            return not self._seen
        first, last = live[0][0], live[-1][0]
        known = {file.name for number, file in live if number <= self._newest}
        expected = {name for name in self._seen if int(name.partition(".")[0]) >= first}
        return (
            last >= self._newest
            and known == expected
            and all(self._tag(name) == self._seen[name] for name in known)
        )

    def _tag(self, name: str) -> Tag:
        if (found := self._disk.look(self.log / name)) is None:
            raise FileNotFoundError(errno.ENOENT, "no longer there", str(self.log / name))
        return found.tag

    def _from_the_beginning(self, live: list[tuple[int, Path]]) -> News:
        self._forget()
        told: list[LogLine] = []
        for number, file in live:
            told += self._read(number, file, whole=True) or ()
        self._begun = True
        return News(told, anew=True)

    def _read(self, number: int, file: Path, *, whole: bool = False) -> list[LogLine] | None:
        """The new lines of a file; None if it is a compacted one that does not begin with what is known."""
        repeats = file.suffix == ".compact" and not whole
        if repeats:
            known = b"\n" + self._last_line if self._last_line else VERSION
            content = self._disk.read(file, self._length - len(known))
            if not content.data.startswith(known):
                return None
            text = VERSION + content.data[len(known) :]
            if text[len(VERSION) :][:1] not in (b"", b"\n"):
                return None
        else:
            content = self._disk.read(file)
            text = content.data
        lines = parse_lines(text, file)
        text = text.rstrip(b"\n")
        self._length += len(text) - len(VERSION)
        if lines:
            self._last_line = text[text.rindex(b"\n") + 1 :]
        self._seen[file.name] = content.tag
        self._newest = number
        return lines
