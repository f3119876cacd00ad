"""A table of another pipeline, as its storage has it: exactly what is committed when it is looked at.

Files that a later version or a merge took the place of stay for ten minutes at least, which is how long a
reader of another pipeline may take.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from mooring.errors import InputError
from mooring.spark.sites.file_name import file_name
from mooring.spark.storage.fencing import current_epoch
from mooring.spark.storage.file_channel import FileChannel
from mooring.spark.storage.owned_folder import OwnedFolder, newest_owned
from mooring.spark.storage.pipeline_record import NOTHING_RECORDED, FlowRecord, read_record
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
                f"the table {self.key!r} of another pipeline is not kept there: its rows go as they are read",
                file=self.spec_file,
                remedy=f"say `tables: {{{self.key}: {{keep: all}}}}` in that pipeline's mooring.yml",
            )
        parts = [
            _frame(session, writers[name], folder, files) for name, folder, files in self._parts(writers)
        ]
        if not parts:
            raise InputError(
                f"the table {self.key!r} of another pipeline holds nothing yet",
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
                    f"the log of the table {self.key!r} names {file}, which is no file of {self.storage}",
                    file=self.spec_file,
                    remedy="see who wrote it; nothing was read",
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
        f"{name} is a table of the pipeline {table.spec_file}: every refresh reads what it has committed"
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
