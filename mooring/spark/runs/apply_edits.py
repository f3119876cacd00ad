"""Carrying out what was edited between two runs, before anything starts.

Checkpoints of parts are made aside, of one that was fenced and stands between two batches. Then the record
is replaced by the new one, with what is left to do: that decides it. What is left can be repeated until it is
done, by this run or the next.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from mooring.disk import is_folder
from mooring.errors import EngineError
from mooring.spark.engine.fragment_query import fence
from mooring.spark.pipeline.cut_changes import CutChange, interrupted, unread
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.project import FAST, Project
from mooring.spark.pipeline.project_edits import ProjectEdits
from mooring.spark.runs.falling_back import falling_back, recorded_sink
from mooring.spark.sites.file_name import file_name
from mooring.spark.storage import stream_logs
from mooring.spark.storage.checkpoints.checkpoint_parts import begin_sink_log, make_part
from mooring.spark.storage.checkpoints.fragment_note import write_fragment_note
from mooring.spark.storage.fencing import current_epoch, replace_checkpoint, retire
from mooring.spark.storage.owned_folder import OwnedFolder
from mooring.spark.storage.pipeline_record import (
    Carried,
    Dropped,
    PipelineRecord,
    Unfinished,
    read_record,
    write_record,
)
from mooring.spark.storage.sink_numbers import given_up, remember
from mooring.spark.storage.syncing import Syncing

Drain = Callable[[CutChange], None]
"""Runs a fragment of the old cut to the end of its input."""


def settle(edits: ProjectEdits, drain: Drain) -> None:
    """Bring the storage to what the project is now, and write that down."""
    layout = edits.layout
    with _named_trouble(layout):
        found = read_record(layout.root, layout.disk)
        if found is None or not _alike(found, edits.record):
            carried = {} if found is None else _make_parts(edits, drain)
            record = _decided(edits, carried)
            remember_sinks(layout.project, found, record.unfinished.retire, layout.owned)
            write_record(layout.root, record, layout.owned)
            finish(layout, record)
        layout.create()
        layout.forget_strangers()


@contextlib.contextmanager
def _named_trouble(layout: Layout) -> Iterator[None]:
    try:
        yield
    except OSError as failure:
        raise EngineError(
            f"the storage {layout.root} cannot be brought to the edited project: {failure}",
            remedy="check that it exists, is writable and is not full, and run again; nothing was started",
        ) from failure


def _alike(found: PipelineRecord, wanted: PipelineRecord) -> bool:
    return all(
        getattr(found, name) == getattr(wanted, name) for name in ("fragments", "flows", "reads", "results")
    )


def _decided(edits: ProjectEdits, carried: dict[str, Carried]) -> PipelineRecord:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    given_up = tuple(Dropped(name, what, now) for name, what in edits.dropped.items())
    return msgspec.structs.replace(
        edits.record,
        dropped=edits.layout.before.dropped + given_up,
        unfinished=msgspec.structs.replace(edits.unfinished, carried=carried),
    )


def finish(layout: Layout, record: PipelineRecord) -> Layout:
    """Do what is left of an edit that was decided, however often it was begun; returns the layout over the
    storage that this leaves.
    """
    todo = record.unfinished
    if not todo:
        return layout
    with _named_trouble(layout):
        for name, carried in todo.carried.items():
            _put_in_place(layout, record, name, carried)
        for name in todo.retire:
            _retire(layout, name)
        for name, dataset in todo.delete.items():
            layout.channel_of(name, dataset).delete()
        for view in todo.views:
            layout.owned.remove(layout.versions_of(view).folder)
        done = msgspec.structs.replace(record, unfinished=Unfinished())
        write_record(layout.root, done, layout.owned)
    return replace(layout, before=done)


def write_anew(layout: Layout, fragments: Collection[str]) -> None:
    """Forget what fragments have read and written, as a full refresh asks for. Sinks lie outside: they keep
    their rows, and go on counting batches. Once decided it is done, by this run or the next, and readers then
    find other files.
    """
    flows = layout.pipeline.flows
    tables = {name: flows[name].dataset for name in fragments if name in layout.channels}
    with _named_trouble(layout):
        found = read_record(layout.root, layout.disk)
        assert found is not None, "written by every run before anything starts"
        remember_sinks(layout.project, found, fragments, layout.owned)
        left = Unfinished(retire=tuple(fragments), delete=tables)
        decided = msgspec.structs.replace(found, unfinished=left)
        write_record(layout.root, decided, layout.owned)
        finish(layout, decided)
        layout.create()


def remember_sinks(
    project: Project, record: PipelineRecord | None, fragments: Collection[str], owned: OwnedFolder
) -> None:
    """Before fragments are given up: what was made of their rows is on disk, and it is known which batches
    their sinks have.
    """
    if record is None:
        return
    if project.settings.durability != FAST:
        _sync_made(project, record, fragments, owned)
    gone = []
    for name in fragments:
        if (sink := recorded_sink(project, record, name)) is not None:
            checkpoint = current_epoch(owned.checkpoints / file_name(name), owned.disk)
            gone.append(given_up(name, replace(sink, disk=owned.disk), checkpoint))
    remember(project.settings.storage, gone, owned)


def _sync_made(
    project: Project, record: PipelineRecord, fragments: Collection[str], owned: OwnedFolder
) -> None:
    """By these fragments, and by those that read them, at whichever sites."""
    before = falling_back(project, record, owned)
    syncing = Syncing(owned.disk, before.checkpoint, before.log, lambda fragment: False)
    for name, reads in record.reads.items():
        if name in fragments or set(reads) & set(fragments):
            with contextlib.suppress(EngineError):  # a damaged log may be why it is given up
                while not syncing.is_done([name]):
                    pass


def _put_in_place(layout: Layout, record: PipelineRecord, name: str, carried: Carried) -> None:
    replace_checkpoint(layout.checkpoints(name), _aside(layout, name), layout.disk)
    flow = record.flows[name]
    if flow.kind == "table":
        channel = layout.channel_of(name, flow.dataset)
        channel.create()
        begin_sink_log(channel.sink_log, carried.batch, layout.owned)
    for writer in record.reads[name]:
        read = layout.channel_of(writer, record.flows[writer].dataset)
        read.create()
        read.inherit(name, carried.of)
    marks = {member: record.flows[member].fingerprint for member in record.fragments[name]}
    write_fragment_note(layout.fragment_note(name), name, marks, layout.disk)


def _make_parts(edits: ProjectEdits, drain: Drain) -> dict[str, Carried]:
    """The parts whose checkpoint was made aside."""
    layout = edits.layout
    carried: dict[str, Carried] = {}
    for change in edits.changes:
        checkpoint = _standing(layout, change, drain)
        for part in change.parts:
            make_part(
                checkpoint,
                _aside(layout, part.fragment),
                layout.disk,
                sources=part.sources,
                state=part.state,
                query=part.fragment == change.fragment,
            )
            stands = stream_logs.last_batch(checkpoint / "offsets", layout.disk)
            carried[part.fragment] = Carried(change.fragment, stands)
    return carried


def _standing(layout: Layout, change: CutChange, drain: Drain) -> Path:
    """The checkpoint of a fragment, fenced off from whatever ran before, with nothing left to finish."""
    name = change.fragment
    if interrupted(layout, name) or unread(layout, name):
        drain(change)
    checkpoint = fence(layout, name)
    channel = layout.channels.get(name)
    stands = stream_logs.last_batch(checkpoint / "offsets", layout.disk)
    beyond = channel is not None and channel.goes_beyond(stands)
    if interrupted(layout, name) or unread(layout, name) or beyond:
        raise EngineError(
            f"the fragment {name!r} was interrupted inside a batch, and draining it did not complete the "
            "batch",
            remedy="undo the edit, run the project, end it with `mooring stop`, then edit it again",
        )
    return checkpoint


def _aside(layout: Layout, fragment: str) -> Path:
    return layout.checkpoints(fragment) / ".carried"


def _retire(layout: Layout, fragment: str) -> None:
    for views in layout.version_channels.values():
        if views.exists:
            views.forget(fragment)  # if it starts again, it begins with the current version
    layout.disk.delete(layout.fragment_note(fragment))
    if is_folder(layout.disk, layout.checkpoints(fragment)):
        retire(layout.checkpoints(fragment), layout.disk)
