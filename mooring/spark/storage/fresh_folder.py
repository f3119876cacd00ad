"""A fresh folder with the content of another, so that no open handle on the old one leads into it.

A renamed folder is the same folder: a process that has it open, or a network file system that remembers where
its name led, goes on writing into it under its new name. A fresh one can be reached by its own name only. The
files in it are hard links, so that no data is copied; a writer that puts whole files into place by a rename
can then change none of them. Which files are written otherwise, and what remains, says
docs/decisions/0029-fresh-folders.md.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from mooring.disk import DISK, Disk, DiskEntry, is_folder

UNFINISHED = re.compile(r"\.\.?.*\.tmp(\.crc)?")
"""How Spark names a file that it has begun and not put into place, and the checksum of one."""

_WRITTEN_LAST = {"commits": 0, "state": 1, "offsets": 3, "sources": 4}
"""A checkpoint's folders in the opposite order of writing. Should something still be written while the links
are made, nothing is taken along without what it rests on."""
_OTHERS = 2


def carry_into(
    old: Path,
    fresh: Path,
    disk: Disk = DISK,
    *,
    copied: Collection[str] = (),
    left_out: Collection[str] = (),
) -> None:
    """Make `fresh` and put everything into it that `old` holds, but for what is unfinished.

    Of what lies directly in `old`, the files in `copied` are written to in place, and copied, and what is in
    `left_out` stays behind. Everything is copied where there are no hard links, or none of another user's
    files. What is removed meanwhile is left out. Sites that run as another user go on writing in `fresh`
    where they could in `old`, as far as we may arrange it.
    """
    disk.make_folder(fresh, like=old)
    for entry in in_order(old, disk):
        if entry.name in left_out:
            continue
        try:
            if entry.kind == "folder":
                carry_into(old / entry.name, fresh / entry.name, disk)
            elif not UNFINISHED.fullmatch(entry.name):
                disk.copy(old / entry.name, fresh / entry.name, apart=entry.name in copied)
        except FileNotFoundError:
            if not is_folder(disk, old):
                raise


def in_order(folder: Path, disk: Disk = DISK) -> list[DiskEntry]:
    """Files before folders: RocksDB's list of a version is written after the files that it lists. What this
    machine remembers of the folder does not count: what is left out is lost with the old folder.
    """
    found = [disk.look(folder / name, follow=False) for name in disk.list(folder, current=True)]
    return sorted(
        (entry for entry in found if entry is not None),
        key=lambda entry: (entry.kind == "folder", _WRITTEN_LAST.get(entry.name, _OTHERS), entry.name),
    )
