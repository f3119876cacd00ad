"""Writing a file all or nothing: beside its place under a hidden name, then renamed into it.

A reader of the file sees the old content or the new, never half of one, wherever the writer fails. The hidden
name cannot be guessed and is never a link that someone else put there.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path

_NAME_KEPT = 40
"""Characters of the file's name in the hidden one: enough to know it by after a crash, and not too long."""

_MOST_SECRET_BYTES = 65536

_NO_FOLDERS_SYNCED = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF})
"""Answers of file systems, mostly over a network, that sync no folders: a name is then as safe as they make
it. The handle is a good one, so EBADF means the same."""


def write_whole(
    path: Path,
    content: str | bytes,
    *,
    on_disk: bool = False,
    through: Path | None = None,
    mode: int | None = None,
) -> None:
    """Replace the file, or make it. A link at `path` is replaced too, and what it points to is left alone.

    A file that was there keeps its permissions; a new one gets what the process gives new files. With `mode`
    it has those permissions from the first moment, whatever was there.
    `through` is a folder for the hidden name on the same file system, where it is not that of `path`.
    `on_disk` waits until it would survive a power failure: for what announces a step that cannot be undone.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "status.json")
    ...     write_whole(file, "{}")
    ...     file.read_text()
    '{}'
    """
    data = content.encode() if isinstance(content, str) else content
    hidden = (through or path.parent) / f".{path.name[:_NAME_KEPT]}.{secrets.token_hex(8)}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    handle = os.open(hidden, flags, 0o666 if mode is None else mode)
    try:
        with open(handle, "wb") as out:
            before = _permissions(path) if mode is None else mode
            if before is not None:
                os.fchmod(out.fileno(), before)
            out.write(data)
            if on_disk:
                out.flush()
                os.fsync(out.fileno())
        os.replace(hidden, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(hidden)
        raise
    if on_disk:
        sync_folder(path.parent)


def _permissions(path: Path) -> int | None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return stat.S_IMODE(found.st_mode) if stat.S_ISREG(found.st_mode) else None


def read_private(path: Path, *, placed: bool = False) -> bytes | None:
    """A secret, if it is one: a plain file of this user or root that nobody else can change or read. None if
    it is not, as after a clone of a repository. `OSError` if it cannot be read.

    One that somebody has `placed` there may be behind a link and readable by its group, which is how clusters
    hand out secrets.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (0 if placed else os.O_NOFOLLOW))
    try:
        found = os.fstat(handle)
        barred = stat.S_IRWXO | stat.S_IWGRP | (0 if placed else stat.S_IRWXG)
        mine = stat.S_ISREG(found.st_mode) and found.st_uid in (0, os.geteuid())
        return os.read(handle, _MOST_SECRET_BYTES) if mine and not found.st_mode & barred else None
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder survive a power failure. A disk that fails raises `OSError`."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as refused:
        if refused.errno not in _NO_FOLDERS_SYNCED:
            raise
    finally:
        os.close(handle)
