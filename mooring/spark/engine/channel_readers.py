"""The readers of channels, registered in their log, so that no rows are trimmed that a reader needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mooring.errors import EngineError, OvertakenError, described
from mooring.model.deployment.channels import Channel
from mooring.spark.pipeline.layout import Layout
from mooring.spark.storage import stream_logs
from mooring.spark.storage.retention import results_reader
from mooring.spark.storage.sink_numbers import skipped_by
from mooring.spark.storage.syncing import Syncing


@dataclass(frozen=True)
class ChannelReaders:
    layout: Layout

    def connect(self, channel: Channel) -> None:
        """Keep for the reader, a fragment or a query, what the producer writes; streams keep their own."""
        if (reader := self._reader(channel)) is not None:
            self.layout.channels[channel.producer].register(reader)

    def disconnect(self, channel: Channel) -> None:
        """The reader is gone for good; nothing more is kept for it."""
        if (reader := self._reader(channel)) is not None:
            self.layout.channels[channel.producer].forget(reader)

    def sync_before_deleting(self, syncs_itself: Callable[[str], bool]) -> Syncing:
        """From now on no channel deletes a file before what was made of it is on disk. `syncs_itself`:
        whether a fragment runs at a site that syncs what Spark commits.
        """
        layout = self.layout

        def log_of(fragment: str) -> Path | None:
            if (channel := layout.channels.get(fragment)) is not None:
                return channel.sink_log
            sink = layout.sink_of(fragment)
            return None if sink is None else sink.log

        syncing = Syncing(layout.disk, layout.checkpoint, log_of, syncs_itself)
        for name, channel in layout.channels.items():
            channel.is_on_disk = partial(syncing.is_done, self.queries(self.users_of(name)))
        return syncing

    def queries(self, fragments: Iterable[str]) -> list[str]:
        """Those that are streaming queries; views have no checkpoint."""
        return [each for each in fragments if not self.layout.pipeline.is_view(each)]

    def users_of(self, channel: str) -> list[str]:
        """The fragment that writes a channel and those that read it."""
        dataset = self.layout.pipeline.flows[channel].dataset
        return [channel, *self.layout.readers_of(dataset)]

    def lost(self) -> dict[str, str]:
        """Writing flow -> what is missing of its channel, or damaged. A channel that cannot be looked at now
        is not lost; `trim` says why it cannot.
        """
        found = {}
        for name, channel in self.layout.channels.items():
            try:
                why = channel.lost()
            except OvertakenError:
                raise
            except EngineError as damage:
                why = damage.message
            except Exception:
                continue
            if why is not None:
                found[name] = why
        return found

    def trim(self) -> int:
        """Trim every channel behind its readers; returns the bytes freed. One that cannot be trimmed keeps no
        other from it: `EngineError` names all of those at the end.
        """
        freed, failures = 0, dict[str, str]()
        for name, channel in self.layout.channels.items():
            try:
                freed += channel.trim().freed_bytes
            except OvertakenError:
                raise
            except Exception as failure:
                failures[name] = described(failure)
        if failures:
            raise EngineError("; ".join(f"the channel of {name}: {why}" for name, why in failures.items()))
        return freed

    def unread(self, fragment: str) -> str:
        """What a fragment that has read to its end has left in its channels, or what its sink has not taken
        of its batches; empty if nothing.
        """
        if (sink := self.layout.sink_of(fragment)) is not None:
            checkpoint = self.layout.checkpoint(fragment)
            if (newest := skipped_by(sink, checkpoint)) is not None:
                committed = stream_logs.last_committed_batch(checkpoint, self.layout.disk)
                return (
                    f"its batches end at {committed}, and the log of its sink {sink.log} at {newest}: the "
                    "sink may have skipped batches"
                )
        found = []
        for writer in dict.fromkeys(self.layout.reads_of(fragment)):
            count, names = self.layout.channels[writer].waiting(fragment)
            if count:
                named = f": {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}" if names else ""
                found.append(f"{count} {'file' if count == 1 else 'files'} of {writer}{named}")
        return f"it ended without reading {'; '.join(found)}" if found else ""

    def _reader(self, channel: Channel) -> str | None:
        """How the producer's log knows the reader; None where there is no log, or nothing is kept for it.

        A stream has the name of the fragment that brings it in, and a query may have that of the fragment it
        reads: equal names are the first where there is such a stream.
        """
        if channel.producer not in self.layout.channels:
            return None
        if channel.reader in self.layout.fragments and channel.reader != channel.producer:
            # A view reads the table as it stands, for which its rows are kept in any case.
            return None if self.layout.pipeline.is_view(channel.reader) else channel.reader
        flow = self.layout.pipeline.flows[channel.producer]
        if flow.outside and channel.reader == channel.producer:
            return None
        return results_reader(flow.dataset) if self.layout.is_kept(flow.dataset) else None
