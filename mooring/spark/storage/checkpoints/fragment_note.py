"""The note beside a fragment's checkpoint: which flows it belongs to, and which version of each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from mooring.errors import EngineError
from mooring.whole_files import write_whole


def read_fragment_note(file: Path) -> dict[str, str]:
    """Flow -> its fingerprint when the fragment was last started."""
    try:
        return dict(json.loads(file.read_text())["flows"])
    except (OSError, ValueError, KeyError, TypeError) as damage:
        raise EngineError(
            f"{file} cannot be read: {damage!r}",
            remedy="put it back from a copy, or use --accept-edits if no flow was edited since the last run",
        ) from damage


def write_fragment_note(file: Path, fragment: str, fingerprints: Mapping[str, str]) -> None:
    """On disk when this returns."""
    try:
        note = {"fragment": fragment, "flows": dict(fingerprints)}
        write_whole(file, json.dumps(note), on_disk=True)
    except OSError as failure:
        raise EngineError(
            f"{file} cannot be written: {failure}",
            remedy="see that the storage root is there, writable and not full; nothing was started",
        ) from failure
