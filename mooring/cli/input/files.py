"""Files that verbs write and read besides problem files."""

from __future__ import annotations

from pathlib import Path

from mooring.atomic_files import write_whole
from mooring.errors import InputError


def write_text(path: Path, text: str) -> None:
    """All or nothing: the text is renamed into place, so a full disk or Ctrl-C leaves no half file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():  # such as /dev/stdout, which cannot be renamed over
            path.write_text(text, encoding="utf-8")
            return
        write_whole(path, text)
    except OSError as error:
        raise InputError(
            f"cannot be written: {error.strerror}", file=path, remedy="choose another --output"
        ) from None


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot be made: {error.strerror}", file=path, remedy="choose another --output"
        ) from None
