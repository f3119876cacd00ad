"""What Mooring makes of a project: its sites at a server that is up, and the rows it has stored."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pyarrow
import pyarrow.parquet

from mooring.spark.runs.results import read_stored
from mooring.spark.sites.file_name import file_name
from mooring.spark.storage.views.versions import VIEWS, ViewVersions
from tests.spark.projects.plain_spark import sink_rows
from tests.spark.projects.rows import as_lines


def on_sites(folder: Path, count: int, url: str) -> None:
    """Let the project's sites be at one server, which takes them for several."""
    sites = {name: {"capacity": 1, "connect": url} for name in "abc"[:count]}
    (folder / "mooring.yml").write_text(json.dumps({"sites": sites}))


def stored_rows(folder: Path, names: Iterable[str]) -> dict[str, list[str]]:
    """Of the tables and views that are named, and of every sink."""
    storage = folder / ".mooring" / "storage"
    tables = {name: as_lines(_stored(storage, name)) for name in names if not name.startswith("sink ")}
    return tables | sink_rows(folder)


def _stored(storage: Path, name: str) -> pyarrow.Table:
    view = storage / VIEWS / file_name(name)
    if not view.is_dir():
        return read_stored(storage, name)
    version = ViewVersions(view).current()
    assert version is not None
    files = [view / version.folder / file for file in version.files]
    return pyarrow.concat_tables(pyarrow.parquet.ParquetFile(file).read() for file in files)
