"""A manifest: exactly the committed files of one dataset at one moment, for readers that are not Spark.

It is written on request. One that is kept current would have to be replaced with every batch, and a reader
that opened it a moment before would have an old one all the same. What it names stays on disk for a while
after it was written: files that were merged for an hour, files of a running pipeline that are too old or read
by all (`keep: 7d`, `keep: read`) until the next trim. A later reader finds a file missing, and no wrong rows.
It also remembers how many rows each file has, so that the next one opens new files only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from mooring.atomic_files import write_whole
from mooring.checksum import DamagedError, checked, with_sum
from mooring.spark.storage.file_rows import rows_in

_UNTOLD = ("json", "csv", "text")
"""Formats whose files do not say which columns they have, and of which types."""


class Manifest(msgspec.Struct, frozen=True):
    table: str
    format: str
    batches: dict[str, int]
    """Writing flow -> its last batch that is in; empty for a view."""
    rows: int | None
    """None if that cannot be told from the files."""
    bytes: int
    files: tuple[str, ...]
    """Absolute paths, as this machine sees them."""
    file_rows: tuple[int | None, ...]
    """Of each file."""


def make_manifest(
    file: Path, table: str, form: str, batches: Mapping[str, int], files: Iterable[tuple[Path, int]]
) -> Manifest:
    """Write the manifest of a dataset whose files, with their sizes, are given."""
    known = _known_rows(file)
    listed = [(str(path), size) for path, size in files]
    rows = [known[path] if known.get(path) is not None else rows_in(Path(path)) for path, _ in listed]
    counted = [count for count in rows if count is not None]
    made = Manifest(
        table,
        form,
        dict(batches),
        sum(counted) if len(counted) == len(rows) else None,
        sum(size for _, size in listed),
        tuple(path for path, _ in listed),
        tuple(rows),
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, with_sum(msgspec.json.encode(made)))
    return made


def _known_rows(file: Path) -> dict[str, int | None]:
    """From the manifest that was there before; a file never changes."""
    try:
        before = msgspec.json.decode(checked(file.read_bytes()), type=Manifest)
    except (OSError, msgspec.DecodeError, DamagedError):
        return {}
    return dict(zip(before.files, before.file_rows, strict=False))


def read_lines(file: Path, form: str, base: Path, columns: str, *, partitioned: bool) -> dict[str, str]:
    """Per tool, the Python that reads the files of a manifest, with `json` and `Path` imported. `columns`,
    as SQL has them, count where the files do not tell.
    """
    files = f"json.loads(Path({json.dumps(str(file))}).read_text())['files']"
    spark = f"spark.read.format('{form}')"
    if partitioned:
        spark += f".option('basePath', {json.dumps(str(base))})"
    if columns and form in _UNTOLD:
        spark += f".schema({json.dumps(columns)})"
    lines = {"spark": f"{spark}.load({files})"}
    if form == "parquet":
        lines["pandas"] = f"pandas.read_parquet({files})"
        hive = ", hive_partitioning=True" if partitioned else ""
        lines["duckdb"] = f"duckdb.read_parquet({files}{hive})"
    elif form == "json":
        lines["pandas"] = f"pandas.concat(pandas.read_json(f, lines=True) for f in {files})"
        lines["duckdb"] = f"duckdb.read_json({files})"
    elif form == "orc":
        lines["pandas"] = f"pandas.concat(pandas.read_orc(f) for f in {files})"
    return lines
