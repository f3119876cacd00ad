"""The note beside a fragment's checkpoint: which flows it belongs to, and which version of each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from mooring.checksum import checked, with_sum
from mooring.disk import DISK, Disk
from mooring.errors import EngineError


def read_fragment_note(file: Path, disk: Disk = DISK) -> dict[str, str]:
    """Flow -> its fingerprint when the fragment was last started."""
    try:
        return dict(json.loads(checked(disk.read(file).data))["flows"])
    except (OSError, ValueError, KeyError, TypeError) as damage:
        raise EngineError(
            f"{file} cannot be read: {damage!r}",
            remedy="restore it from a copy, or use --accept-edits if no flow was edited since the last run",
        ) from damage


def write_fragment_note(
    file: Path, fragment: str, fingerprints: Mapping[str, str], disk: Disk = DISK
) -> None:
    """On disk when this returns."""
    try:
        note = {"fragment": fragment, "flows": dict(fingerprints)}
        disk.replace(file, with_sum(json.dumps(note).encode()))
    except OSError as failure:
        raise EngineError(
            f"{file} cannot be written: {failure}",
            remedy="check that the storage root exists, is writable and is not full; nothing was started",
        ) from failure
