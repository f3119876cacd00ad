"""A folder made anew with what another one holds, so that nobody's handle on the old one leads into it.

A renamed folder is the same folder: a process that has it open, or a network file system that remembers where
its name led, goes on writing into it under whatever name it has now. A fresh one can be reached by its own
name only. The files in it are hard links, so that no data is copied; a writer that puts whole files into
place by a rename can then change none of them. Which files are written otherwise, and what remains, says
docs/decisions/0029-fresh-folders.md.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
from collections.abc import Collection
from pathlib import Path

UNFINISHED = re.compile(r"\.\.?.*\.tmp(\.crc)?")
"""How Spark names a file that it has begun and not put into place, and the checksum of one."""

_WRITTEN_LAST = {"commits": 0, "state": 1, "offsets": 3, "sources": 4}
"""A checkpoint's folders in the opposite order of writing. Should something still be written while the links
are made, nothing is taken along without what it rests on."""
_OTHERS = 2
_NO_LINKS = {errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}


def carry_into(
    old: Path, fresh: Path, *, copied: Collection[str] = (), left_out: Collection[str] = ()
) -> None:
    """Make `fresh` and put everything into it that `old` holds, but for what is unfinished.

    Of what lies directly in `old`, the files in `copied` are written to in place, and copied, and what is in
    `left_out` stays behind. Everything is copied where there are no hard links, or none of another user's
    files. What is removed meanwhile is left out.
    """
    _make_like(old, fresh)
    for entry in in_order(old):
        if entry.name in left_out:
            continue
        try:
            if entry.is_dir(follow_symlinks=False):
                carry_into(Path(entry.path), fresh / entry.name)
            elif not UNFINISHED.fullmatch(entry.name):
                _carry_file(entry.path, str(fresh / entry.name), copy=entry.name in copied)
        except FileNotFoundError:
            if not old.is_dir():
                raise


def in_order(folder: Path) -> list[os.DirEntry[str]]:
    """Files before folders: RocksDB's list of a version is written after the files that it lists."""
    with os.scandir(folder) as found:
        return sorted(
            found,
            key=lambda entry: (
                entry.is_dir(follow_symlinks=False),
                _WRITTEN_LAST.get(entry.name, _OTHERS),
                entry.name,
            ),
        )


def _carry_file(old: str, new: str, *, copy: bool) -> None:
    if not copy:
        try:
            os.link(old, new, follow_symlinks=False)
            return
        except OSError as refused:
            if refused.errno not in _NO_LINKS:
                raise
    shutil.copy2(old, new, follow_symlinks=False)
    with open(new, "rb") as copied:
        os.fsync(copied.fileno())


def _make_like(old: Path, fresh: Path) -> None:
    """Sites that run as another user go on writing where they could, as far as we may arrange it."""
    fresh.mkdir()
    before = os.stat(old)
    os.chmod(fresh, before.st_mode & 0o7777)
    if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(PermissionError):
            os.chown(fresh, before.st_uid, before.st_gid)
