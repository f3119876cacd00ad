"""Going back to what whole logs prove, fragment by fragment, before a run looks at anything else.

A run does it by itself where a power cut has damaged the newest files, and the doctor says beforehand what it
will do. What is not proven is refused by name (`storage/checkpoints/fallback.py`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

from mooring.errors import EngineError
from mooring.spark.pipeline.project import Project
from mooring.spark.sites.file_name import file_name
from mooring.spark.storage import stream_logs
from mooring.spark.storage.checkpoints.fallback import Fallback, found_fallback, set_aside
from mooring.spark.storage.fencing import current_epoch, take_epoch
from mooring.spark.storage.file_channel import FileChannel
from mooring.spark.storage.owned_folder import OwnedFolder
from mooring.spark.storage.pipeline_record import PipelineRecord
from mooring.spark.storage.sink_numbers import SinkPlace


@dataclass(frozen=True)
class FallingBack:
    """Over what the last run wrote down."""

    root: Path
    record: PipelineRecord
    owned: OwnedFolder
    sink_log: Callable[[str], Path | None] = lambda fragment: None
    """That of the sink of files that a fragment writes; None where it cannot be read from here."""

    def find(self, fragment: str, *, current: bool = False) -> Fallback | None:
        """Where a fragment has to go back to; None if nothing of it is damaged. `EngineError`, which names
        the file, if nothing proves where. `current`: by listings that are, which takes changing folders.
        """
        checkpoint = self.checkpoint(fragment)
        found = self._found(fragment, checkpoint, current=current)
        if found is not None and found.beyond_sink and (channel := self._channel(fragment)) is not None:
            log, disk = channel.sink_log, self.owned.disk
            named = stream_logs.whole_entries(log, disk, but=found.beyond_sink)
            whole = {entry.path for entry in named}
            for reader, path in channel.taken_in(whole).items():
                raise EngineError(
                    f"{found.damaged[0]} is empty or cut short, and {reader} has read {path}, which no whole "
                    f"log of {fragment} names",
                    remedy="restore it from a copy, or start the pipeline over with --fresh",
                )
        return found

    def fall_back(self, but: Collection[str] = ()) -> list[str]:
        """Bring every fragment to where it has to go, once that is known of all; returns what was done, in
        words. `but`: those that begin anew, whatever is damaged of them.
        """
        found = {
            name: fallback
            for name in self.record.fragments
            if name not in but and (fallback := self.find(name, current=True)) is not None
        }
        for name, fallback in found.items():
            self._carry_out(name, fallback)
        return [f"{name} falls back: {fallback}" for name, fallback in found.items()]

    def _carry_out(self, fragment: str, fallback: Fallback) -> None:
        """The checkpoint in a fresh epoch, so that no query of it goes on; then the log of its sink, which
        says again where to go back to if this is cut short.
        """
        disk = self.owned.disk

        def begin(made: Path) -> None:
            again = self._found(fragment, made, current=True)
            set_aside(disk, (made / file for file in (again or fallback).beyond))

        take_epoch(self.owned.checkpoints / file_name(fragment), disk, begin)
        if (log := self.log(fragment)) is None or not fallback.beyond_sink:
            return
        channel = self._channel(fragment)
        merged = [] if channel is None else channel.take_back_merges(fallback.beyond_sink)
        for name in fallback.beyond_sink:
            with contextlib.suppress(FileNotFoundError):
                self.owned.set_aside(log / name, log / f".{name}.damaged")
        disk.sync([log])
        for path in merged:
            self.owned.remove(path)

    def _found(self, fragment: str, checkpoint: Path, *, current: bool) -> Fallback | None:
        if self.record.flows[fragment].kind == "materialized":
            return None
        disk, reads = self.owned.disk, self.record.reads.get(fragment, ())
        channels = [self._channel(each) for each in (fragment, *reads)]
        least = max(
            (each.least_batch(fragment) for each in channels if each is not None and each.exists), default=-1
        )
        only_channels = bool(reads) and len(disk.list(checkpoint / "sources")) <= len(reads)
        return found_fallback(
            checkpoint,
            self.log(fragment),
            disk,
            least=least,
            only_channels=only_channels,
            readers_known=self._channel(fragment) is not None,
            current=current,
        )

    def checkpoint(self, fragment: str) -> Path:
        return current_epoch(self.owned.checkpoints / file_name(fragment), self.owned.disk)

    def _channel(self, writer: str) -> FileChannel | None:
        flow, root = self.record.flows[writer], self.root
        if flow.kind == "sink":
            return None
        folder = root / "channels" / file_name(flow.dataset) / file_name(writer)
        return FileChannel(writer, folder, root / "links" / file_name(writer), self.checkpoint, self.owned)

    def log(self, fragment: str) -> Path | None:
        channel = self._channel(fragment)
        return self.sink_log(fragment) if channel is None else channel.sink_log


def falling_back(project: Project, record: PipelineRecord, owned: OwnedFolder) -> FallingBack:
    def sink_log(fragment: str) -> Path | None:
        sink = recorded_sink(project, record, fragment)
        return None if sink is None else sink.log

    return FallingBack(project.settings.storage, record, owned, sink_log)


def recorded_sink(project: Project, record: PipelineRecord, fragment: str) -> SinkPlace | None:
    """The sink that a fragment wrote when the record was made; None where it has none that counts batches."""
    if (flow := record.flows.get(fragment)) is None or flow.kind != "sink":
        return None
    base = Path(record.run_from) if record.run_from else project.run_from
    return replace(project, run_from=base).sink_place(flow.dataset, flow.stored, flow.path)
