"""The storage root itself: whether it is there and can be used, its mark, its room, and what was left."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from mooring.checksum import checked
from mooring.doctor.diagnosis import Diagnosis, some
from mooring.errors import EngineError
from mooring.quantity import quantity
from mooring.spark.engine.health import LEAST_FREE_BYTES

PART = "storage"
MARK = "mooring-storage.json"


def look_at_root(root: Path, last: Path | None, missing: EngineError | None = None) -> Iterator[Diagnosis]:
    """`last`: the storage that the last run from this folder used. `missing`: why this is not the one that
    the project stores in; then nothing else is looked at.
    """
    if missing is not None:
        yield Diagnosis(PART, "root", "lost", missing.message, missing.remedy)
        return
    if last is not None and last != root:
        what = f"the last run of this folder stored in {last}, which is not examined"
        yield Diagnosis(PART, "root", "pending", what, "check `storage` in mooring.yml")
    if not root.exists():
        yield Diagnosis(PART, "root", "sound", f"{root} does not exist: nothing was ever stored")
        return
    if not root.is_dir() or not os.access(root, os.R_OK | os.X_OK):
        yield Diagnosis(PART, "root", "lost", f"{root} cannot be read", "mount it, or repair its permissions")
        return
    yield from _mark(root)
    free = shutil.disk_usage(root).free
    if not os.access(root, os.W_OK):
        yield Diagnosis(PART, "root", "pending", f"you may not write to {root}", "run as its owner")
    else:
        room = f"{quantity(free, 'B')} free for {root}"
        full = free < LEAST_FREE_BYTES
        yield Diagnosis(PART, "root", "pending" if full else "sound", room, "free space" if full else None)
    yield from _leftovers(root)


def _mark(root: Path) -> Iterator[Diagnosis]:
    """By it, sites know the root, and logs written over several mounts name their files."""
    file = root / MARK
    try:
        mark = json.loads(checked(file.read_bytes()))
        fit = isinstance(mark["name"], str) and isinstance(mark["viewfs"], bool)
    except FileNotFoundError:
        if (root / "channels").exists():
            remedy = "restore it from a copy; a run would create one with another name"
            yield Diagnosis(PART, MARK, "lost", f"{file} is missing, but there are channels", remedy)
        return
    except (OSError, ValueError, KeyError, TypeError):
        fit = False
    if fit:
        yield Diagnosis(PART, MARK, "sound", f"names the root {mark['name']}")
    else:
        yield Diagnosis(PART, MARK, "lost", f"{file} is damaged", "restore it from a copy")


def _leftovers(root: Path) -> Iterator[Diagnosis]:
    """Hidden files of writes that a crash cut short, and queries that warmed a site up."""
    hidden = [
        os.path.join(folder, name)
        for folder, _, names in os.walk(root)
        for name in names
        if name.startswith(".") and name.endswith(".new")
    ]
    warming = [str(path) for path in sorted((root / "warming").glob("*"))]
    if left := [os.path.relpath(path, root) for path in sorted([*hidden, *warming])]:
        what = f"{len(left)} files left by interrupted writes or warm-ups: {some(left)}"
        yield Diagnosis(
            PART,
            "leftovers",
            "pending",
            what,
            "they are harmless; remove them while the project does not run",
        )
