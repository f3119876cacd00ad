"""Batch numbers that the sinks of a pipeline have taken.

A sink that Spark gives the number of a batch takes each number once. Files of `parquet` and the like keep
these numbers in a log of their own beside them (`_spark_metadata`), which outlives a full refresh, `--fresh`
and a flow that was dropped. Spark skips a batch whose number that log has reached, and says nothing. So a new
writer continues the numbers from there (`checkpoints/later_beginning.py`).

Where the log cannot be read from here, and for sinks of connectors that may keep one elsewhere, the root
remembers the last number that a writer had planned when its checkpoint was given up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from mooring.checksum import DamagedError, checked, with_sum
from mooring.disk import DISK, Disk, is_folder, read_if_there
from mooring.errors import EngineError
from mooring.spark.connectors.formats import counts_batches, is_of_files
from mooring.spark.storage import stream_logs
from mooring.spark.storage.owned_folder import OwnedFolder

NUMBERS_FILE_NAME = "sinks.json"
"""In the root; `--fresh` leaves it there."""
SINK_LOG = "_spark_metadata"


@dataclass(frozen=True)
class SinkPlace:
    """Where a sink writes, as far as Mooring can tell."""

    dataset: str
    format: str
    path: str
    folder: Path | None
    """By the path that Mooring has it under; None where it lies elsewhere, or has no files."""
    remote: bool = False
    """Sites that write there may have another folder under that path."""
    disk: Disk = DISK

    @property
    def log(self) -> Path | None:
        """Where the log of a sink of files is, or would be; None where it cannot be read from here."""
        if self.folder is None or (self.remote and not is_folder(self.disk, self.folder)):
            return None
        return self.folder / SINK_LOG

    @property
    def newest(self) -> int | None:
        """The newest number in the log, -1 if there is none; None where it cannot be read from here."""
        return self.newest_seen(current=True)

    def newest_seen(self, *, current: bool) -> int | None:
        """The same; `current`: by a listing that is, which takes changing the folder (`Disk.list`)."""
        return None if self.log is None else stream_logs.last_batch(self.log, self.disk, current=current)

    @property
    def key(self) -> str:
        return self.path or self.format


def sink_place(dataset: str, name: str, path: str, base: Path, *, remote: bool) -> SinkPlace | None:
    """Of a sink of format `name`; None where it takes batches whatever their number. `base`: where relative
    paths start.
    """
    if not counts_batches(name):
        return None
    return SinkPlace(dataset, name, path, _folder(path, base) if is_of_files(name) else None, remote)


def _folder(path: str, base: Path) -> Path | None:
    address = urlsplit(path)
    if not path or address.scheme not in ("", "file") or address.netloc not in ("", "localhost"):
        return None
    return base / (unquote(address.path) if address.scheme else path)


@dataclass(frozen=True)
class GivenUp:
    """A checkpoint that is given up, of the writer of a sink."""

    writer: str
    sink: SinkPlace
    planned: int
    committed: int


def given_up(writer: str, sink: SinkPlace, checkpoint: Path) -> GivenUp:
    parts = (checkpoint / part for part in ("offsets", "commits"))
    planned, committed = (stream_logs.last_batch(part, sink.disk, current=True) for part in parts)
    return GivenUp(writer, sink, planned, committed)


def remember(root: Path, checkpoints: Iterable[GivenUp], owned: OwnedFolder) -> None:
    """Note the numbers that sinks have taken, before the checkpoints that say so go. Refuses where nobody
    could say afterwards which number is free.
    """
    before = remembered(root, owned.disk)
    now = dict(before)
    for gone in checkpoints:
        if gone.planned < 0 or gone.sink.log is not None:
            continue
        if is_of_files(gone.sink.format) and gone.planned != gone.committed:
            raise EngineError(
                f"{gone.writer!r} was interrupted inside batch {gone.planned}, and the log of its sink "
                f"{gone.sink.dataset!r} in {gone.sink.path} cannot be read from here: without the "
                "checkpoint it is unknown whether the sink has that batch",
                remedy=(
                    "run the project once more without dropping it, end it with `mooring stop`, and "
                    "repeat the command; nothing was changed"
                ),
            )
        now[gone.sink.key] = max(gone.planned, now.get(gone.sink.key, -1))
    if now != before:
        content = msgspec.json.format(msgspec.json.encode(now), indent=1)
        owned.replace(root / NUMBERS_FILE_NAME, with_sum(content) + b"\n", on_disk=True)


def remembered(root: Path, disk: Disk = DISK) -> Mapping[str, int]:
    file = root / NUMBERS_FILE_NAME
    try:
        content = read_if_there(disk, file)
        return {} if content is None else msgspec.json.decode(checked(content), type=dict[str, int])
    except (OSError, msgspec.DecodeError, DamagedError) as damage:
        raise EngineError(
            f"{file} cannot be read: {damage}",
            remedy="restore it from a copy; without it, sinks may skip their first batches",
        ) from damage


def last_taken(root: Path, sink: SinkPlace) -> int:
    """The newest number that the sink may have taken; -1: none."""
    newest = sink.newest
    return remembered(root, sink.disk).get(sink.key, -1) if newest is None else newest


@dataclass(frozen=True)
class Disagreement:
    """Between the log of a sink and the checkpoint of its writer."""

    what: str
    remedy: str


def disagreement(
    sink: SinkPlace, writer: str, checkpoint: Path, *, current: bool = True
) -> Disagreement | None:
    """Why rows would be lost if the writer of a sink went on; None if none would, or the log cannot be read
    from here. Spark looks at neither: it skips batches that the log has, and does not miss those it lacks.
    """
    # In the order in which a writer that goes on meanwhile makes them, from the last one.
    committed = stream_logs.last_batch(checkpoint / "commits", sink.disk, current=current)
    newest = sink.newest_seen(current=current)
    planned = stream_logs.last_batch(checkpoint / "offsets", sink.disk, current=current)
    again = f"`mooring run PROJECT --once --full-refresh {sink.dataset}` delivers the stored rows of its "
    if newest is None or (newest < 0 and sink.remote):  # another folder, of this name at this machine
        return None
    if 0 <= planned < newest:
        return Disagreement(
            f"the sink {sink.dataset!r} has batches up to {newest} in {sink.log}, and its writer {writer!r} "
            f"has planned up to {planned}: Spark skips batches that a sink has, so rows would be lost, and "
            "some may be missing already",
            f"{again}inputs again, after the existing ones; empty the sink's folder first if no row may "
            "occur twice. No other program may write into that folder",
        )
    if newest < committed:
        there = f"ends at batch {newest}" if newest >= 0 else "is missing or empty"
        return Disagreement(
            f"the log of the sink {sink.dataset!r} in {sink.log} {there}, and its writer {writer!r} has "
            f"committed up to {committed}: rows of those batches are missing, and Spark cannot read a log "
            "with a gap",
            f"restore the sink's folder as it was; or empty it, and {again}inputs from the beginning",
        )
    return None


def skipped_by(sink: SinkPlace, checkpoint: Path) -> int | None:
    """The newest number in a sink's log, where its writer has ended and has committed up to another one. None
    if they agree, or that cannot be told: the log lies elsewhere, or somebody removed it.
    """
    newest = None if sink.newest == -1 else sink.newest
    committed = stream_logs.last_batch(checkpoint / "commits", sink.disk)
    return newest if newest is not None and newest != committed else None
