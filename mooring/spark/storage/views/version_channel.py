"""The versions of a materialized view as a channel, for flows that read the view as a stream.

A stream of a view delivers the rows of every version, each version once, in the order of publication: so does
plain Spark, whose file source finds new files after every refresh. Here the files of a version get a second
name in the channel's folder as soon as it is published, and a log of the kind by which Spark's file sink
vouches for files says which there are. From then on they are files of a channel like any other: they stay
until every reader has committed them, also if the version is gone, and a reader is moved, fenced and started
again as ever.

The pointer of the view counts, and the log follows it: before a version is published, the one before is put
into the log. So a version is in it once, also if a publisher was killed or overtaken in between.

What was published last stays for readers to come. One that starts for the first time begins with that, as it
would under plain Spark, which has no other version; earlier ones are kept for no other reader.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from mooring.disk import is_folder
from mooring.model.deployment.channel_log import ChannelState
from mooring.spark.storage import stream_logs
from mooring.spark.storage.file_channel import FileChannel
from mooring.spark.storage.owned_folder import OwnedFolder
from mooring.spark.storage.retention import READ
from mooring.spark.storage.views.versions import ViewVersion, ViewVersions
from mooring.spark.storage.views.whole_log import logged_lines, write_log

_NEWEST = "readers to come"
"""Stands before the current version."""
_BEGUN = "begun"
"""Of the channel's note: readers that were started."""


class VersionChannel(FileChannel):
    def __init__(
        self,
        name: str,
        folder: Path,
        link: Path,
        checkpoint_of: Callable[[str], Path],
        owned: OwnedFolder,
        versions: ViewVersions,
        address: Callable[[Path], str],
        inputs_of: Callable[[str], int | None] = lambda reader: None,
    ) -> None:
        """`address`: what sites call a path under the storage root."""
        super().__init__(name, folder, link, checkpoint_of, owned, READ, inputs_of=inputs_of)
        self._versions, self._address = versions, address

    def create(self) -> None:
        super().create()
        # Without it Spark would list the folder, and find files before the log names them.
        if is_folder(self._disk, self.folder):
            self._owned.make_folder(self.sink_log)
            self.hand_over()

    def hand_over(self) -> None:
        """Let readers find the current version, unless they were given it before."""
        with self.holds.lock:
            found = self._versions.current()
            if found is None or not found.files or self._entries_of(found, self._logged()):
                return
            self._append(found)

    def begin(self, reader: str) -> None:
        """It is about to start, perhaps for the first time: what it finds then is kept for it."""
        with self.holds.lock:
            if reader not in self._note().get(_BEGUN, ()):
                self._trim()
                self._note_begun(reader)

    def inherit(self, reader: str, of: str) -> None:
        super().inherit(reader, of)
        if of in self._note().get(_BEGUN, ()):
            self._note_begun(reader)

    def _note_begun(self, reader: str) -> None:
        note = self._note()
        note[_BEGUN] = sorted({*note.get(_BEGUN, ()), reader})
        self._write_note(note)

    def forget(self, reader: str) -> None:
        note = self._note()
        if reader in note.get(_BEGUN, ()):
            note[_BEGUN].remove(reader)
            self._write_note(note)
        super().forget(reader)

    def goes_beyond(self, planned_batch: int) -> bool:
        """Refreshes are no batches of a checkpoint, so there is none to go beyond."""
        return False

    def lost(self) -> str | None:
        """Also a file that a reader still needs: Spark would take it as empty."""
        with self.holds.lock:
            if (why := super().lost()) is not None:
                return why
            note = self._note()
            state, stored = self._state(note), self._stored(note)
            needed = min(
                (at for reader, at in state.committed.items() if reader != _NEWEST), default=state.end
            )
            paths = (entry.path for entry in stored[max(0, needed - state.start) :])
            gone = next((path for path in paths if self._disk.look(path) is None), None)
            return None if gone is None else f"the file {gone} is missing"

    def _state(self, note: dict[str, Any]) -> ChannelState:
        state, found = super()._state(note), self._versions.current()
        kept = [] if found is None else self._entries_of(found, self._stored(note))
        newest, begun = state.end - len(kept), note.get(_BEGUN, ())
        committed = {
            reader: position if reader in begun else max(position, newest)
            for reader, position in state.committed.items()
        }
        return replace(state, committed={**committed, _NEWEST: newest})

    def _logged(self) -> list[stream_logs.LogEntry]:
        return stream_logs.sink_entries(self.sink_log, self._disk)

    def _entries_of(
        self, version: ViewVersion, entries: list[stream_logs.LogEntry]
    ) -> list[stream_logs.LogEntry]:
        return [entry for entry in entries if entry.path.name.startswith(f"{version.folder}-")]

    def _append(self, version: ViewVersion) -> None:
        """Its files, then the log that names them. One whose files somebody removed is no more."""
        home = self._versions.path(version)
        found = {name: self._disk.look(home / name) for name in version.files}
        sizes = {name: entry.size for name, entry in found.items() if entry is not None}
        if len(sizes) < len(version.files):
            return
        lines = []
        # Spark takes files in by the time that the log gives them, and a clock may have been set back.
        newest_s = max((entry.modified_s for entry in self._logged()), default=0.0)
        published_ms = max(round(1000 * time.time()), round(1000 * newest_s) + 1)
        for name in map(Path, version.files):
            own = name.parent / f"{version.folder}-{name.name}"
            self._owned.make_folder((self.folder / own).parent)
            self._owned.make_twin(self.folder / own, home / name)
            size = sizes[str(name)]
            lines.append(stream_logs.sink_line(self._address(self.link / own), size, published_ms))
        self._disk.sync({(self.folder / name).parent for name in version.files})
        before = logged_lines(self.sink_log, self._disk) or ()
        write_log(self.sink_log, [*before, *lines], self._owned)
