"""A project held against what its storage root holds: what was edited between two runs, and what to do.

Nothing is taken as new. A flow that has gone, a result that is no longer kept, a flow that joins too late:
each would lose rows or state in silence, so each is refused by name with the ways out. A fragment whose cut
became finer is carried over where that is certain to lose and double nothing (cut_changes.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mooring.errors import EngineError, InputError
from mooring.model.problem.reading.fields import nearest
from mooring.quantity import quantity
from mooring.spark.definitions.definitions import KIND_WORDS
from mooring.spark.definitions.foreign_tables import lent_notes
from mooring.spark.pipeline.cut_changes import CutChange, cut_changes, has_begun
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.path_notes import changed_path_notes, relative_paths
from mooring.spark.pipeline.table_schema import as_ddl, stored_columns
from mooring.spark.storage import stream_logs
from mooring.spark.storage.pipeline_record import RECORD_FILE_NAME, FlowRecord, PipelineRecord, Unfinished
from mooring.spark.storage.views.versions import ViewVersion


@dataclass(frozen=True)
class AcceptedEdits:
    """What the user says about edits, by name."""

    drop: tuple[str, ...] = ()
    """Flows that have gone: what is stored of them may go."""
    join_late: tuple[str, ...] = ()
    """New flows that may begin in the middle of what they read."""


@dataclass(frozen=True)
class ProjectEdits:
    """What a run has to do to the storage before it starts anything."""

    layout: Layout
    """As it will run."""
    changes: tuple[CutChange, ...] = ()
    """Fragments that become several."""
    dropped: Mapping[str, str] = field(default_factory=dict)
    """Name -> what of it goes."""

    @property
    def notes(self) -> list[str]:
        """What to know before it starts."""
        said = [f"dropping {name}: {what}" for name, what in self.dropped.items()]
        for change in self.changes:
            parts = ", ".join(part.fragment for part in change.parts)
            said.append(f"{change.fragment} goes on as {parts}, with its progress and state")
        kept = [*_newly_kept(self.layout), *_unstored(self.layout)]
        outside = [*changed_path_notes(self.layout), *lent_notes(self.layout.pipeline.lent)]
        return [*said, *kept, *outside]

    @property
    def record(self) -> PipelineRecord:
        """The storage as it will be."""
        return record_of(self.layout)

    @property
    def unfinished(self) -> Unfinished:
        """What is to be done to the storage, but for checkpoints that are still to be made."""
        before, flows = self.layout.before, self.layout.pipeline.flows
        gone = [name for name in before.fragments if name not in flows]
        tables = {name: before.flows[name].dataset for name in gone if before.flows[name].kind != "sink"}
        views = [before.flows[name].dataset for name in gone if before.flows[name].kind == "materialized"]
        return Unfinished(retire=tuple(gone), delete=tables, views=tuple(views))


def record_of(layout: Layout) -> PipelineRecord:
    before, pipeline = layout.before, layout.pipeline
    names = [*(name for name in before.flows if name in pipeline.flows), *pipeline.flows]
    kept = [name for name, dataset in pipeline.datasets.items() if dataset.kind == "table"]
    channels = {layout.pipeline.flows[flow].dataset for flow in layout.channels}
    return PipelineRecord(
        fragments={name: fragment.operators for name, fragment in layout.fragments.items()},
        flows={name: _flow_record(layout, name) for name in dict.fromkeys(names)},
        reads={name: layout.reads_of(name) for name in layout.fragments},
        results={
            name: "asked" if layout.is_asked(name) else "default"
            for name in kept
            if name in channels and layout.is_kept(name)
        },
        dropped=before.dropped,
        run_from=str(layout.project.run_from) if relative_paths(pipeline) else "",
    )


def _flow_record(layout: Layout, name: str) -> FlowRecord:
    flow = layout.pipeline.flows[name]
    target = layout.pipeline.datasets[flow.dataset]
    stored = target.sink_format if target.kind == "sink" else target.arguments.stored
    path = target.sink_options.get("path", "")
    schema = layout.pipeline.schemas.get(flow.dataset)
    columns = "" if schema is None else as_ddl(stored_columns(schema, target.arguments.partition_cols))
    return FlowRecord(flow.dataset, target.kind, flow.fingerprint, flow.stateful, stored, path, columns)


def project_edits(layout: Layout, accepted: AcceptedEdits | None = None) -> ProjectEdits:
    """What was edited since the last run; refuses, all at once, what would lose something in silence."""
    accepted = accepted or AcceptedEdits()
    if not layout.before.fragments:
        _refuse_unrecorded(layout)
    _refuse_lost(layout)
    _refuse_names(layout, accepted)
    changes, unclear = cut_changes(layout)
    problems = [
        *_gone(layout, accepted),
        *_redirected(layout),
        *unclear,
        *_late(layout, accepted),
    ]
    if problems:
        raise InputError(
            "an edit of the project would lose stored rows or state: " + "; ".join(problems),
            file=layout.project.folder,
            remedy="undo the edit, or start the whole pipeline over with --fresh; nothing was changed",
        )
    dropped = {name: _stored(layout, name) for name in accepted.drop if name in _droppable(layout)}
    return ProjectEdits(layout, changes, dropped)


def _newly_kept(layout: Layout) -> Iterator[str]:
    """Tables whose rows went as they were read, and stay from now on."""
    for dataset in dict.fromkeys(layout.pipeline.flows[name].dataset for name in layout.channels):
        written = [name for name, flow in layout.before.flows.items() if flow.dataset == dataset]
        if not written or dataset in layout.before.results or not layout.is_kept(dataset):
            continue
        gone = [name for name in written if name in layout.channels and _beginning_gone(layout, name)]
        if gone:
            yield (
                f"{dataset} is kept from now on; its earlier rows were deleted once read "
                f"(`tables: {{{dataset}: {{keep: read}}}}` deletes rows as before)"
            )


def _unstored(layout: Layout) -> Iterator[str]:
    for dataset in layout.unstored:
        home = layout.home[layout.pipeline.writers(dataset)[0].name]
        yield (
            f"{dataset} is not stored: it runs inside {home}, as in earlier versions. To store it from now "
            f"on, set `tables: {{{dataset}: {{keep: all}}}}`; to leave it so, set {{keep: read}}"
        )


def _refuse_lost(layout: Layout) -> None:
    """An edit of what is lost could never be undone."""
    lost = []
    for name, flows in layout.before.fragments.items():
        if set(flows) & set(layout.pipeline.flows):
            why = layout.lost_checkpoint(name)
            lost += [f"{name}: {why}"] if why is not None else _unregistered(layout, name)
    if lost:
        raise EngineError(
            f"something of the storage is lost: {'; '.join(lost)}",
            remedy="restore it from a copy, or start the pipeline over with --fresh",
        )


def _unregistered(layout: Layout, fragment: str) -> list[str]:
    """Channels that were trimmed without regard to the fragment, since their note does not name it."""
    found = []
    for flow in layout.before.reads[fragment] if has_begun(layout, fragment) else ():
        channel = layout.channel_of(flow, layout.before.flows[flow].dataset)
        if channel.exists and fragment not in channel.readers() and channel.state().start > 0:
            found.append(f"{flow}: its note lacks its reader {fragment}, and files were trimmed")
    return found


def _gone(layout: Layout, accepted: AcceptedEdits) -> Iterator[str]:
    now, before = layout.pipeline.flows, layout.before.flows
    added = {flow.fingerprint: name for name, flow in now.items() if name not in before}
    for name, flow in before.items():
        if name in now or _names(layout, name) & set(accepted.drop):
            continue
        if not has_begun(layout, layout.before.home[name]) and _version(layout, name) is None:
            continue  # there is nothing to lose
        renamed = added.get(flow.fingerprint)
        like = f" ({renamed!r} is new and equal: keep the name of a flow)" if renamed else ""
        yield (
            f"the flow {name!r} was removed{like} with {_stored(layout, name)} still stored: "
            f"restore the flow, or delete its data with --drop {name!r}"
        )


def _redirected(layout: Layout) -> Iterator[str]:
    for name, flow in layout.before.flows.items():
        if (now := layout.pipeline.flows.get(name)) is None:
            continue
        kind = layout.pipeline.datasets[now.dataset].kind
        if (now.dataset, kind) != (flow.dataset, flow.kind):
            was, is_now = (KIND_WORDS.get(each, each) for each in (flow.kind, kind))
            yield (
                f"the flow {name!r} wrote into the {was} {flow.dataset!r} and writes into the {is_now} "
                f"{now.dataset!r} now: give it another name, and drop the old one with --drop {name}"
            )
        elif kind == "table" and (stored := _flow_record(layout, name).stored) != flow.stored:
            yield (
                f"the table {now.dataset!r} is stored as {flow.stored} and would be as {stored} now, and one "
                "table cannot be both: change it back, or give the table and its flows other names"
            )


def _late(layout: Layout, accepted: AcceptedEdits) -> Iterator[str]:
    """A new flow reads a table from its beginning, unless that is gone, and a view from its current version
    on.
    """
    known = layout.before.flows
    for name, fragment in layout.fragments.items():
        if set(fragment.operators) & set(known) or set(fragment.operators) & set(accepted.join_late):
            continue
        for writer in layout.reads_of(name):
            stored = writer in known and not layout.pipeline.is_view(writer)
            if stored and _beginning_gone(layout, writer):
                yield (
                    f"the new flow {name!r} reads {known[writer].dataset!r}, whose earlier rows were not "
                    f"kept: start it with the rows that are still stored (--join-late {name})"
                )


def _beginning_gone(layout: Layout, writer: str) -> bool:
    """Whether a flow has written rows that are not stored: into its own fragment, or trimmed since."""
    home = layout.before.home[writer]
    return has_begun(layout, home) and (home != writer or layout.channels[writer].state().start > 0)


def _refuse_names(layout: Layout, accepted: AcceptedEdits) -> None:
    """What was given up before may be named again, so that a command can be repeated."""
    done = {dropped.name for dropped in layout.before.dropped}
    expected = "a removed flow"
    _check_given("--drop", accepted.drop, _droppable(layout) | done, expected)
    _check_given("--join-late", accepted.join_late, set(layout.pipeline.flows), "a flow of the pipeline")


def _droppable(layout: Layout) -> set[str]:
    gone = [flow for flow in layout.before.flows if flow not in layout.pipeline.flows]
    return {name for flow in gone for name in _names(layout, flow)}


def _names(layout: Layout, gone: str) -> set[str]:
    """By which a removed flow can be given up: its own, or its dataset's if that has gone too."""
    dataset = layout.before.flows[gone].dataset
    return {gone} if dataset in layout.pipeline.datasets else {gone, dataset}


def _check_given(option: str, given: tuple[str, ...], known: set[str], expected: str) -> None:
    for name in given:
        if name not in known:
            closest = nearest(name, sorted(known))
            hint = f"did you mean {closest!r}?" if closest else f"the project has none; run without {option}"
            raise InputError(f"found {name!r}, expected {expected}", field=option, remedy=hint)


def _stored(layout: Layout, name: str) -> str:
    """In words, what lies in the storage of a flow or dataset."""
    flows = [flow for flow, was in layout.before.flows.items() if name in (flow, was.dataset)]
    for version in [found for flow in flows if (found := _version(layout, flow)) is not None]:
        return f"a version with {version.rows} rows ({quantity(version.stored_bytes, 'B')})"
    logs = [layout.channel_of(flow, layout.before.flows[flow].dataset).sink_log for flow in flows]
    checkpoints = sum(flow in layout.before.fragments for flow in flows if flow not in layout.pipeline.flows)
    with_checkpoint = " and a checkpoint" if checkpoints else ""
    try:
        files = [entry for log in logs for entry in stream_logs.sink_entries(log, layout.disk)]
    except EngineError as damage:  # which is no reason to keep what is dropped
        return f"files that its log does not name any more ({damage.message}){with_checkpoint}"
    size = quantity(sum(entry.size for entry in files), "B")
    count = f"{len(files)} file" + ("" if len(files) == 1 else "s")
    return f"{count} ({size}){with_checkpoint}"


def _version(layout: Layout, flow: str) -> ViewVersion | None:
    """The current one of a flow that is, or was, the query of a materialized view."""
    was = layout.before.flows[flow]
    return layout.versions_of(was.dataset).current() if was.kind == "materialized" else None


def _refuse_unrecorded(layout: Layout) -> None:
    """Where there is no record, nothing may ever have run."""
    there = layout.disk.list(layout.owned.checkpoints)
    if any(name.startswith(".") and name.endswith(".fragment.json") for name in there):
        raise EngineError(
            f"{layout.root / RECORD_FILE_NAME} is missing; it records the flows and their checkpoints",
            remedy="restore it from a copy, or start the pipeline over with --fresh",
        )
