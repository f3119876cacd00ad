"""The layout of a storage root: channels and checkpoints, their writers and readers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from mooring.disk import DISK, Disk, is_folder
from mooring.errors import EngineError, Gathered, InputError
from mooring.model.deployment.fragments import CutNode, Fragment, cut
from mooring.model.problem.operator import MovesAs
from mooring.model.problem.reading.fields import nearest
from mooring.spark.definitions.definitions import sources_digest
from mooring.spark.pipeline.pipeline import FlowNode, Pipeline
from mooring.spark.pipeline.project import Project
from mooring.spark.sites.file_name import file_name
from mooring.spark.storage.fencing import current_epoch
from mooring.spark.storage.file_channel import FileChannel
from mooring.spark.storage.learnt import NOTHING_LEARNT, Learnt, read_learnt
from mooring.spark.storage.owned_folder import OwnedFolder, unowned
from mooring.spark.storage.pipeline_record import NOTHING_RECORDED, PipelineRecord, read_record
from mooring.spark.storage.retention import ALL, READ, Keep, results_reader
from mooring.spark.storage.sink_numbers import SinkPlace
from mooring.spark.storage.storage_root import StorageRoot
from mooring.spark.storage.views.version_channel import VersionChannel
from mooring.spark.storage.views.versions import VIEWS, ListedVersion, ViewVersions


@dataclass(frozen=True)
class Layout:
    """The pipeline cut into fragments, each with its channels and checkpoint."""

    project: Project
    pipeline: Pipeline
    fragments: dict[str, Fragment]
    sources: str = ""
    """Digest of the definition files that the pipeline was read from."""
    before: PipelineRecord = NOTHING_RECORDED
    """What the last run over this storage wrote down; empty where none did."""
    owner: OwnedFolder | None = None
    """That of the run, which owns the storage root; None where the root is nobody else's business."""
    disk: Disk = DISK
    """The owner's."""
    learnt: Learnt = NOTHING_LEARNT
    """What earlier runs have learnt, as it was when the pipeline was read: a run goes on with what it was
    planned with.
    """
    graph_kept_from: str = ""
    """When Spark read the graph, if it was not read for this but is known from before."""

    @cached_property
    def root(self) -> Path:
        return self.project.settings.storage

    @cached_property
    def storage_root(self) -> StorageRoot:
        return replace(self.project.storage_root, disk=self.disk)

    @cached_property
    def owned(self) -> OwnedFolder:
        return self.owner or unowned(self.root, self.disk)

    @cached_property
    def home(self) -> dict[str, str]:
        """Flow -> the fragment it runs in."""
        return {flow: fragment.name for fragment in self.fragments.values() for flow in fragment.operators}

    def moves_as(self, fragment: str) -> MovesAs:
        """Of which kind a move of the fragment is."""
        flows = [self.pipeline.flows[name] for name in self.fragments[fragment].operators]
        return next(
            kind
            for kind in ("view", "join", "stateful", "stateless")
            if kind in {self.pipeline.moves_as(flow) for flow in flows}
        )

    @cached_property
    def channels(self) -> dict[str, FileChannel]:
        """One per flow whose rows leave its fragment into a table, or into a view that is read as a
        stream.
        """
        written = {name: self.pipeline.flows[name].dataset for name in self.fragments}
        kinds = {name: self.pipeline.datasets[dataset].kind for name, dataset in written.items()}
        return {
            name: self.channel_of(name, dataset)
            for name, dataset in written.items()
            if kinds[name] == "table" or (kinds[name] == "materialized" and self.pipeline.readers(dataset))
        }

    @property
    def version_channels(self) -> dict[str, VersionChannel]:
        """Of materialized views that are read as streams."""
        found = self.channels.items()
        return {name: channel for name, channel in found if isinstance(channel, VersionChannel)}

    @cached_property
    def views(self) -> dict[str, ViewVersions]:
        """Of every materialized view."""
        return {
            name: self.versions_of(name)
            for name, dataset in self.pipeline.datasets.items()
            if dataset.kind == "materialized"
        }

    def listed(self, view: str) -> ListedVersion:
        """What stands for the view's current version in catalogs."""
        return ListedVersion(self.views[view], self.owned, self.address)

    def hand_over(self, flow: FlowNode) -> None:
        """Let those who read a materialized view as a stream, or by a catalog, find its current version."""
        if (channel := self.version_channels.get(flow.name)) is not None:
            channel.hand_over()
        if self.project.settings.register:
            self.listed(flow.dataset).follow()

    def sink_of(self, fragment: str) -> SinkPlace | None:
        """The sink that a fragment writes; None where it writes none, or one that counts no batches."""
        target = self.pipeline.datasets[self.pipeline.flows[fragment].dataset]
        if target.kind != "sink":
            return None
        path = target.sink_options.get("path", "")
        sink = self.project.sink_place(target.name, target.sink_format, path)
        return None if sink is None else replace(sink, disk=self.disk)

    def versions_of(self, view: str) -> ViewVersions:
        return ViewVersions(self.root / VIEWS / file_name(view), self.disk)

    def inputs_of(self, fragment: Fragment) -> list[str]:
        """Datasets the fragment reads from channels."""
        needed = dict.fromkeys(
            dataset for flow in fragment.operators for dataset in self.pipeline.flows[flow].inputs
        )
        inside = {self.pipeline.flows[flow].dataset for flow in fragment.operators if flow != fragment.name}
        return [dataset for dataset in needed if dataset not in inside]

    def writers_of(self, dataset: str) -> list[FileChannel]:
        """In an order that outlasts edits: a reader's checkpoint knows its sources by number."""
        order = {flow: at for at, flow in enumerate(self.before.flows)}
        flows = sorted(self.pipeline.writers(dataset), key=lambda flow: order.get(flow.name, len(order)))
        return [self.channels[flow.name] for flow in flows]

    def reads_of(self, fragment: str) -> tuple[str, ...]:
        """Flows whose channels the fragment reads, in the order of its sources."""
        inputs = self.inputs_of(self.fragments[fragment])
        return tuple(channel.name for dataset in inputs for channel in self.writers_of(dataset))

    def comes_after(self, fragment: str) -> tuple[str, ...]:
        """Fragments whose output it reads, from channels or as it stands."""
        flows = [self.pipeline.flows[flow] for flow in self.fragments[fragment].operators]
        static = [
            writer.name for flow in flows for name in flow.static for writer in self.pipeline.writers(name)
        ]
        return tuple(dict.fromkeys((*self.reads_of(fragment), *static)))

    def readers_of(self, dataset: str) -> list[str]:
        """Fragments that read the dataset from its channels."""
        return [name for name, fragment in self.fragments.items() if dataset in self.inputs_of(fragment)]

    @property
    def entries(self) -> dict[str, str]:
        """Stream -> the fragment that brings it in."""
        return {flow.dataset: self.home[flow.name] for flow in self.pipeline.flows.values() if flow.outside}

    def stream_rates(self, rows_in_per_s: Mapping[str, float]) -> dict[str, float]:
        """Tuples per second of each stream, from rows per second of the fragments that bring them in."""
        return {
            stream: rows_in_per_s[fragment]
            for stream, fragment in self.entries.items()
            if fragment in rows_in_per_s
        }

    def refresh_s(self, view: str) -> float:
        """A materialized view is refreshed no more often than that."""
        settings = self.project.settings
        return settings.refreshes.get(view, settings.refresh_s)

    def is_kept(self, dataset: str) -> bool:
        """Whether the table is a result, whose rows stay when all readers have them."""
        return self.keep_of(dataset).for_good

    def keep_of(self, dataset: str) -> Keep:
        """As `mooring.yml` says under `tables`; else every row: a streaming table is a table. A view is kept
        as its versions, whatever goes through a channel.
        """
        if dataset in self.views:
            return READ
        return self.project.settings.tables.get(dataset, ALL)

    def is_asked(self, dataset: str) -> bool:
        """Whether `mooring.yml` says how long its rows are kept."""
        return dataset in self.project.settings.tables or dataset in query_datasets(self.project)

    @cached_property
    def unstored(self) -> list[str]:
        """Tables that are to be kept and are not: their flow runs inside a fragment, as it did before."""
        return [
            flow.dataset
            for name, flow in self.pipeline.flows.items()
            if self.pipeline.datasets[flow.dataset].kind == "table"
            if name not in self.channels and self.is_kept(flow.dataset)
        ]

    def checkpoint(self, fragment: str) -> Path:
        """Where the fragment's newest start keeps its progress and state (see fencing.py)."""
        return current_epoch(self.checkpoints(fragment), self.disk)

    def checkpoints(self, fragment: str) -> Path:
        """The folder with one epoch of the fragment's checkpoint per start."""
        return self.owned.checkpoints / file_name(fragment)

    def fragment_note(self, fragment: str) -> Path:
        """Written when the fragment is started: which version of its flows its checkpoint belongs to."""
        home = self.checkpoints(fragment)
        return home.with_name(f".{home.name}.fragment.json")

    def lost_checkpoints(self) -> dict[str, str]:
        """Fragment -> what is missing, of those that ran before: a vanished checkpoint is no first start."""
        whys = {name: self.lost_checkpoint(name) for name in self.fragments}
        return {name: why for name, why in whys.items() if why is not None}

    def lost_checkpoint(self, fragment: str) -> str | None:
        if self.disk.look(self.fragment_note(fragment)) is None:
            return None
        if is_folder(self.disk, self.checkpoint(fragment)):
            return None
        return f"the checkpoint in {self.checkpoints(fragment)} is missing"

    def address(self, path: Path) -> str:
        """What every site calls a path under the storage root."""
        return self.storage_root.address(path)

    @property
    def empty(self) -> Path:
        return self.root / "empty"

    def create(self) -> None:
        """Make the folders, and register every reader before anything is written. Readers that are no longer
        there stay registered: who may be forgotten is for `project_edits.py` to say.
        """
        try:
            self._create()
        except OSError as failure:
            raise EngineError(
                f"the storage {self.root} cannot be set up: {failure}",
                remedy="check that it exists, is writable and is not full; nothing was started",
            ) from failure

    def _create(self) -> None:
        self.disk.make_folder(self.empty, parents=True, exist_ok=True)
        self.owned.make_parts()
        for name, view in self.views.items():
            self.owned.make_folder(view.folder)
            if self.project.settings.register:
                self.listed(name).follow()
        for channel in self.channels.values():
            channel.create()
            for reader in self.registered(channel):
                channel.register(reader)

    def forget_strangers(self) -> None:
        """Keep nothing for readers that the pipeline does not have."""
        for view in self.views:
            for writer in self.pipeline.writers(view):
                if writer.name not in self.channels:
                    self.channel_of(writer.name, view).delete()
        for channel in self.channels.values():
            for reader in set(channel.readers()) - set(self.registered(channel)):
                channel.forget(reader)

    def registered(self, channel: FileChannel) -> list[str]:
        """Who needs what the channel holds: fragments that read it, and the results if they are kept."""
        dataset = self.pipeline.flows[channel.name].dataset
        return self.readers_of(dataset) + ([results_reader(dataset)] if self.is_kept(dataset) else [])

    def channel_of(self, flow: str, dataset: str) -> FileChannel:
        folder = self.root / "channels" / file_name(dataset) / file_name(flow)
        link = self.root / "links" / file_name(flow)
        if (versions := self.views.get(dataset)) is not None:
            return VersionChannel(
                flow, folder, link, self.checkpoint, self.owned, versions, self.address, self._inputs
            )
        keep, results = self.keep_of(dataset), results_reader(dataset)
        table = self.pipeline.datasets.get(dataset)
        if table is not None and not table.arguments.mergeable:
            keep = replace(keep, merge=False)
        return FileChannel(flow, folder, link, self.checkpoint, self.owned, keep, results, self._inputs)

    def _inputs(self, fragment: str) -> int | None:
        """How many channels a fragment reads; None if the pipeline has none of that name."""
        return len(self.reads_of(fragment)) if fragment in self.fragments else None


def cut_pipeline(project: Project, pipeline: Pipeline, disk: Disk = DISK) -> Layout:
    """Cut once, before any placement, at tables that are kept, fan-out, pins, user cuts and between stateful
    flows.

    What ran in different fragments before stays apart: two checkpoints cannot become one, and a table that
    was stored goes on being stored. So over the life of a storage root a cut only becomes finer. A table that
    ran inside a fragment before stays there, unless `mooring.yml` says by name that it is kept: no checkpoint
    is taken apart unasked.
    """
    settings = project.settings
    check_settings(project, pipeline)
    before = read_record(settings.storage, disk) or NOTHING_RECORDED
    inside = {before.flows[name].dataset for name, home in before.home.items() if name != home}
    unsaid = pipeline.datasets.keys() - settings.tables.keys() - inside
    fragments = fragments_with(project, pipeline, before, asked_for(project, pipeline) | unsaid)
    digest = sources_digest(project.folder, project.spec)
    learnt = read_learnt(settings.storage, disk)
    return Layout(project, pipeline, fragments, digest, before, disk=disk, learnt=learnt)


def asked_for(project: Project, pipeline: Pipeline) -> set[str]:
    """Datasets whose rows have to stay since a query, a view or `tables` names them."""
    stated = {name for name, keep in project.settings.tables.items() if keep.for_good}
    return query_datasets(project) | stated | pipeline.static


def fragments_with(
    project: Project, pipeline: Pipeline, before: PipelineRecord, kept: Set[str]
) -> dict[str, Fragment]:
    """The cut where these datasets are channels."""
    nodes = []
    for flow in pipeline.flows.values():
        # What several flows write, and what a refresh replaces, is never handed on within a query.
        shared = len(pipeline.writers(flow.dataset)) > 1 or pipeline.is_view(flow.name)
        nodes.append(
            CutNode(
                flow.name,
                tuple(writer.name for dataset in flow.inputs for writer in pipeline.writers(dataset)),
                pin_of(project, flow, is_sink=pipeline.datasets[flow.dataset].kind == "sink"),
                flow.stateful,
                channel_after=shared or flow.dataset in kept or flow.dataset in project.settings.cuts,
                part=before.home.get(flow.name, ""),
                settings=frozenset(flow.spark_conf.items()),
            )
        )
    return {fragment.name: fragment for fragment in cut(nodes)}


def query_datasets(project: Project) -> set[str]:
    return {query.reads for query in project.settings.queries.values()}


def pin_of(project: Project, flow: FlowNode, *, is_sink: bool) -> str | None:
    """The site a flow must run at: the user's pin, where its source is reachable, or where its sink is."""
    settings = project.settings
    for name in (flow.name, flow.dataset):
        if name in settings.pins:
            return settings.pins[name]
    if is_sink and (query := settings.queries.get(flow.dataset)) is not None:
        return query.site
    if flow.outside:
        stream = settings.streams.get(flow.dataset)
        return None if stream is None else stream.site
    return None


def check_settings(project: Project, pipeline: Pipeline) -> None:
    """Raises all that is wrong."""
    settings, gather = project.settings, Gathered()
    everything = [*pipeline.datasets, *pipeline.flows]
    tables = [name for name, dataset in pipeline.datasets.items() if dataset.kind == "table"]
    views = [name for name, dataset in pipeline.datasets.items() if dataset.kind == "materialized"]
    view = "a materialized view (refresh_s is of views) of the pipeline"
    written = [flow.dataset for flow in pipeline.flows.values()]
    entering = [flow.dataset for flow in pipeline.flows.values() if flow.outside]
    reads = {f"queries.{name}.reads": query.reads for name, query in settings.queries.items()}
    for given, known, expected in (
        (_fields("cuts", settings.cuts), everything, "a dataset or flow of the pipeline"),
        (_fields("pins", settings.pins), everything, "a dataset or flow of the pipeline"),
        (_fields("statistics", settings.statistics), everything, "a dataset or flow of the pipeline"),
        (_fields("tables", settings.tables), tables, "a streaming table of the pipeline"),
        (_fields("tables", settings.refreshes), views, view),
        (_fields("streams", settings.streams), entering, "a dataset whose flow reads an outside source"),
        (reads, written, "a dataset or sink of the pipeline"),
    ):
        for field, name in given.items():
            if name not in known:
                closest = nearest(name, known)
                gather.note(
                    InputError(
                        f"found {name!r}, expected {expected}",
                        file=project.settings_file,
                        field=field,
                        remedy=f"did you mean {closest!r}?" if closest else None,
                    )
                )
    for name in pipeline.static & settings.tables.keys():
        if not settings.tables[name].for_good:
            readers = ", ".join(flow.name for flow in pipeline.flows.values() if name in flow.static)
            gather.note(
                InputError(
                    f"found keep: read for {name!r}, which {readers} reads as a fixed table",
                    file=project.settings_file,
                    field=f"tables.{name}.keep",
                    remedy="keep all rows (all), or those of a duration (such as 7d)",
                )
            )
    gather.raise_any()


def _fields(section: str, names: Iterable[str]) -> dict[str, str]:
    return {f"{section}.{name}": name for name in names}
