"""The pipeline record: what the storage says it holds, held against what is there, and in sinks outside."""

from __future__ import annotations

import json
from collections.abc import Iterator

from mooring.checksum import checked
from mooring.doctor.diagnosis import Diagnosis, some
from mooring.doctor.stored_parts import StoredParts
from mooring.errors import EngineError
from mooring.spark.sites.file_name import file_name
from mooring.spark.storage.pipeline_record import RECORD_FILE_NAME, PipelineRecord, read_record
from mooring.spark.storage.sink_numbers import NUMBERS_FILE_NAME, disagreement, remembered
from mooring.spark.storage.storage_root import format_of

PART = "pipeline"
_FROM_A_COPY = "restore it from a copy, or start the pipeline over with --fresh"


def look_at_record(parts: StoredParts) -> Iterator[Diagnosis]:
    """`InputError` if another Mooring wrote the storage, in a format of its own: of that, nothing can be
    said.
    """
    try:
        format_of(parts.root)
    except EngineError:
        return  # told where the root is looked at
    try:
        record = read_record(parts.root)
    except EngineError as damage:
        yield Diagnosis(PART, RECORD_FILE_NAME, "lost", damage.message, damage.remedy)
        return
    if record is None:
        yield from _without_record(parts)
        return
    what = f"{len(record.fragments)} fragments of {len(record.flows)} flows"
    kept = f"; keeps {some(sorted(record.results))}" if record.results else ""
    yield Diagnosis(PART, RECORD_FILE_NAME, "sound", what + kept)
    if record.unfinished:
        todo = record.unfinished
        left = [*todo.retire, *todo.delete, *todo.views, *todo.carried]
        what = f"an edit of the pipeline was decided and not finished, of {some(sorted({*left}))}"
        yield Diagnosis(PART, RECORD_FILE_NAME, "pending", what, "the next run finishes it")
        return
    yield from _vanished(parts, record)
    yield from _strangers(parts, record)


def look_at_sinks(parts: StoredParts) -> Iterator[Diagnosis]:
    """Outside the storage, which says of them only what their writers have delivered."""
    try:
        remembered(parts.root)
    except EngineError as damage:
        yield Diagnosis("sink", NUMBERS_FILE_NAME, "lost", damage.message, damage.remedy)
    for writer, sink in parts.sinks.items():
        if file_name(writer) in parts.fallbacks:
            continue  # told where the checkpoint is looked at
        try:
            found = disagreement(sink, writer, parts.checkpoint(writer), current=False)
            newest = sink.newest_seen(current=False)
        except (EngineError, OSError) as damage:
            yield Diagnosis("sink", sink.dataset, "lost", str(damage), "make it readable")
            continue
        if found is not None:
            yield Diagnosis("sink", sink.dataset, "lost", found.what, found.remedy)
        elif newest is not None:
            upto = "no batch yet" if newest < 0 else f"batches up to {newest}"
            yield Diagnosis("sink", sink.dataset, "sound", f"{upto} of {writer}, in {sink.folder}")


def _without_record(parts: StoredParts) -> Iterator[Diagnosis]:
    if any(parts.checkpoint(name).is_dir() for name in parts.fragments()):
        what = f"{parts.root / RECORD_FILE_NAME} is missing; it records the flows and their checkpoints"
        yield Diagnosis(PART, RECORD_FILE_NAME, "lost", what, _FROM_A_COPY)


def _vanished(parts: StoredParts, record: PipelineRecord) -> Iterator[Diagnosis]:
    """Channels of which neither folder nor note nor link is left. A run makes those of all fragments before
    it starts any, so one that is missing beside others was there.
    """
    there = {folder.name for folder in parts.channel_folders()}
    linked = {path.name for path in parts.links.glob("*")} if parts.links.is_dir() else set()
    known = set(parts.fragments())
    for name in record.fragments:
        channel, flow = file_name(name), record.flows.get(name)
        if known and channel not in known:
            what = "its checkpoint and its note are missing: it was never started, or both are lost"
            yield Diagnosis("checkpoint", channel, "pending", what, "restore them if it ran before")
        if there and flow is not None and flow.kind == "table" and channel not in there | linked:
            what = f"the record names {name}, whose folder, note and link are missing"
            yield Diagnosis("channel", channel, "lost", what, _FROM_A_COPY)


def _strangers(parts: StoredParts, record: PipelineRecord) -> Iterator[Diagnosis]:
    """Readers that the record tells of and a channel's note does not: nothing is kept for them."""
    notes = {folder.name: parts.channel_note(folder) for folder in parts.channel_folders()}
    for reader, flows in record.reads.items():
        for flow in flows:
            try:
                note = json.loads(checked(notes[file_name(flow)].read_bytes()))
                known, start = reader in note["readers"], int(note["start"])
            except (KeyError, OSError, ValueError, TypeError):
                continue  # told where channels are looked at
            if known:
                continue
            what = f"{reader} reads it and is not noted as a reader"
            if start > 0:
                what += f"; {start} files were trimmed, perhaps before it had read them"
                yield Diagnosis("channel", file_name(flow), "lost", what, _FROM_A_COPY)
            else:
                yield Diagnosis("channel", file_name(flow), "pending", what, "the next run notes it")
