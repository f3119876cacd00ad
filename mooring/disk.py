"""The disk as the storage uses it: one small set of calls, and nothing beside it.

Everything that outlives a run (channels, checkpoints, notes, journal, owner, views, sessions) is read and
written through a `Disk`. So a simulated disk can stand in for the real one: it stops at any call, loses or
tears what was not synced, and refuses like a full or a broken disk.

The calls come in two groups. Object stores have the first one: read with tag, list, look, create, replace
with tag, copy and delete. Only file systems have the second: append, overwrite, move, folders, links, sync
and lock. Fences and owners rest upon the second group (`fencing.py`, `owned_folder.py`, `owner.py`), and so
does the journal. A backend for object stores replaces those modules and keeps the rest
(docs/decisions/0082-one-interface-to-the-disk.md).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from mooring.atomic_files import sync_folder, write_whole

Kind = Literal["file", "folder", "link"]
Tag = tuple[int, ...]
"""Differs whenever the content of a file may differ. Its parts mean nothing to anybody but the disk."""

NO_HARD_LINKS = frozenset(
    {errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
)
_NOTHING_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_NOTHING_MADE = _NOTHING_THERE | {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT}
_ATTEMPTS = 5


@dataclass(frozen=True)
class DiskEntry:
    name: str
    kind: Kind
    size: int
    modified_s: float
    """By the clock of whoever wrote it, in seconds since 1970."""
    tag: Tag


@dataclass(frozen=True)
class Content:
    data: bytes
    tag: Tag


class StaleTagError(OSError):
    """The file is no longer what the caller has read."""


class HeldLock(Protocol):
    def close(self) -> None:
        """Let go of it."""
        ...


class Disk(Protocol):
    # What object stores have too

    def read(self, path: Path, start: int = 0) -> Content:
        """A file's content from a byte on. `FileNotFoundError` if there is none."""
        ...

    def list(self, folder: Path, *, current: bool = False) -> list[str]:
        """Names in a folder, sorted; none if there is no such folder. Machines with a network file system go
        by a listing for up to a minute. `current` has this one look anew, as far as it may write there.
        """
        ...

    def look(self, path: Path, *, follow: bool = True) -> DiskEntry | None:
        """What lies there, without reading it; None if nothing does. With `follow` a link is its target."""
        ...

    def create(self, path: Path, data: bytes, *, durable: bool = True) -> None:
        """Write a file that is not there yet. `FileExistsError` if anything is."""
        ...

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
        """Write a file all or nothing, whatever was there; with `tag` only over that (`StaleTagError`).

        `through`: a folder whose owner alone may write: once it is gone, so is the right to replace anything.
        """
        ...

    def copy(self, old: Path, new: Path, *, apart: bool = False) -> None:
        """A second name for a file that never changes, or a copy where there are no such names. `apart`: a
        copy in any case, for a file that is written to in place.
        """
        ...

    def delete(self, path: Path) -> None:
        """A file, a link, or a folder with all it holds; nothing if it is not there."""
        ...

    def __hash__(self) -> int:
        """By identity: what was looked up is remembered by disk."""
        ...

    # What only file systems have

    def append(self, path: Path, data: bytes, *, at: int | None = None) -> int:
        """Add to the end of a file, which is made if need be, durably; returns its length. `at`: cut it to so
        many bytes first.
        """
        ...

    def overwrite(self, path: Path, data: bytes) -> None:
        """Over the beginning of a file that is there, in place: needs no room."""
        ...

    def move(self, old: Path, new: Path) -> None:
        """One step, whatever is under way: whoever looks finds it under the one name or the other."""
        ...

    def make_folder(
        self, folder: Path, *, parents: bool = False, exist_ok: bool = False, like: Path | None = None
    ) -> None:
        """`like`: with the permissions of that folder, and its owner where this process may give it."""
        ...

    def link(self, path: Path, target: str) -> None:
        """Make a symbolic link."""
        ...

    def target(self, path: Path) -> str | None:
        """Where a symbolic link points; None if it is none."""
        ...

    def real(self, path: Path) -> Path:
        """The same place by a path without links."""
        ...

    def sync(self, paths: Iterable[Path]) -> None:
        """Files with their content and folders with their names survive a power cut from now on."""
        ...

    def lock(self, path: Path) -> HeldLock | None:
        """Hold a file, made for that, until it is closed or this process ends; None where there are no locks.
        `BlockingIOError` if another process holds it.
        """
        ...

    def is_locked(self, path: Path) -> bool:
        """Whether a process holds it; True where that cannot be told."""
        ...

    def free_bytes(self, path: Path) -> int: ...


class RealDisk:
    """The machine's own file systems."""

    def read(self, path: Path, start: int = 0) -> Content:
        with path.open("rb") as file:
            tag = _tag(os.fstat(file.fileno()))
            file.seek(start)
            return Content(file.read(), tag)

    def list(self, folder: Path, *, current: bool = False) -> list[str]:
        if current:
            _look_anew(folder)
        try:
            return sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def look(self, path: Path, *, follow: bool = True) -> DiskEntry | None:
        try:
            found = os.stat(path, follow_symlinks=follow)
        except OSError as refused:
            if refused.errno not in _NOTHING_THERE:
                raise
            return None
        kind: Kind = (
            "folder" if stat.S_ISDIR(found.st_mode) else "link" if stat.S_ISLNK(found.st_mode) else "file"
        )
        return DiskEntry(path.name, kind, found.st_size, found.st_mtime, _tag(found))

    def create(self, path: Path, data: bytes, *, durable: bool = True) -> None:
        hidden = path.with_name(f".{secrets.token_hex(8)}.new")
        try:
            write_whole(hidden, data, on_disk=durable)
            try:
                os.link(hidden, path)
            except OSError as refused:
                if refused.errno not in NO_HARD_LINKS:
                    raise
                with path.open("xb") as file:
                    file.write(data)
                    file.flush()
                    if durable:
                        os.fsync(file.fileno())
        finally:
            hidden.unlink(missing_ok=True)
        if durable:
            sync_folder(path.parent)

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
        if tag is not None and ((found := self.look(path)) is None or found.tag != tag):
            raise StaleTagError(errno.ESTALE, "another process has changed it", str(path))
        write_whole(path, data, on_disk=durable, through=through, mode=mode)

    def copy(self, old: Path, new: Path, *, apart: bool = False) -> None:
        if not apart:
            try:
                os.link(old, new, follow_symlinks=False)
                return
            except OSError as refused:
                if refused.errno not in NO_HARD_LINKS:
                    raise
        shutil.copy2(old, new, follow_symlinks=False)
        with new.open("rb") as copied:
            os.fsync(copied.fileno())

    def delete(self, path: Path) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                os.unlink(path)
                return
            except FileNotFoundError:
                return
            except (IsADirectoryError, PermissionError):  # the latter is what POSIX says of a folder
                if not stat.S_ISDIR(os.lstat(path).st_mode):
                    raise
            try:
                shutil.rmtree(path)
                return
            except OSError as refused:
                # Somebody removes or adds a file in there at the same time.
                if refused.errno not in (errno.ENOENT, errno.ENOTEMPTY) or attempt == _ATTEMPTS - 1:
                    raise

    def append(self, path: Path, data: bytes, *, at: int | None = None) -> int:
        made = not path.exists()
        with path.open("ab") as file:
            if at is not None:
                file.truncate(at)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            length = file.seek(0, os.SEEK_END)
        if made:
            sync_folder(path.parent)
        return length

    def overwrite(self, path: Path, data: bytes) -> None:
        with path.open("r+b", buffering=0) as file:
            file.write(data)

    def move(self, old: Path, new: Path) -> None:
        os.rename(old, new)

    def make_folder(
        self, folder: Path, *, parents: bool = False, exist_ok: bool = False, like: Path | None = None
    ) -> None:
        folder.mkdir(parents=parents, exist_ok=exist_ok)
        if like is not None:
            found = os.stat(like)
            os.chmod(folder, found.st_mode & 0o7777)
            if (found.st_uid, found.st_gid) != (os.geteuid(), os.getegid()):
                with contextlib.suppress(PermissionError):
                    os.chown(folder, found.st_uid, found.st_gid)

    def link(self, path: Path, target: str) -> None:
        path.symlink_to(target, target_is_directory=True)

    def target(self, path: Path) -> str | None:
        try:
            return os.readlink(path)
        except OSError as refused:
            if refused.errno not in (errno.EINVAL, *_NOTHING_THERE):
                raise
            return None

    def real(self, path: Path) -> Path:
        return Path(os.path.realpath(path))

    def sync(self, paths: Iterable[Path]) -> None:
        for path in dict.fromkeys(paths):
            if path.is_dir():
                sync_folder(path)
                continue
            with path.open("rb") as file:
                os.fsync(file.fileno())

    def lock(self, path: Path) -> HeldLock | None:
        file = path.open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise
        except OSError:
            file.close()
            return None
        return file

    def is_locked(self, path: Path) -> bool:
        try:
            with path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    def free_bytes(self, path: Path) -> int:
        return shutil.disk_usage(path).free


DISK = RealDisk()
"""It has no state, so one serves everybody."""


def _tag(found: os.stat_result) -> Tag:
    return found.st_ino, found.st_size, found.st_mtime_ns


def _look_anew(folder: Path) -> None:
    """A client of NFS forgets its listing of a folder when it changes the folder itself."""
    try:
        hidden = folder / f".{secrets.token_hex(8)}.tmp"
        os.close(os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        os.unlink(hidden)
    except OSError as refused:
        if refused.errno not in _NOTHING_MADE:
            raise


def is_folder(disk: Disk, path: Path) -> bool:
    """Or a link to one."""
    found = disk.look(path)
    return found is not None and found.kind == "folder"


def is_file(disk: Disk, path: Path) -> bool:
    """Or a link to one."""
    found = disk.look(path)
    return found is not None and found.kind == "file"


def read_if_there(disk: Disk, path: Path) -> bytes | None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return disk.read(path).data
    return None


def is_link(disk: Disk, path: Path) -> bool:
    return disk.target(path) is not None


def everything_below(disk: Disk, folder: Path) -> Iterator[tuple[Path, DiskEntry]]:
    """All in a folder and in those in it, but not behind links; a folder comes before what it holds."""
    for path in (folder / name for name in disk.list(folder)):
        if (found := disk.look(path, follow=False)) is not None:
            yield path, found
            if found.kind == "folder":
                yield from everything_below(disk, path)
