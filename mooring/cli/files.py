"""Files that verbs write and read besides problem files."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from mooring.errors import InputError


def write_text(path: Path, text: str) -> None:
    """All or nothing: the text is renamed into place, so a full disk or Ctrl-C leaves no half file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():  # such as /dev/stdout, which cannot be renamed over
            path.write_text(text, encoding="utf-8")
            return
        _replace(path, text)
    except OSError as error:
        raise InputError(
            f"cannot be written: {error.strerror}", file=path, remedy="choose another --output"
        ) from None


def _replace(path: Path, text: str) -> None:
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(beside, 0o666 & ~_umask())
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made: {error.strerror}", file=path, remedy="choose another --output") from None


def read_plan(path: Path) -> Mapping[str, object]:
    """The `placement` of a plan file, or a bare mapping of operators to sites."""
    from mooring.problem.files import load_data

    data = load_data(path)
    if isinstance(data, Mapping):
        placement = data.get("placement", data)
        if isinstance(placement, Mapping) and all(isinstance(site, str) for site in placement.values()):
            return placement
    raise InputError(
        "found no placement, expected a plan as `mooring plan --json` prints it, or a mapping of operators to sites",
        file=path,
    )
