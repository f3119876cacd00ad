"""Every dataset of a pipeline as it is stored: where, how much, and how to read exactly what is committed.

Read from the storage itself, without Spark, whether the pipeline runs or not: the record of the pipeline
names the datasets, the logs of channels and the pointers of views what is committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mooring.spark.sites.file_name import file_name
from mooring.spark.storage import stream_logs
from mooring.spark.storage.fencing import current_epoch
from mooring.spark.storage.file_channel import FileChannel
from mooring.spark.storage.owned_folder import OwnedFolder
from mooring.spark.storage.pipeline_record import FlowRecord, PipelineRecord
from mooring.spark.storage.retention import ALL, Keep
from mooring.spark.storage.views.versions import VIEWS, ViewVersions
from mooring.spark.tables.manifest import make_manifest, read_lines

KINDS = {"table": "streaming table", "materialized": "materialized view", "sink": "sink"}
_SINK_LOG = "_spark_metadata"


@dataclass(frozen=True)
class StoredTable:
    name: str
    kind: str
    site: str | None
    """Where it is written, as far as that is known."""
    rows: int | None
    """Committed now; None if that cannot be told."""
    bytes: int | None
    path: str | None
    """The folder; None if it is not stored."""
    format: str
    read: dict[str, str] = field(default_factory=dict)
    """Tool -> the Python that reads exactly the committed files; empty while there is none."""
    note: str = ""
    """What to know of it."""

    def as_json(self) -> dict[str, object]:
        return {
            name: getattr(self, name)
            for name in ("name", "kind", "site", "rows", "bytes", "path", "format", "read")
        }


@dataclass(frozen=True)
class TableShelf:
    """What is stored under one storage root."""

    root: Path
    owned: OwnedFolder
    record: PipelineRecord
    project: Path
    """Where relative paths of sinks start if the record does not say."""
    manifests: Path
    """The folder that manifests are written into."""
    keeps: Mapping[str, Keep] = field(default_factory=dict)
    """What `mooring.yml` says."""
    sites: Mapping[str, str] = field(default_factory=dict)
    """Fragment -> where it runs, or ran last."""

    def tables(self) -> list[StoredTable]:
        writers: dict[str, dict[str, FlowRecord]] = {}
        for name, flow in self.record.flows.items():
            writers.setdefault(flow.dataset, {})[name] = flow
        return [self._table(dataset, flows) for dataset, flows in writers.items()]

    def _table(self, dataset: str, flows: Mapping[str, FlowRecord]) -> StoredTable:
        kind = next(iter(flows.values())).kind
        homes = dict.fromkeys(self.sites.get(self.record.home.get(flow, ""), "") for flow in flows)
        site = ", ".join(name for name in homes if name) or None
        if kind == "sink":
            return self._sink(dataset, flows, site)
        if kind == "materialized":
            return self._view(dataset, site, next(iter(flows.values())).stored)
        return self._streaming_table(dataset, flows, site)

    def _streaming_table(
        self, dataset: str, flows: Mapping[str, FlowRecord], site: str | None
    ) -> StoredTable:
        stored = next(iter(flows.values())).stored
        inside = [flow for flow in flows if self.record.home.get(flow) != flow]
        form, folder = stored.split()[0], self.root / "channels" / file_name(dataset)
        if inside:
            why = f"not stored: it runs inside {self.record.home.get(inside[0])}"
            return StoredTable(dataset, KINDS["table"], site, None, None, None, form, note=why)
        batches, files = dict[str, int](), list[tuple[Path, int]]()
        for flow in flows:
            channel = self._channel(flow, dataset)
            committed = channel.committed()
            batches[flow] = committed.batch
            files += [(_behind(channel, entry.path), entry.size) for entry in committed.entries]
        note = "" if self._keep(dataset).for_good else "rows are deleted once read (keep: read)"
        table = StoredTable(dataset, KINDS["table"], site, None, None, str(folder), form, note=note)
        return self._listed(table, batches, files, partitioned=" partitioned by " in stored)

    def _view(self, dataset: str, site: str | None, stored: str) -> StoredTable:
        versions = ViewVersions(self.root / VIEWS / file_name(dataset))
        form, version = stored.split()[0], versions.current()
        table = StoredTable(dataset, KINDS["materialized"], site, None, None, None, form)
        if version is None:
            return replace(table, rows=0, bytes=0, note="never refreshed")
        folder = versions.path(version)
        files = [(folder / name, _size(folder / name)) for name in version.files]
        partitioned = " partitioned by " in stored
        found = self._listed(replace(table, path=str(folder)), {}, files, partitioned=partitioned)
        return replace(found, rows=version.rows)

    def _sink(self, dataset: str, flows: Mapping[str, FlowRecord], site: str | None) -> StoredTable:
        flow = next(iter(flows.values()))
        table = StoredTable(dataset, KINDS["sink"], site, None, None, flow.path or None, flow.stored)
        folder = self.project / self.record.run_from / flow.path
        if not flow.path or "://" in flow.path or not (folder / _SINK_LOG).is_dir():
            return table
        batch, entries = stream_logs.noted_entries(folder / _SINK_LOG)
        batches = dict.fromkeys(flows, batch)
        files = [(entry.path, entry.size) for entry in entries]
        return self._listed(replace(table, path=str(folder)), batches, files, partitioned=False)

    def _listed(
        self,
        table: StoredTable,
        batches: Mapping[str, int],
        files: Sequence[tuple[Path, int]],
        *,
        partitioned: bool,
    ) -> StoredTable:
        """With a manifest of its files."""
        file = self.manifests / f"{file_name(table.name)}.json"
        made = make_manifest(file, table.name, table.format, batches, files)
        lines = {}
        if files:
            flows = self.record.flows.values()
            columns = next((flow.columns for flow in flows if flow.dataset == table.name), "")
            base = Path(table.path or "/")
            lines = read_lines(file, table.format, base, columns, partitioned=partitioned)
        return replace(table, rows=made.rows, bytes=made.bytes, read=lines)

    def _keep(self, dataset: str) -> Keep:
        return self.keeps.get(dataset, ALL)

    def _channel(self, flow: str, dataset: str) -> FileChannel:
        return FileChannel(
            flow,
            self.root / "channels" / file_name(dataset) / file_name(flow),
            self.root / "links" / file_name(flow),
            lambda reader: current_epoch(self.owned.checkpoints / file_name(reader)),
            self.owned,
            self._keep(dataset),
        )


def _behind(channel: FileChannel, path: Path) -> Path:
    """A file where it lies, which logs know by way of a link."""
    return channel.folder / path.relative_to(channel.link) if path.is_relative_to(channel.link) else path


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # superseded and swept a moment ago
        return 0
