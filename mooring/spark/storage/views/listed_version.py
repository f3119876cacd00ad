"""A folder that always stands for the current version of a view, for tables in a catalog.

It holds nothing but a log, which vouches for the files of that version where they lie. Whoever reads the
folder with Spark finds one version whole, the old or the new one, and its files stay for a while after it was
superseded. A link to the version's folder would not do: a reader lists it, then opens what another one holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mooring.spark.storage import stream_logs
from mooring.spark.storage.owned_folder import OwnedFolder
from mooring.spark.storage.views.versions import ViewVersions
from mooring.spark.storage.views.whole_log import logged_lines, write_log

_LISTED = "listed"
_SINK_LOG = "_spark_metadata"


@dataclass(frozen=True)
class ListedVersion:
    versions: ViewVersions
    owned: OwnedFolder
    address: Callable[[Path], str]
    """What sites call a path under the storage root."""

    @property
    def folder(self) -> Path:
        return self.versions.folder / _LISTED

    def follow(self) -> None:
        """Let it stand for what the pointer says; for nothing before the first version."""
        with self.versions.lock:
            found = self.versions.current()
            files = [] if found is None else [self.versions.path(found) / name for name in found.files]
            lines = [
                stream_logs.sink_line(self.address(file), stored.size, 0)
                for file in files
                if (stored := self.owned.disk.look(file)) is not None  # else somebody removed it
            ]
            log = self.folder / _SINK_LOG
            if logged_lines(log, self.owned.disk) != lines:
                self.owned.make_folder(log)
                write_log(log, lines, self.owned)
