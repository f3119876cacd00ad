"""Storage from before roots had owners: what belongs into an owner's folder is carried there, once.

Checkpoints lay in the root, notes of channels beside their folders, journal and open sessions in the folder
of the project. Every step is a rename, or a copy that counts once it is complete, so it can be interrupted
and repeated.
"""

from __future__ import annotations

import os
from pathlib import Path

from mooring.errors import EngineError
from mooring.spark.storage.owned_folder import OwnedFolder
from mooring.whole_files import write_whole

_TOMBSTONE = "Checkpoints lie in `owned/` now. Nothing may be written here.\n"
_OF_THE_PROJECT = ("journal.jsonl", "sessions.json")


def adopt(root: Path, owned: OwnedFolder, work_folder: Path) -> list[str]:
    """Bring what an earlier Mooring left into the owner's folder; returns what was found, in words."""
    try:
        return [*_checkpoints(root, owned), *_notes(root, owned), *_files(work_folder, owned)]
    except OSError as failure:
        raise EngineError(
            f"what an earlier Mooring left in {root} cannot be carried into {owned.folder}: {failure}",
            remedy="see that the storage root is writable and not full, and run again; nothing was started",
        ) from failure


def _checkpoints(root: Path, owned: OwnedFolder) -> list[str]:
    before = root / "checkpoints"
    if not before.is_dir():
        return []
    for name in sorted(os.listdir(before)):
        os.rename(before / name, owned.checkpoints / name)
    before.rmdir()
    before.write_text(_TOMBSTONE)  # a query left behind must not make its checkpoint's folder again
    return ["checkpoints"]


def _notes(root: Path, owned: OwnedFolder) -> list[str]:
    found = sorted((root / "channels").glob("*/.*.channel.json"))
    for note in found:
        os.rename(note, owned.channel_note(note.name.removeprefix(".").removesuffix(".channel.json")))
    return ["notes of channels"] if found else []


def _files(work_folder: Path, owned: OwnedFolder) -> list[str]:
    """From the project's folder, which may lie on another file system."""
    carried = []
    for name in _OF_THE_PROJECT:
        before, now = work_folder / name, owned.folder / name
        if before.is_file():
            if not now.exists():
                write_whole(now, before.read_bytes(), on_disk=True)
                carried.append(name)
            before.rename(before.with_name(f"{name}.before"))
    return carried
