"""Which of the pipelines beside this one has stored a table that this one reads.

Under plain Spark pipelines meet in a catalog. Embedded sites share none, but what a pipeline has stored can
be found without: a table that neither this pipeline defines nor the site's catalog has is looked for in what
Mooring has stored for the specs of the same folder, and of the folders next to it. Their catalog and database
complete its name, as they would in a catalog.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pyspark.pipelines.cli import PIPELINE_SPEC_FILE_NAMES, PipelineSpec

from mooring.disk import DISK, read_if_there
from mooring.errors import InputError
from mooring.spark.definitions.foreign_tables import LentTable
from mooring.spark.definitions.names import PipelineNames
from mooring.spark.definitions.pipeline_spec import MARK_NOTE, STORAGE_NOTE, WORK_FOLDER_NAME, load_spec
from mooring.spark.storage.pipeline_record import read_record
from mooring.spark.storage.storage_root import identity_of


@dataclass(frozen=True)
class Neighbours:
    """Of the pipeline with this spec."""

    folder: Path
    spec: PipelineSpec

    def find(self, written: str) -> LentTable | None:
        """The one that has such a table, whose name is completed as this pipeline's are."""
        whole = PipelineNames.of(self.spec).whole(written)
        found = [table for note in self._notes() if (table := self._stored(note, whole)) is not None]
        if len(found) > 1:
            specs = ", ".join(str(table.spec_file) for table in found)
            raise InputError(
                f"the table {written!r} is stored by several pipelines beside this one: {specs}",
                file=self.folder,
                remedy="give them different databases in their specs",
            )
        return found[0] if found else None

    def _notes(self) -> list[Path]:
        """Where runs of the pipelines beside this one noted their storage."""
        inside = f"{WORK_FOLDER_NAME}*/{STORAGE_NOTE}"
        found = {*self.folder.glob(inside), *self.folder.parent.glob(f"*/{inside}")}
        return sorted(found)

    def _stored(self, note: Path, whole: str) -> LentTable | None:
        spec_file = _spec_of(note.parent)
        if spec_file is None:
            return None
        try:
            spec = load_spec(spec_file)
        except InputError:  # somebody else's business
            return None
        storage = Path(root := note.read_text())
        if not root or spec == self.spec or not self._is_trusted(note, storage):
            return None
        known = read_if_there(DISK, note.with_name(MARK_NOTE))
        if known is not None and known.decode().strip() != identity_of(storage):
            return None  # what lies there now is not what that pipeline stored
        if (record := read_record(storage)) is None:
            return None
        stored = {flow.dataset for flow in record.flows.values() if flow.kind in ("table", "materialized")}
        key = PipelineNames.of(spec).found(whole, stored)
        return None if key is None else LentTable(key, spec_file, storage)

    def _is_trusted(self, *places: Path) -> bool:
        """Whether they belong to this user, to root, or to whoever has this project: a note in a folder of
        somebody else could name rows that nobody here has written.
        """
        trusted = {0, os.geteuid(), self.folder.stat().st_uid}
        try:
            return all(place.stat().st_uid in trusted for place in places)
        except FileNotFoundError:
            return False


def _spec_of(work_folder: Path) -> Path | None:
    """The spec that a folder of Mooring's own files belongs to."""
    stem = work_folder.name.removeprefix(WORK_FOLDER_NAME).removeprefix("-")
    names = (f"{stem}.yml", f"{stem}.yaml") if stem else PIPELINE_SPEC_FILE_NAMES
    return next((file for name in names if (file := work_folder.parent / name).is_file()), None)
