"""The versions of one materialized view: each refresh writes a folder of its own, and a pointer says which
one counts.

A folder is written by a site and has no readers until the pointer names it. The pointer is replaced in one
rename, out of the epoch of the fragment's checkpoint under which the refresh was begun: a new start of the
view takes that epoch away, and a run that takes over the storage takes the folder above it (`fencing.py`,
`owned_folder.py`). So a refresh that was overtaken has nothing left to rename, and publishes nothing.

A reader sees the old version or the new one. Those that were superseded stay as long as a refresh reads them,
and for some time in any case: readers outside the pipeline cannot be seen.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from mooring.checksum import DamagedError, checked, with_sum
from mooring.disk import DISK, Disk, is_folder
from mooring.errors import EngineError
from mooring.spark.storage import stream_logs
from mooring.spark.storage.owned_folder import OwnedFolder
from mooring.spark.storage.views.whole_log import logged_lines, write_log

VIEWS = "views"
"""The folder of all materialized views in a storage root."""
POINTER = "current.json"
GRACE_S = 600.0
"""How long a version that was superseded stays for readers outside the pipeline."""
_FOLDER = re.compile(r"(\d{6,})-[0-9a-f]{8}")


class ReadsOf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a refresh was made of, fixed before it began."""

    batches: dict[str, int] = {}
    """Flow into a table that it read -> the last batch of it that was committed."""
    channels: dict[str, str] = {}
    """The same flow -> which channel that was, should it be deleted and made again."""
    versions: dict[str, str] = {}
    """Materialized view that it read -> the folder of its version; empty: it had none yet."""


class ViewVersion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    folder: str
    """Its name beside the pointer: no two versions ever have the same."""
    files: tuple[str, ...]
    """In that folder."""
    rows: int
    stored_bytes: int
    began_s: float
    """When the refresh began, in seconds since 1970."""
    took_s: float
    rows_in: int
    """Rows of everything it read."""
    reads: ReadsOf
    fingerprint: str
    """Of the view's query."""
    earlier: dict[str, float] = {}
    """Folders of versions before it that may still be there -> when each was superseded."""

    @property
    def number(self) -> int:
        return number_of(self.folder)


class ViewVersions:
    def __init__(self, folder: Path, disk: Disk = DISK) -> None:
        self.folder = folder
        self._disk = disk
        self._held: Counter[str] = Counter()
        self._superseded_s: dict[str, float] = {}
        """Since when this process knows of versions that they were: by no clock that can be set."""
        self._making: set[str] = set()
        """Folders of refreshes under way, be it that they were overtaken."""
        self.lock = threading.RLock()
        """Held by whoever looks up the current version in order to read it, and while old ones go."""

    @property
    def pointer(self) -> Path:
        return self.folder / POINTER

    def current(self) -> ViewVersion | None:
        """The newest version that was published; None before the first."""
        try:
            return msgspec.json.decode(checked(self._disk.read(self.pointer).data), type=ViewVersion)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, msgspec.DecodeError, DamagedError) as damage:
            raise EngineError(
                f"{self.pointer} cannot be read: {damage}",
                remedy="restore it from a copy, or remove it: the view is then computed again",
            ) from damage

    def path(self, version: ViewVersion) -> Path:
        return self.folder / version.folder

    def files(self) -> list[Path]:
        """Of the current version."""
        found = self.current()
        return [] if found is None else [self.path(found) / name for name in found.files]

    @contextmanager
    def making(self) -> Iterator[Path]:
        """A folder for a refresh that begins, which stays until it has ended one way or the other."""
        with self.lock:
            folder = self.next_folder()
            self._making.add(folder.name)
        try:
            yield folder
        finally:
            with self.lock:
                self._making.discard(folder.name)

    def next_folder(self) -> Path:
        """Nobody else will ever write there."""
        newest = max((number_of(name) for name in self._disk.list(self.folder)), default=0)
        found = self.current()
        newest = max(newest, 0 if found is None else found.number)
        return self.folder / f"{newest + 1:06d}-{secrets.token_hex(4)}"

    def publish(self, version: ViewVersion, through: Path) -> None:
        """Let it be the current one, by way of the folder of the epoch under which it was made: an `OSError`
        if that is gone. Its files are on disk before the pointer names them: what batch jobs write, no site
        syncs.
        """
        folder = self.path(version)
        files = [folder / name for name in version.files]
        folders = {parent for file in files for parent in file.parents if folder in (parent, *parent.parents)}
        inner_first = sorted(folders, key=lambda each: len(each.parts), reverse=True)
        self._disk.sync([*files, *inner_first, self.folder])
        with self.lock:
            before = self.current()
            if before is not None:
                earlier = {**before.earlier, before.folder: time.time()}
                there = {
                    name: at_s for name, at_s in earlier.items() if is_folder(self._disk, self.folder / name)
                }
                version = msgspec.structs.replace(version, earlier=there)
            content = msgspec.json.format(msgspec.json.encode(version), indent=1)
            self._disk.replace(self.pointer, with_sum(content), through=through)
            self._note_superseded(version)

    def _note_superseded(self, current: ViewVersion) -> None:
        known, now_s = self._superseded_s, time.monotonic()
        self._superseded_s = {name: known.get(name, now_s) for name in current.earlier}

    def hold(self) -> ViewVersion | None:
        """The current version, which stays until it is released."""
        with self.lock:
            found = self.current()
            if found is not None:
                self._held[found.folder] += 1
            return found

    def release(self, version: ViewVersion) -> None:
        with self.lock:
            self._held[version.folder] -= 1

    def sweep(self, remove: Callable[[Path], None], now_s: float | None = None) -> None:
        """Remove versions that were superseded long enough ago and that nobody holds, and folders that no
        version came of. `now_s`: by the monotonic clock.
        """
        now_s = time.monotonic() if now_s is None else now_s
        with self.lock:
            found = self.current()
            stay = self._making | {name for name, count in self._held.items() if count > 0}
            if found is not None:
                stay |= {found.folder}
                self._note_superseded(found)
                stay |= {name for name, at_s in self._superseded_s.items() if now_s - at_s < GRACE_S}
            for name in self._disk.list(self.folder):
                if _FOLDER.fullmatch(name) and name not in stay:
                    remove(self.folder / name)


def number_of(folder: str) -> int:
    """Of a version's folder; 0 if it is none.

    >>> number_of("000012-0a1b2c3d")
    12
    """
    found = _FOLDER.fullmatch(folder)
    return int(found[1]) if found else 0


_LISTED = "listed"
_SINK_LOG = "_spark_metadata"


@dataclass(frozen=True)
class ListedVersion:
    """A folder that always stands for the current version of a view, for tables in a catalog.

    It holds nothing but a log, which vouches for the files of that version where they lie. Whoever reads the
    folder with Spark finds one version whole, the old or the new one, and its files stay for a while after it
    was superseded. A link to the version's folder would not do: a reader lists it, then opens what another
    one holds.
    """

    versions: ViewVersions
    owned: OwnedFolder
    address: Callable[[Path], str]
    """What sites call a path under the storage root."""

    @property
    def folder(self) -> Path:
        return self.versions.folder / _LISTED

    def follow(self) -> None:
        """Let it stand for what the pointer says; for nothing before the first version."""
        with self.versions.lock:
            found = self.versions.current()
            files = [] if found is None else [self.versions.path(found) / name for name in found.files]
            lines = [
                stream_logs.sink_line(self.address(file), stored.size, 0)
                for file in files
                if (stored := self.owned.disk.look(file)) is not None  # else somebody removed it
            ]
            log = self.folder / _SINK_LOG
            if logged_lines(log, self.owned.disk) != lines:
                self.owned.make_folder(log)
                write_log(log, lines, self.owned)
