"""Fencing: a query that was told to stop, or could not be told, never commits another batch.

What cannot be reached cannot be stopped, so the fence is in storage. The checkpoint of a fragment lies in a
folder named after its epoch, and every start takes the next one: the folder is renamed, in one step, and a
plain file takes the old name. Whatever the old query still does, its offsets, commits, state and source logs
go to a path that is gone and that no one can make again, so it fails there. One batch stays in doubt, the
one whose offsets were already written; docs/decisions/0012-fencing.md says why its rows appear once.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from pathlib import Path

from mooring.errors import EngineError

_EPOCH = re.compile(r"\d{6,}")
_UNFINISHED = re.compile(r"\..*\.tmp")
_ATTEMPTS = 20
_TOMBSTONE = "A later start of this fragment took its checkpoint along. Nothing may be written here.\n"


def current_epoch(home: Path) -> Path:
    """The folder of the newest epoch under `home`; that of epoch 0, which is never made, if there is none."""
    numbers = [number for number in _numbers(home) if _folder(home, number).is_dir()]
    return _folder(home, max(numbers, default=0))


def take_epoch(home: Path) -> Path:
    """Carry the checkpoint under `home` into a new epoch; every query started before is fenced off.

    Safe to interrupt and to repeat: the newest folder is the checkpoint, whatever lies beside it.
    """
    try:
        home.mkdir(parents=True, exist_ok=True)
        newest = int(current_epoch(home).name)
        fresh = _folder(home, max(_numbers(home), default=0) + 1)
        if newest > 0:
            os.rename(_folder(home, newest), fresh)
        else:
            fresh.mkdir()
        for number in range(max(1, newest - 1), int(fresh.name)):
            _bury(_folder(home, number))
    except OSError as failure:
        raise EngineError(
            f"the checkpoint in {home} cannot be fenced: {failure}",
            remedy="see that the storage root is there, writable and not full; nothing was started",
        ) from failure
    return fresh


def retire(home: Path) -> None:
    """Forget the checkpoint under `home`, and let nobody go on with it. Epochs are never used twice: a query
    left behind would otherwise find the path of its checkpoint alive again.
    """
    for number in _numbers(home):
        _bury(_folder(home, number))


def drop_unfinished(sink_log: Path) -> list[str]:
    """Remove what an earlier writer had begun to add to a sink's log, so that it can no longer be put into
    place. To be called while no query is meant to write there.
    """
    dropped = []
    for name in os.listdir(sink_log) if sink_log.is_dir() else ():
        if _UNFINISHED.fullmatch(name):
            (sink_log / name).unlink(missing_ok=True)
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
    if stray.is_symlink():
        stray.unlink(missing_ok=True)
    else:
        shutil.rmtree(stray, ignore_errors=True)


def _folder(home: Path, number: int) -> Path:
    return home / f"{number:06d}"


def _numbers(home: Path) -> list[int]:
    """Epochs that were ever taken: the newest one's folder, and a file for each before it."""
    names = os.listdir(home) if home.is_dir() else []
    return [int(name) for name in names if _EPOCH.fullmatch(name)]
