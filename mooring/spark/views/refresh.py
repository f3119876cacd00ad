"""One refresh of a materialized view: its inputs are fixed, its query runs over them as a batch job into a
folder of its own, and the folder becomes the view's current version, unless the refresh was overtaken.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from mooring.disk import Disk, everything_below, is_folder
from mooring.errors import EngineError
from mooring.spark.definitions.definitions import Definitions
from mooring.spark.definitions.plan_reads import plan_of, reads_of
from mooring.spark.definitions.running_session import active_session
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.pipeline import FlowNode
from mooring.spark.storage.file_rows import rows_in
from mooring.spark.storage.views.versions import ViewVersion
from mooring.spark.views.snapshot_reads import FixedReads, fixed_reads, show
from mooring.spark.views.view_frame import view_frame


@dataclass
class Refresher:
    """Refreshes one view at one site, as often as it is asked to, in a session that it shares with nobody."""

    layout: Layout
    flow: FlowNode
    definitions: Definitions
    session: SparkSession
    epoch: Path
    """Of the fragment's checkpoint: gone once the view was started anew."""
    _rows: dict[str, int] = field(default_factory=dict)
    """Of the tables' files that the last refresh read: they never change."""

    @property
    def is_overtaken(self) -> bool:
        return not is_folder(self.layout.disk, self.epoch)

    def refresh(self) -> ViewVersion:
        """Make a version, and let it be the current one."""
        versions = self.layout.views[self.flow.dataset]
        scratch = self.epoch / "reads" / secrets.token_hex(8)
        began_s, began = time.time(), time.monotonic()
        try:
            with (
                versions.making() as folder,
                fixed_reads(self.layout, self.flow.static, self.flow.name) as fixed,
            ):
                versions.sweep(self.layout.owned.remove)
                self._compute(fixed, folder, scratch)
                sizes = _files_in(self.layout.disk, folder)
                files = sorted(sizes)
                version = ViewVersion(
                    folder=folder.name,
                    files=tuple(str(file.relative_to(folder)) for file in files),
                    rows=sum(rows_in(file) or 0 for file in files),
                    stored_bytes=sum(sizes.values()),
                    began_s=began_s,
                    took_s=time.monotonic() - began,
                    rows_in=self._rows_in(fixed),
                    reads=fixed.marks,
                    fingerprint=self.flow.fingerprint,
                )
                self._publish(version)
        except OSError as failure:
            if self.is_overtaken:
                raise EngineError(f"the refresh of {self.flow.dataset!r} was overtaken") from failure
            raise EngineError(
                f"a version of {self.flow.dataset!r} could not be published: {failure}",
                remedy=(
                    "check that the storage root exists, is writable and is not full; the refresh is repeated"
                ),
            ) from failure
        finally:
            with contextlib.suppress(OSError):  # it goes with its epoch
                self.layout.disk.delete(scratch)
        return version

    def hand_over(self) -> None:
        """Let everybody find the current version who does not go by the pointer."""
        self.layout.hand_over(self.flow)

    def _publish(self, version: ViewVersion) -> None:
        versions = self.layout.views[self.flow.dataset]
        with versions.lock:
            self.hand_over()  # what a refresh before this one may have left undone
            versions.publish(version, self.epoch)
            self.hand_over()

    def _compute(self, fixed: FixedReads, folder: Path, scratch: Path) -> None:
        with active_session(self.session):
            show(self.layout, fixed, self.session, scratch)
            frame = view_frame(self.layout, self.flow, self.definitions, self.session)
            if self.flow.unobserved and self._forget_outside_tables(frame):
                frame = view_frame(self.layout, self.flow, self.definitions, self.session)
            table = self.layout.pipeline.datasets[self.flow.dataset].arguments
            writer = frame.write.format(table.format).mode("error")
            if table.partition_cols:
                writer = writer.partitionBy(*table.partition_cols)
            writer.save(self.layout.address(folder))

    def _forget_outside_tables(self, frame: DataFrame) -> bool:
        """A session remembers which files a table of the site has; whether there is such a table."""
        plans = [frame, *(self.definitions.flows[view].build() for view in self.flow.views)]
        read = {table.name for plan in plans for table in reads_of(plan_of(plan)).tables}
        outside = {name for name in read if self.definitions.found(name) is None}
        for name in outside:
            with contextlib.suppress(PySparkException):  # what is wrong with it the query will say
                self.session.catalog.refreshTable(name)
        return bool(outside)

    def _rows_in(self, fixed: FixedReads) -> int:
        before, self._rows = self._rows, {}
        for table in fixed.tables.values():
            for file in table.files:
                known = before.get(str(file.path))
                self._rows[str(file.path)] = (rows_in(file.path) or 0) if known is None else known
        return sum(self._rows.values()) + sum(version.rows for version in fixed.views.values())


def _files_in(disk: Disk, folder: Path) -> dict[Path, int]:
    """Those with rows, each with its size: names that begin with a dot or an underscore are Spark's own."""
    return {
        path: found.size
        for path, found in everything_below(disk, folder)
        if found.kind != "folder"
        if all(part[0] not in "._" for part in path.relative_to(folder).parts)
    }
