"""A table of another pipeline, as its storage has it: exactly what is committed when it is looked at.

Files that a later version or a merge took the place of stay for ten minutes at least, which is how long a
reader of another pipeline may take.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.pipelines.cli import PIPELINE_SPEC_FILE_NAMES, PipelineSpec
from pyspark.sql import DataFrame, SparkSession

from mooring.disk import DISK, read_if_there
from mooring.errors import InputError
from mooring.spark.definitions.names import PipelineNames
from mooring.spark.definitions.pipeline_spec import MARK_NOTE, STORAGE_NOTE, WORK_FOLDER_NAME, load_spec
from mooring.spark.sites.file_name import file_name
from mooring.spark.storage.fencing import current_epoch
from mooring.spark.storage.file_channel import FileChannel
from mooring.spark.storage.owned_folder import OwnedFolder, newest_owned
from mooring.spark.storage.pipeline_record import NOTHING_RECORDED, FlowRecord, read_record
from mooring.spark.storage.storage_root import identity_of
from mooring.spark.storage.views.versions import VIEWS, ViewVersions


@dataclass(frozen=True)
class LentTable:
    key: str
    """Its name there."""
    spec_file: Path
    storage: Path

    def frame(self, session: SparkSession) -> DataFrame:
        """What it holds now."""
        record = read_record(self.storage) or NOTHING_RECORDED
        writers = {name: flow for name, flow in record.flows.items() if flow.dataset == self.key}
        if any(flow.kind == "table" for flow in writers.values()) and self.key not in record.results:
            raise InputError(
                f"the table {self.key!r} of another pipeline is not kept there: its rows are deleted once "
                "read",
                file=self.spec_file,
                remedy=f"set `tables: {{{self.key}: {{keep: all}}}}` in that pipeline's mooring.yml",
            )
        parts = [
            _frame(session, writers[name], folder, files) for name, folder, files in self._parts(writers)
        ]
        if not parts:
            raise InputError(
                f"the table {self.key!r} of another pipeline is empty",
                file=self.spec_file,
                remedy="run that pipeline first",
            )
        return functools.reduce(DataFrame.unionByName, parts)

    def _parts(self, writers: dict[str, FlowRecord]) -> list[tuple[str, Path, list[Path]]]:
        """Flow, the folder that its files lie under, and those that are committed."""
        owned = newest_owned(self.storage)
        found = list[tuple[str, Path, list[Path]]]()
        for name, flow in writers.items():
            if flow.kind == "materialized":
                versions = ViewVersions(self.storage / VIEWS / file_name(self.key))
                if (version := versions.current()) is not None:
                    folder = versions.path(version)
                    found.append((name, folder, [folder / file for file in version.files]))
            elif owned is not None:
                channel = self._channel(name, owned)
                if channel.folder.is_dir():
                    files = [entry.path for entry in channel.committed().entries]
                    self._refuse_outside(files)
                    found.append((name, channel.link, files))
        return found

    def _refuse_outside(self, files: list[Path]) -> None:
        for file in files:
            if not file.is_relative_to(self.storage) or ".." in file.parts:
                raise InputError(
                    f"the log of the table {self.key!r} names {file}, which lies outside {self.storage}",
                    file=self.spec_file,
                    remedy="find out which program wrote the log; nothing was read",
                )

    def _channel(self, flow: str, owned: OwnedFolder) -> FileChannel:
        return FileChannel(
            flow,
            self.storage / "channels" / file_name(self.key) / file_name(flow),
            self.storage / "links" / file_name(flow),
            lambda reader: current_epoch(owned.checkpoints / file_name(reader)),
            owned,
        )


def lent_notes(lent: Mapping[str, LentTable]) -> list[str]:
    """Whose tables are read, in words."""
    return [
        f"{name} is a table of the pipeline {table.spec_file}: every refresh reads its committed rows"
        for name, table in lent.items()
    ]


def _frame(session: SparkSession, flow: FlowRecord, folder: Path, files: list[Path]) -> DataFrame:
    form, _, partitioned = flow.stored.partition(" ")
    if not files:
        return session.createDataFrame([], flow.columns)
    reader = session.read.format(form).schema(flow.columns)
    if partitioned:
        reader = reader.option("basePath", f"file://{folder}")
    return reader.load([f"file://{file}" for file in files])


@dataclass(frozen=True)
class Neighbours:
    """Which of the pipelines beside the one with this spec has stored a table that it reads.

    Under plain Spark pipelines meet in a catalog. Embedded sites share none, so a table that neither this
    pipeline defines nor the site's catalog has is looked for in what Mooring has stored for the specs of the
    same folder, and of the folders next to it. Their catalog and database complete its name, as they would in
    a catalog.
    """

    folder: Path
    spec: PipelineSpec

    def find(self, written: str) -> LentTable | None:
        """The one that has such a table, whose name is completed as this pipeline's are."""
        whole = PipelineNames.of(self.spec).whole(written)
        found = [table for note in self._notes() if (table := self._stored(note, whole)) is not None]
        if len(found) > 1:
            specs = ", ".join(str(table.spec_file) for table in found)
            raise InputError(
                f"several neighbouring pipelines store the table {written!r}: {specs}",
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
