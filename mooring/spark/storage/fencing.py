"""Fencing: a query that was told to stop, or could not be told, never commits another batch.

What cannot be reached cannot be stopped, so the fence is in storage. The checkpoint of a fragment lies in a
folder named after its epoch, and every start takes the next one: the old folder's name is taken away and
given to a plain file, and what it held goes into a fresh folder. Whatever the old query still does, its
offsets, commits, state and source logs go to a path that is gone and that no one can make again, so it fails
there; where it still has the old folder open, they go to a folder that nobody reads. One batch stays in
doubt, the one whose offsets were already written; docs/decisions/0012-fencing.md says why its rows appear
once.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

from mooring.errors import EngineError
from mooring.spark.storage.fresh_folder import UNFINISHED, carry_into

_EPOCH = re.compile(r"\d{6,}")
_TAKEN = re.compile(r"\.(\d{6,})\.\w+\.taken")
_MAKING = re.compile(r"\.\d{6,}\.\w+\.making")
_ATTEMPTS = 20
_TOMBSTONE = "A later start took along what was here. Nothing may be written here.\n"


def current_epoch(home: Path) -> Path:
    """The folder of the newest epoch under `home`; that of epoch 0, which is never made, if there is none.

    While it is being taken, and after a crash in the middle of that, it has a name that nobody writes to.
    """
    newest = newest_number(home)
    # A folder beside it would have been made by the old query, in the moment between.
    for name in os.listdir(home) if newest > 0 else ():
        taken = _TAKEN.fullmatch(name)
        if taken is not None and int(taken[1]) == newest and _is_folder(home / name):
            return home / name
    return _folder(home, max((n for n in _numbers(home) if _folder(home, n).is_dir()), default=0))


def newest_number(home: Path) -> int:
    """Of all epochs that were ever taken under `home`; 0 if none was."""
    return max(_numbers(home), default=0)


def take_epoch(home: Path) -> Path:
    """Carry the checkpoint under `home` into a new epoch; every query started before is fenced off."""
    try:
        home.mkdir(exist_ok=True)
        return take_next(home, _carried)
    except OSError as failure:
        raise EngineError(
            f"the checkpoint in {home} cannot be fenced: {failure}",
            remedy="see that the storage root is there, writable and not full; nothing was started",
        ) from failure


def take_next(home: Path, finish: Callable[[Path, Path], Path], *, after: int | None = None) -> Path:
    """The next epoch's folder, with the old one's name taken away from it for good.

    `finish` is given the old folder (which is none before the first epoch) and a name for a new one, and
    returns the folder that becomes the next epoch. Safe to interrupt and to repeat: `current_epoch` is what
    counts, whatever lies beside it. Of several who take the epoch after number `after`, one gets it, and the
    others an `OSError`.
    """
    newest, number = current_epoch(home), newest_number(home)
    if after is not None and number != after:
        raise FileExistsError(f"{home} is at {number} by now, no longer at {after}")
    fresh = _folder(home, number + 1)
    old = newest
    if _EPOCH.fullmatch(newest.name) and newest.is_dir():
        old = home / f".{newest.name}.{secrets.token_hex(8)}.taken"
        os.rename(newest, old)
    for number in range(max(1, _number_of(newest) - 1), int(fresh.name)):
        _bury(_folder(home, number))
    os.rename(finish(old, home / f".{fresh.name}.{secrets.token_hex(8)}.making"), fresh)
    _sweep(home)
    return fresh


def _carried(old: Path, making: Path) -> Path:
    if old.is_dir():
        carry_into(old, making)
    else:
        making.mkdir()
    return making


def retire(home: Path) -> None:
    """Forget the checkpoint under `home`, and let nobody go on with it. Epochs are never used twice: a query
    left behind would otherwise find the path of its checkpoint alive again.
    """
    for number in {*_numbers(home), newest_number(home) + 1}:
        _bury(_folder(home, number))
    _sweep(home)


def replace_checkpoint(home: Path, made: Path) -> None:
    """Let what was made aside be the checkpoint under `home`, in an epoch of its own, instead of the one that
    is there. Safe to interrupt and to repeat: once it is in its place, there is nothing left to do.
    """
    if made.is_dir():
        retire(home)
        os.rename(made, _folder(home, newest_number(home) + 1))


def drop_unfinished(sink_log: Path, remove: Callable[[Path], None]) -> list[str]:
    """Remove what an earlier writer had begun to add to a sink's log, so that it can no longer be put into
    place. To be called while no query is meant to write there.
    """
    dropped = []
    for name in os.listdir(sink_log) if sink_log.is_dir() else ():
        if UNFINISHED.fullmatch(name):
            remove(sink_log / name)
            dropped.append(name)
    return dropped


def _bury(folder: Path) -> None:
    """Put a plain file where an old epoch's folder was, or came back because its query made it again."""
    for _ in range(_ATTEMPTS):
        try:
            with folder.open("x") as tombstone:
                tombstone.write(_TOMBSTONE)
            return
        except FileExistsError:
            if not folder.is_dir():
                return
            # A name that nobody can guess, and so stand in the way of.
            away = folder.with_name(f".{folder.name}.stray-{secrets.token_hex(8)}")
            os.rename(folder, away)
            _remove(away)
    raise OSError(f"{folder} is made again and again by a query that should have ended")


def _remove(stray: Path) -> None:
    """What is left of it does no harm. A link goes, what it points to stays."""
    if _is_folder(stray):
        shutil.rmtree(stray, ignore_errors=True)
    else:
        stray.unlink(missing_ok=True)


def _is_folder(path: Path) -> bool:
    """And no link to one."""
    return path.is_dir() and not path.is_symlink()


def _sweep(home: Path) -> None:
    """Remove what a take has left. A query that has a folder of it open then finds that it is gone."""
    for name in os.listdir(home):
        if _TAKEN.fullmatch(name) or _MAKING.fullmatch(name):
            _remove(home / name)


def _folder(home: Path, number: int) -> Path:
    return home / f"{number:06d}"


def _number_of(folder: Path) -> int:
    taken = _TAKEN.fullmatch(folder.name)
    return int(folder.name if taken is None else taken[1])


def _numbers(home: Path) -> list[int]:
    """Epochs that were ever taken: the newest one's folder, and a file for each before it."""
    names = os.listdir(home) if home.is_dir() else []
    folders = (taken[1] if (taken := _TAKEN.fullmatch(name)) else name for name in names)
    return [int(name) for name in folders if _EPOCH.fullmatch(name)]
