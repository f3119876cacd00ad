"""A disk in memory that forgets, tears and refuses as real ones do, and the same way every time.

One `SimulatedStorage` is what lies there; each process reaches it by a `SimulatedDisk` of its own. Every call
of `mooring.disk.Disk` is made of the operations that the real one makes (a replaced file is created, written,
synced and renamed), and a process can be stopped, interrupted or refused before any of them.

What a power cut leaves follows from what was synced. Names and contents are kept apart:

| names           | which changes of names survive                                                           |
| --------------- | ---------------------------------------------------------------------------------------- |
| `in order`      | all up to some moment after the last sync of anything, as ext4 and XFS keep a journal    |
| `in any order`  | those of folders that were synced, and any of the others: all that POSIX promises        |

A file that was written and not synced holds what it was given, the beginning of it, zero bytes, or nothing.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from mooring.disk import Content, DiskEntry, HeldLock, Kind, StaleTagError, Tag

Order = Literal["in order", "in any order"]
_MOST_LINKS = 20
_ROOM_BYTES = 1 << 30
_PAGE_BYTES = 64
"""What a power cut leaves of a file is whole pages. They are small, as files are here; no line of a log is as
short."""
_NEEDS_ROOM = frozenset({"make", "write", "make folder", "make link", "second name"})


class Stopped(BaseException):
    """The process is no more. No code of the product catches it."""


class VirtualClock:
    """Stands still unless somebody moves it."""

    def __init__(self, now_s: float = 1.7e9) -> None:
        self._now_s = now_s
        self._monotonic_s = 1000.0

    def now_s(self) -> float:
        return self._now_s

    def monotonic_s(self) -> float:
        return self._monotonic_s

    def sleep(self, seconds: float) -> None:
        self._now_s += seconds
        self._monotonic_s += seconds

    def step(self, seconds: float) -> None:
        """The machine's clock is set; no time has passed."""
        self._now_s += seconds


@dataclass
class _Node:
    kind: Kind
    data: bytes = b""
    synced: bytes | None = b""
    """What a power cut leaves for certain; of a new file nothing."""
    target: str = ""
    modified_s: float = 0.0
    version: int = 0
    names: dict[str, int] = field(default_factory=dict)
    """Of a folder."""
    kept: dict[str, int] = field(default_factory=dict)
    """The same, as it is on the disk itself."""


@dataclass(frozen=True)
class _Change:
    """Of names, in one step: a rename has two."""

    names: tuple[tuple[int, str, int | None], ...]
    """Folder, name, and what it stands for from now on."""

    def is_of(self, folder: int) -> bool:
        return any(number == folder for number, _, _ in self.names)


class SimulatedStorage:
    def __init__(self, clock: VirtualClock, order: Order = "in order") -> None:
        self.clock, self.order = clock, order
        self._nodes: list[_Node] = [_Node("folder")]
        self._pending: list[_Change] = []
        self._locks: dict[int, str] = {}
        self._listings: dict[tuple[str, int], tuple[float, list[str]]] = {}
        """What machines remember of folders: since when, which names."""
        self.lagging = True
        """Whether listings lag behind, where machines have such a mount."""
        self.full = False
        """No room: nothing can be made or written, only removed, renamed and overwritten."""
        self.operations = 0
        self._digest = hashlib.blake2b(digest_size=16)
        self.recent: list[str] | None = None
        """Operations in words, if somebody wants them."""

    @property
    def digest(self) -> str:
        """Stands for every operation so far."""
        return self._digest.hexdigest()

    def record(self, process: str, name: str, path: Path | str) -> None:
        self.operations += 1
        line = f"{process} {name} {path}"
        self._digest.update(line.encode())
        if self.recent is not None:
            self.recent.append(line)

    # What is there

    def node(self, number: int) -> _Node:
        return self._nodes[number]

    def find(self, path: Path | str, *, follow: bool = True) -> int | None:
        """Number of what lies there; None if nothing does."""
        text, number = str(path), 0
        for part in text.split("/"):
            if part:
                found = self._nodes[number].names.get(part)
                if found is None or self._nodes[found].kind == "link":
                    return self._walk(text, follow)[0]
                number = found
        return number

    def real(self, path: Path | str) -> str:
        return self._walk(str(path), True)[1]

    def _walk(self, path: str, follow: bool, links: int = 0) -> tuple[int | None, str]:
        """What lies there, and its path without links."""
        at: int | None = 0
        real = ""
        parts = [part for part in path.split("/") if part and part != "."]
        for i, part in enumerate(parts):
            if part == "..":
                real = real.rpartition("/")[0]
                at = self._walk(real, True, links)[0]
                continue
            found = None
            if at is not None and (folder := self._nodes[at]).kind == "folder":
                found = folder.names.get(part)
            at, below = found, f"{real}/{part}"
            if at is not None and (link := self._nodes[at]).kind == "link" and (follow or i < len(parts) - 1):
                if links >= _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                target = link.target if link.target.startswith("/") else f"{real}/{link.target}"
                at, real = self._walk(target, True, links + 1)
                continue
            real = below
        return at, real or "/"

    def folder_of(self, path: Path) -> int:
        """That which a name lies in, or is to."""
        found = self.find(path.parent)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        if self._nodes[found].kind != "folder":
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        return found

    # What is changed

    def make(self, node: _Node) -> int:
        node.modified_s = self.clock.now_s()
        self._nodes.append(node)
        return len(self._nodes) - 1

    def rename(self, machine: str, *names: tuple[int, str, int | None]) -> None:
        """Let names stand for something else, or for nothing, in one step."""
        for folder, name, number in names:
            node = self._nodes[folder]
            if number is None:
                node.names.pop(name, None)
            else:
                node.names[name] = number
            node.version += 1
            self._listings.pop((machine, folder), None)
        self._pending.append(_Change(names))

    def forget_listing(self, number: int, machine: str) -> None:
        self._listings.pop((machine, number), None)

    def listing(self, number: int, machine: str, behind_s: float) -> list[str]:
        """Names in a folder, as a machine sees them that looks anew only after so long."""
        now_s = self.clock.monotonic_s()
        known = self._listings.get((machine, number))
        if self.lagging and known is not None and now_s - known[0] < behind_s:
            return known[1]
        names = sorted(self._nodes[number].names)
        if behind_s > 0:
            self._listings[machine, number] = (now_s, names)
        return names

    def write(self, number: int, data: bytes) -> None:
        node = self._nodes[number]
        node.data = data
        node.version += 1
        node.modified_s = self.clock.now_s()

    def sync(self, number: int) -> None:
        node = self._nodes[number]
        if node.kind == "file":
            node.synced = node.data
        if self.order == "in order":
            self._keep(self._pending)
            self._pending = []
        elif node.kind == "folder":
            self._keep(change for change in self._pending if change.is_of(number))
            self._pending = [change for change in self._pending if not change.is_of(number)]

    def _keep(self, changes: Iterable[_Change]) -> None:
        for change in changes:
            for folder, name, number in change.names:
                kept = self._nodes[folder].kept
                if number is None:
                    kept.pop(name, None)
                else:
                    kept[name] = number

    def power_cut(self, seed: int) -> None:
        """Everything that is not on the disk is gone, as far as the seed says. All processes end."""
        self.record("", "power cut", str(seed))
        generator = np.random.default_rng(seed)
        worst = generator.random() < 0.5
        self._keep(self._survivors(generator, worst=worst))
        self._pending = []
        self._locks.clear()
        self._listings.clear()
        for node in self._nodes:
            if node.kind == "folder":
                node.names = dict(node.kept)
            elif node.kind == "file" and node.synced != node.data:
                node.data = _left_of(node, generator, worst=worst)
                node.synced = node.data
            node.version += 1

    def _survivors(self, generator: np.random.Generator, *, worst: bool) -> list[_Change]:
        count = len(self._pending)
        if self.order == "in order":
            # What is worst is that all names are there, and nothing in the files.
            return self._pending[: count if worst else int(generator.integers(count + 1))]
        drawn = generator.random(count) < (0.5 if worst else 0.8)
        return [change for change, stays in zip(self._pending, drawn, strict=True) if stays]

    # Locks

    def hold(self, number: int, process: str) -> None:
        self._locks[number] = process

    def holder(self, number: int) -> str | None:
        return self._locks.get(number)

    def let_go(self, number: int, process: str) -> None:
        if self._locks.get(number) == process:
            del self._locks[number]

    def ended(self, process: str) -> None:
        """A process is no more, and so are its locks."""
        self._locks = {number: holder for number, holder in self._locks.items() if holder != process}

    def damage(self, path: Path, data: bytes) -> None:
        """Somebody else changes a file, on the disk itself."""
        number = self.find(path)
        assert number is not None
        self.write(number, data)
        self._nodes[number].synced = data

    def tree(self, folder: str = "/") -> dict[str, bytes | None]:
        """Everything below a folder, for those who compare: files by content, folders as None."""
        found: dict[str, bytes | None] = {}
        number = self.find(folder)
        waiting = [] if number is None else [(folder.rstrip("/"), number)]
        while waiting:
            path, number = waiting.pop()
            node = self._nodes[number]
            found[path] = node.data if node.kind == "file" else node.target.encode() or None
            waiting += [(f"{path}/{name}", inner) for name, inner in sorted(node.names.items())]
        return found


def _left_of(node: _Node, generator: np.random.Generator, *, worst: bool) -> bytes:
    before, added = node.synced or b"", len(node.data) - len(node.synced or b"")
    if added == 0:
        return before if worst or generator.random() < 0.5 else node.data  # in place: the one or the other
    if not node.data.startswith(before):
        before, added = b"", len(node.data)
    drawn = 3 if worst else int(generator.integers(4))
    if drawn == 0:
        return node.data
    if drawn == 1:
        kept = len(before) + int(generator.integers(added + 1))
        return node.data[: max(len(before), kept // _PAGE_BYTES * _PAGE_BYTES)]
    return before + (bytes(added) if drawn == 2 else b"")


class SimulatedDisk:
    """One process's way to the storage."""

    def __init__(
        self,
        storage: SimulatedStorage,
        process: str = "process",
        machine: str = "machine",
        behind_s: float = 0.0,
    ) -> None:
        """`behind_s`: so long its machine goes by a listing that it has made, as on NFS, unless it has
        changed the folder itself.
        """
        self.storage, self.process, self.machine, self.behind_s = storage, process, machine, behind_s
        self.operations = 0
        self.stopped = False
        self.before: Callable[[str, Path], None] = lambda name, path: None
        """Called before every operation; what it raises is raised there."""

    def stop(self) -> None:
        """The process ends here: everything that is done is done, and nothing more happens."""
        self.stopped = True
        self.storage.ended(self.process)

    def _about_to(self, name: str, path: Path) -> None:
        if self.stopped:
            raise Stopped
        self.operations += 1
        self.before(name, path)
        if self.stopped:
            raise Stopped
        if self.storage.full and name in _NEEDS_ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        self.storage.record(self.process, name, path)

    # What object stores have too

    def read(self, path: Path, start: int = 0) -> Content:
        self._about_to("read", path)
        number = self._file(path)
        return Content(self.storage.node(number).data[start:], self._tag(number))

    def list(self, folder: Path, *, current: bool = False) -> list[str]:
        self._about_to("list", folder)
        number = self.storage.find(folder)
        if number is None or self.storage.node(number).kind != "folder":
            return []
        if current and not self.storage.full:
            self.storage.forget_listing(number, self.machine)
        return list(self.storage.listing(number, self.machine, self.behind_s))

    def look(self, path: Path, *, follow: bool = True) -> DiskEntry | None:
        self._about_to("look", path)
        number = self.storage.find(path, follow=follow)
        if number is None:
            return None
        node = self.storage.node(number)
        return DiskEntry(path.name, node.kind, len(node.data), node.modified_s, self._tag(number))

    def create(self, path: Path, data: bytes, *, durable: bool = True) -> None:
        hidden = path.with_name(f".{path.name}.{self._token()}.new")
        number = self._written(hidden, data, durable=durable)
        try:
            self._about_to("second name", path)
            folder = self.storage.folder_of(path)
            if path.name in self.storage.node(folder).names:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
            self.storage.rename(self.machine, (folder, path.name, number))
        finally:
            self._unlink(hidden)
        if durable:
            self._sync_folder(path.parent)

    def replace(
        self,
        path: Path,
        data: bytes,
        *,
        tag: Tag | None = None,
        through: Path | None = None,
        durable: bool = True,
        mode: int | None = None,
    ) -> None:
        if tag is not None:
            number = self.storage.find(path)
            if number is None or self._tag(number) != tag:
                raise StaleTagError(errno.ESTALE, "it was changed by somebody else", str(path))
        hidden = (through or path.parent) / f".{path.name[:40]}.{self._token()}.new"
        try:
            self._written(hidden, data, durable=durable)
            self.move(hidden, path)
        except OSError:
            if self.storage.find(hidden.parent) is not None:
                self._unlink(hidden)
            raise
        if durable:
            self._sync_folder(path.parent)

    def copy(self, old: Path, new: Path, *, apart: bool = False) -> None:
        number = self.storage.find(old, follow=False)
        if number is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(old))
        if apart:
            self._written(new, self.storage.node(number).data, durable=True)
            return
        self._about_to("second name", new)
        folder = self.storage.folder_of(new)
        if new.name in self.storage.node(folder).names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(new))
        self.storage.rename(self.machine, (folder, new.name, number))

    def delete(self, path: Path) -> None:
        number = self.storage.find(path, follow=False)
        if number is not None and self.storage.node(number).kind == "folder":
            for name in sorted(self.storage.node(number).names):
                self.delete(path / name)
            self._about_to("remove folder", path)
        else:
            self._about_to("remove", path)
        parent = self.storage.find(path.parent)
        if number is None or parent is None:
            return
        if self.storage.node(number).names:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))
        self.storage.rename(self.machine, (parent, path.name, None))

    # What only file systems have

    def append(self, path: Path, data: bytes, *, at: int | None = None) -> int:
        number = self.storage.find(path)
        made = number is None
        if number is None:
            number = self._made(path)
        self._about_to("write", path)
        node = self.storage.node(number)
        kept = node.data if at is None else node.data[:at]
        self.storage.write(number, kept + data)
        self._about_to("sync", path)
        self.storage.sync(number)
        if made:
            self._sync_folder(path.parent)
        return len(kept) + len(data)

    def overwrite(self, path: Path, data: bytes) -> None:
        self._about_to("overwrite", path)
        number = self._file(path)
        self.storage.write(number, data + self.storage.node(number).data[len(data) :])

    def move(self, old: Path, new: Path) -> None:
        self._about_to("move", new)
        number = self.storage.find(old, follow=False)
        if number is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(old))
        source, target = self.storage.folder_of(old), self.storage.folder_of(new)
        there = self.storage.node(target).names.get(new.name)
        if there is not None and there != number:
            moved, found = self.storage.node(number), self.storage.node(there)
            if moved.kind == "folder" and found.kind != "folder":
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(new))
            if moved.kind != "folder" and found.kind == "folder":
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(new))
            if found.names:
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(new))
        if there == number:
            return  # two names of one file: nothing happens
        self.storage.rename(self.machine, (source, old.name, None), (target, new.name, number))

    def make_folder(
        self, folder: Path, *, parents: bool = False, exist_ok: bool = False, like: Path | None = None
    ) -> None:
        """Nobody's permissions are simulated."""
        self._about_to("make folder", folder)
        number = self.storage.find(folder)
        if number is not None:
            if exist_ok and self.storage.node(number).kind == "folder":
                return
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder))
        if self.storage.find(folder, follow=False) is not None:  # a link that leads nowhere
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder))
        if parents and self.storage.find(folder.parent) is None:
            self.make_folder(folder.parent, parents=True, exist_ok=True)
        parent = self.storage.folder_of(folder)
        self.storage.rename(self.machine, (parent, folder.name, self.storage.make(_Node("folder"))))

    def link(self, path: Path, target: str) -> None:
        self._about_to("make link", path)
        parent = self.storage.folder_of(path)
        if path.name in self.storage.node(parent).names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        node = _Node("link", target=target)
        self.storage.rename(self.machine, (parent, path.name, self.storage.make(node)))

    def target(self, path: Path) -> str | None:
        self._about_to("look", path)
        number = self.storage.find(path, follow=False)
        if number is None or (node := self.storage.node(number)).kind != "link":
            return None
        return node.target

    def real(self, path: Path) -> Path:
        self._about_to("look", path)
        return Path(self.storage.real(path))

    def sync(self, paths: Iterable[Path]) -> None:
        for path in dict.fromkeys(paths):
            self._about_to("sync", path)
            number = self.storage.find(path)
            if number is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            self.storage.sync(number)

    def lock(self, path: Path) -> HeldLock | None:
        self._about_to("lock", path)
        number = self.storage.find(path)
        if number is None:
            number = self._made(path)
        holder = self.storage.holder(number)
        if holder is not None:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(path))
        self.storage.hold(number, self.process)
        return _Held(self, number)

    def is_locked(self, path: Path) -> bool:
        self._about_to("look", path)
        number = self.storage.find(path)
        return number is not None and self.storage.holder(number) is not None

    def free_bytes(self, path: Path) -> int:
        self._about_to("look", path)
        return 0 if self.storage.full else _ROOM_BYTES

    # What calls are made of

    def write_file(self, path: Path, data: bytes, *, durable: bool) -> None:
        """A file under its own name, as Spark's tasks write theirs."""
        self._written(path, data, durable=durable)

    def _written(self, path: Path, data: bytes, *, durable: bool) -> int:
        number = self._made(path)
        self._about_to("write", path)
        self.storage.write(number, data)
        if durable:
            self._about_to("sync", path)
            self.storage.sync(number)
        return number

    def _made(self, path: Path) -> int:
        self._about_to("make", path)
        folder = self.storage.folder_of(path)
        if path.name in self.storage.node(folder).names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        number = self.storage.make(_Node("file"))
        self.storage.rename(self.machine, (folder, path.name, number))
        return number

    def _unlink(self, path: Path) -> None:
        self._about_to("remove", path)
        folder = self.storage.folder_of(path)
        if path.name in self.storage.node(folder).names:
            self.storage.rename(self.machine, (folder, path.name, None))

    def _sync_folder(self, folder: Path) -> None:
        self._about_to("sync folder", folder)
        number = self.storage.find(folder)
        if number is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))
        self.storage.sync(number)

    def _file(self, path: Path) -> int:
        number = self.storage.find(path)
        if number is None:
            self.storage.folder_of(path)  # says that it is no folder, if so
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        if self.storage.node(number).kind == "folder":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        return number

    def _tag(self, number: int) -> Tag:
        node = self.storage.node(number)
        return number, len(node.data), node.version

    def _token(self) -> str:
        return f"{self.storage.operations:016x}"


@dataclass
class _Held:
    disk: SimulatedDisk
    number: int

    def close(self) -> None:
        self.disk.storage.let_go(self.number, self.disk.process)
