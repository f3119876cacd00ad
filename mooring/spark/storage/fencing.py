"""Fencing: a query that should have ended never commits another batch, whether or not it received the order.

What cannot be reached cannot be stopped, so the fence is in storage. The checkpoint of a fragment lies in a
folder named after its epoch, and every start takes the next one: the old folder's name is taken away and
given to a plain file, and what it held goes into a fresh folder. In all that the old query still does, its
offsets, commits, state and source logs go to a path that is gone and that no one can make again, so it fails
there; where it still has the old folder open, they go to a folder without readers. One batch stays in doubt,
the one whose offsets were already written; docs/decisions/0012-fencing.md says why its rows appear once.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Callable
from pathlib import Path

from mooring.disk import DISK, Disk, is_folder
from mooring.errors import EngineError
from mooring.spark.storage.fresh_folder import UNFINISHED, carry_into

_EPOCH = re.compile(r"\d{6,}")
_TAKEN = re.compile(r"\.(\d{6,})\.\w+\.taken")
_MAKING = re.compile(r"\.\d{6,}\.\w+\.making")
_ATTEMPTS = 20
_TOMBSTONE = b"A later start took along what was here. Nothing may be written here.\n"


def current_epoch(home: Path, disk: Disk = DISK) -> Path:
    """The folder of the newest epoch under `home`; that of epoch 0, which is never made, if there is none.

    While it is being taken, and after a crash in the middle of that, it has a name that nobody writes to.
    """
    newest = newest_number(home, disk)
    # A folder beside it would have been made by the old query, in the moment between.
    for name in disk.list(home) if newest > 0 else ():
        taken = _TAKEN.fullmatch(name)
        if taken is not None and int(taken[1]) == newest and _is_own_folder(disk, home / name):
            return home / name
    there = (number for number in _numbers(home, disk) if is_folder(disk, _folder(home, number)))
    return _folder(home, max(there, default=0))


def newest_number(home: Path, disk: Disk = DISK) -> int:
    """Of all epochs that were ever taken under `home`; 0 if none was."""
    return max(_numbers(home, disk), default=0)


def take_epoch(
    home: Path, disk: Disk = DISK, begin: Callable[[Path], None] = lambda checkpoint: None
) -> Path:
    """Carry the checkpoint under `home` into a new epoch; every query started before is fenced off. `begin`
    may add to what was carried, before anybody can see it.
    """

    def finish(old: Path, making: Path) -> Path:
        made = _carried(disk, old, making)
        begin(made)
        return made

    try:
        disk.make_folder(home, exist_ok=True)
        return take_next(home, finish, disk)
    except OSError as failure:
        raise EngineError(
            f"the checkpoint in {home} cannot be fenced: {failure}",
            remedy="check that the storage root exists, is writable and is not full; nothing was started",
        ) from failure


def take_next(
    home: Path, finish: Callable[[Path, Path], Path], disk: Disk = DISK, *, after: int | None = None
) -> Path:
    """The next epoch's folder, with the old one's name taken away from it for good.

    `finish` is given the old folder (which is none before the first epoch) and a name for a new one, and
    returns the folder that becomes the next epoch. Safe to interrupt and to repeat: `current_epoch` is what
    counts, whatever lies beside it. Of several who take the epoch after number `after`, one gets it, and the
    others an `OSError`.
    """
    newest, number = current_epoch(home, disk), newest_number(home, disk)
    if after is not None and number != after:
        raise FileExistsError(f"{home} is at epoch {number} now, expected {after}")
    fresh = _folder(home, number + 1)
    old = newest
    if _EPOCH.fullmatch(newest.name) and is_folder(disk, newest):
        old = home / f".{newest.name}.{secrets.token_hex(8)}.taken"
        disk.move(newest, old)
    for number in range(max(1, _number_of(newest) - 1), int(fresh.name)):
        _bury(disk, _folder(home, number))
    disk.move(finish(old, home / f".{fresh.name}.{secrets.token_hex(8)}.making"), fresh)
    _sweep(disk, home)
    return fresh


def _carried(disk: Disk, old: Path, making: Path) -> Path:
    if is_folder(disk, old):
        carry_into(old, making, disk)
    else:
        disk.make_folder(making)
    return making


def retire(home: Path, disk: Disk = DISK) -> None:
    """Forget the checkpoint under `home`, and let nobody go on with it. Epochs are never used twice: a query
    left behind would otherwise find the path of its checkpoint alive again.
    """
    for number in {*_numbers(home, disk), newest_number(home, disk) + 1}:
        _bury(disk, _folder(home, number))
    _sweep(disk, home)


def replace_checkpoint(home: Path, made: Path, disk: Disk = DISK) -> None:
    """Let what was made aside be the checkpoint under `home`, in an epoch of its own, instead of the one that
    is there. Safe to interrupt and to repeat: once it is in its place, there is nothing left to do.
    """
    if is_folder(disk, made):
        retire(home, disk)
        disk.move(made, _folder(home, newest_number(home, disk) + 1))


def drop_unfinished(sink_log: Path, remove: Callable[[Path], None], disk: Disk = DISK) -> list[str]:
    """Remove what an earlier writer had begun to add to a sink's log, so that it can no longer be put into
    place. To be called while no query is meant to write there.
    """
    dropped = []
    for name in disk.list(sink_log, current=True):
        if UNFINISHED.fullmatch(name):
            remove(sink_log / name)
            dropped.append(name)
    return dropped


def _bury(disk: Disk, folder: Path) -> None:
    """Put a plain file where an old epoch's folder was, or came back because its query made it again."""
    for _ in range(_ATTEMPTS):
        try:
            disk.create(folder, _TOMBSTONE, durable=False)
            return
        except FileExistsError:
            if not is_folder(disk, folder):
                return
            # A name that nobody can guess, and so stand in the way of.
            away = folder.with_name(f".{folder.name}.stray-{secrets.token_hex(8)}")
            disk.move(folder, away)
            _remove(disk, away)
    raise OSError(f"a query that should have ended keeps creating {folder}")


def _remove(disk: Disk, stray: Path) -> None:
    """What cannot be removed does no harm: nobody reads it, and the next take tries again."""
    with contextlib.suppress(OSError):
        disk.delete(stray)


def _is_own_folder(disk: Disk, path: Path) -> bool:
    """And no link to one."""
    found = disk.look(path, follow=False)
    return found is not None and found.kind == "folder"


def _sweep(disk: Disk, home: Path) -> None:
    """Remove what a take has left. A query that has a folder of it open then finds that it is gone."""
    for name in disk.list(home):
        if _TAKEN.fullmatch(name) or _MAKING.fullmatch(name):
            _remove(disk, home / name)


def _folder(home: Path, number: int) -> Path:
    return home / f"{number:06d}"


def _number_of(folder: Path) -> int:
    taken = _TAKEN.fullmatch(folder.name)
    return int(folder.name if taken is None else taken[1])


def _numbers(home: Path, disk: Disk) -> list[int]:
    """Epochs that were ever taken: the newest one's folder, and a file for each before it."""
    folders = (taken[1] if (taken := _TAKEN.fullmatch(name)) else name for name in disk.list(home))
    return [int(name) for name in folders if _EPOCH.fullmatch(name)]
