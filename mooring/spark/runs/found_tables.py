"""The tables of a project, whether it runs or not, and wherever."""

from __future__ import annotations

from pathlib import Path

from mooring.spark.pipeline.project import load_project
from mooring.spark.runs.found_run import last_root
from mooring.spark.runs.run_files import RunFiles
from mooring.spark.storage.owned_folder import newest_owned
from mooring.spark.storage.pipeline_record import read_record
from mooring.spark.tables.stored_tables import StoredTable, TableShelf

MANIFESTS = "tables"
"""The folder of manifests in `.mooring/`."""


def find_tables(folder: Path) -> list[StoredTable]:
    """Changes nothing but the manifests; empty if the project has stored nothing yet."""
    project = load_project(folder)
    files = RunFiles(project.work_folder)
    root = last_root(files, folder)
    owned, record = newest_owned(root), read_record(root)
    if owned is None or record is None:
        return []
    # The copy that the run keeps in the storage is there for runs of other checkouts too.
    status = RunFiles(owned.folder).read_status() or files.read_status() or {}
    updated = (status.get("update") or {}).get("fragments", {})
    sites = {name: str(at["site"]) for name, at in (updated | status.get("fragments", {})).items()}
    manifests = project.work_folder / MANIFESTS
    shelf = TableShelf(root, owned, record, project.folder, manifests, project.settings.tables, sites)
    return shelf.tables()
