"""Mistakes on purpose, each of which some schedule must show: shipped code with one thing left out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from lab.storage_faults import process, spark_model
from lab.storage_faults.simulated_disk import SimulatedStorage
from mooring.disk import Disk
from mooring.spark.engine import fragment_query, sink_beginning
from mooring.spark.runs import apply_edits
from mooring.spark.storage import ages, compaction, fencing
from mooring.spark.storage.channel_positions import ChannelPositions
from mooring.spark.storage.compaction import Merges
from mooring.spark.storage.file_channel import FileChannel
from mooring.spark.storage.owned_folder import OwnedFolder
from mooring.spark.storage.pipeline_record import Unfinished, read_record
from mooring.spark.storage.syncing import Syncing

Bug = Callable[[], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def _instead(*changes: tuple[Any, str, object]) -> Iterator[None]:
    before = [getattr(where, name) for where, name, _ in changes]
    for where, name, wrong in changes:
        setattr(where, name, wrong)
    try:
        yield
    finally:
        for (where, name, _), was in zip(changes, before, strict=True):
            setattr(where, name, was)


def rewritten_logs_are_not_synced() -> contextlib.AbstractContextManager[None]:
    shipped = OwnedFolder.replace

    def replace(self: OwnedFolder, path: Path, content: str | bytes, *, on_disk: bool = False) -> None:
        shipped(self, path, content, on_disk=on_disk and "_spark_metadata" not in path.parts)

    return _instead((OwnedFolder, "replace", replace))


def trimmed_before_readers_are_on_disk() -> contextlib.AbstractContextManager[None]:
    return _instead((Syncing, "is_done", lambda self, fragments: True))


def forgotten_before_sinks_are_on_disk() -> contextlib.AbstractContextManager[None]:
    return _instead((apply_edits, "_sync_made", lambda *given: None))


def dates_say_what_was_read() -> contextlib.AbstractContextManager[None]:
    """Spark's own age of files, a week: one date from a wrong clock, and all later files are too old."""
    week = spark_model.SparkOptions.__init__.__defaults__ or ()
    return _instead((spark_model.SparkOptions.__init__, "__defaults__", (*week[:-1], 7 * 86400.0)))


def ages_go_by_the_date() -> contextlib.AbstractContextManager[None]:
    shipped = ages.Ages.now_s
    return _instead((ages.Ages, "now_s", lambda self, note: shipped(self, {})))


def batch_numbers_begin_again() -> contextlib.AbstractContextManager[None]:
    return _instead((sink_beginning, "later_beginning", lambda *given: None))


def fences_are_left_out() -> contextlib.AbstractContextManager[None]:
    shipped = fencing.take_epoch

    def take_epoch(home: Path, disk: Disk, begin: Callable[[Path], None]) -> Path:
        found = fencing.current_epoch(home, disk)
        return found if disk.look(found) is not None else shipped(home, disk, begin)

    return _instead((fragment_query, "take_epoch", take_epoch))


def begun_batches_are_left_in_the_log() -> contextlib.AbstractContextManager[None]:
    return _instead((fragment_query, "drop_unfinished", lambda *given: []))


def one_source_of_a_query_counts() -> contextlib.AbstractContextManager[None]:
    def committed(self: ChannelPositions, reader: str) -> int:
        mine = [each for (name, _), each in self._sources.items() if name == reader and each.here]
        return max((each.position for each in mine), default=self.start)

    return _instead((ChannelPositions, "committed", committed))


def merged_files_go_before_the_log_is_synced() -> contextlib.AbstractContextManager[None]:
    def adopt(self: Merges, note: dict[str, Any], plan: compaction.MergePlan, count: int) -> None:
        for entry in plan.files[:count]:
            self._owned.remove(entry.path)
        shipped(self, note, plan, count)

    shipped = Merges.adopt
    return _instead((Merges, "adopt", adopt))


def a_listing_is_taken_for_all_there_is() -> contextlib.AbstractContextManager[None]:
    """Also where this machine remembers it from before others changed the folder."""
    return _instead((SimulatedStorage, "forget_listing", lambda *given: None))


def a_writer_goes_back_behind_its_readers() -> contextlib.AbstractContextManager[None]:
    """After a power cut, whatever they have taken in."""
    return _instead((FileChannel, "taken_in", lambda self, named: {}))


def merges_outlast_the_log_they_stand_in() -> contextlib.AbstractContextManager[None]:
    """After a power cut, where the writer goes back behind them."""
    return _instead((FileChannel, "take_back_merges", lambda self, beyond: []))


def readers_are_not_registered() -> contextlib.AbstractContextManager[None]:
    def register(self: FileChannel, reader: str) -> None:
        if reader != "e":
            shipped(self, reader)

    shipped = FileChannel.register
    return _instead((FileChannel, "register", register))


def a_refresh_begins_before_it_is_decided() -> contextlib.AbstractContextManager[None]:
    def write_anew(layout: Any, fragments: Any) -> None:
        tables = {name: layout.pipeline.flows[name].dataset for name in fragments if name in layout.channels}
        found = read_record(layout.root, layout.disk)
        assert found is not None
        todo = Unfinished(retire=tuple(fragments), delete=tables)
        apply_edits.finish(layout, msgspec.structs.replace(found, unfinished=todo))
        layout.create()

    return _instead((process, "write_anew", write_anew))


PLANTED: tuple[Bug, ...] = (
    rewritten_logs_are_not_synced,
    trimmed_before_readers_are_on_disk,
    forgotten_before_sinks_are_on_disk,
    dates_say_what_was_read,
    ages_go_by_the_date,
    batch_numbers_begin_again,
    fences_are_left_out,
    begun_batches_are_left_in_the_log,
    one_source_of_a_query_counts,
    merged_files_go_before_the_log_is_synced,
    a_listing_is_taken_for_all_there_is,
    a_writer_goes_back_behind_its_readers,
    merges_outlast_the_log_they_stand_in,
    readers_are_not_registered,
    a_refresh_begins_before_it_is_decided,
)
