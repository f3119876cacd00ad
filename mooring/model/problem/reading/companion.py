"""Files that a problem file names: histories and matrices that lie beside it."""

from __future__ import annotations

from pathlib import Path

from mooring.model.problem.reading.fields import fail, name

MAX_BYTES = 1 << 30
"""A problem of several million operators; anything larger is no file of a problem."""


def companion_file(folder: Path | None, file: object, path: str) -> Path:
    """The file named by the field `path`: beside the problem or below only, as it may be a stranger's."""
    relative = name(file, path)
    if folder is None:
        fail(path, "no file names, because this problem does not come from a file", file)
    try:
        target = (folder / relative).resolve()
        inside = target.is_relative_to(folder.resolve())
        readable = inside and target.is_file() and target.stat().st_size <= MAX_BYTES
    except (OSError, RuntimeError):  # too long a name, a loop of links
        inside, readable = True, False
    if not inside:
        fail(path, "a file in the folder of the problem file or below", file)
    if not readable:
        fail(path, f"an existing file in the problem file's folder, of at most {MAX_BYTES} bytes", file)
    return target
