"""Materialized views: the pointer to the version that counts, each file of that version, and what else lies
there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from mooring.doctor.diagnosis import Diagnosis, some
from mooring.doctor.stored_parts import StoredParts
from mooring.errors import EngineError
from mooring.quantity import quantity
from mooring.spark.storage.file_rows import rows_in
from mooring.spark.storage.views.versions import POINTER, VIEWS, ViewVersion, ViewVersions, number_of

PART = "view"
_ANEW = "remove the folder of the view: the next run computes it again"


def look_at_views(parts: StoredParts) -> Iterator[Diagnosis]:
    """All of it can be computed anew, as long as what it is made of is there."""
    home = parts.root / VIEWS
    for name in sorted(os.listdir(home)) if home.is_dir() else ():
        try:
            yield from _look_at(home / name)
        except OSError as trouble:
            yield Diagnosis(PART, name, "lost", str(trouble), "make it readable")
        except EngineError as damage:
            yield Diagnosis(PART, name, "lost", damage.message, damage.remedy)


def _damage(current: ViewVersion, files: Mapping[str, Path]) -> str | None:
    """By the size of its files, and by the rows that each says it has."""
    size = sum(path.stat().st_size for path in files.values())
    if size != current.stored_bytes:
        return f"its files have {size} bytes, the pointer says {current.stored_bytes}"
    rows = {file: rows_in(path) for file, path in files.items()}
    if untold := [file for file, count in rows.items() if count is None and _tells_rows(file)]:
        return f"{some(untold)} cannot be read"
    told = sum(count or 0 for count in rows.values())
    return None if told == current.rows else f"its files have {told} rows, the pointer says {current.rows}"


def _tells_rows(file: str) -> bool:
    return file.endswith((".parquet", ".orc", ".avro"))


def _look_at(folder: Path) -> Iterator[Diagnosis]:
    versions, name = ViewVersions(folder), folder.name
    current = versions.current()
    if current is None:
        yield Diagnosis(PART, name, "pending", "has no version yet", "the next run computes it")
    else:
        files = {file: versions.path(current) / file for file in current.files}
        absent = [file for file, path in files.items() if not path.is_file()]
        if absent:
            what = f"files of its version {current.folder} are missing: {some(absent)}"
            yield Diagnosis(PART, name, "lost", what, _ANEW)
            return
        if damage := _damage(current, files):
            yield Diagnosis(PART, name, "lost", f"its version {current.folder} is damaged: {damage}", _ANEW)
            return
        size = quantity(current.stored_bytes, "B")
        what = f"version {current.number} with {current.rows} rows in {len(current.files)} files ({size})"
        yield Diagnosis(PART, name, "sound", what)
    known = {POINTER} | ({current.folder, *current.earlier} if current is not None else set())
    left = sorted(each for each in os.listdir(folder) if each not in known and number_of(each) > 0)
    if left:
        what = f"{len(left)} folders of abandoned refreshes: {some(left)}"
        yield Diagnosis(PART, name, "pending", what, "the next refresh removes them")
