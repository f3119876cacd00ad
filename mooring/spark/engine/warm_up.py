"""Warming a site: a first query there loads and compiles for seconds, which a move should not wait for."""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow
import pyarrow.parquet
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from mooring.spark.definitions.result_settings import settle_results, wanted_results
from mooring.spark.pipeline.shuffle_partitions import SETTING
from mooring.spark.sites.endpoint import Endpoint, close_session, open_session
from mooring.spark.storage.storage_root import StorageRoot

_PATIENCE_S = 60
_BATCHES = 2
"""The second batch takes other ways than the first: it loads state and compares watermarks."""


@dataclass
class Warmth:
    """Which sites have run which kind of query since they were started."""

    root: StorageRoot
    _warm: set[tuple[str, Endpoint, bool]] = field(default_factory=set)

    def note(self, site: str, endpoint: Endpoint, *, stateful: bool) -> None:
        """A fragment runs there anyway."""
        self._warm |= {(site, endpoint, kind) for kind in {False, stateful}}

    def ensure(self, site: str, endpoint: Endpoint, *, stateful: bool, slots: int = 1) -> bool:
        """Run a tiny query of that kind at the site, unless it is warm; False if it was or could not. Each of
        its `slots` gets a task: executors are processes of their own.
        """
        if (site, endpoint, stateful) in self._warm:
            return False
        warmed = warm_up(site, endpoint, self.root, stateful=stateful, slots=slots)
        if warmed:
            self.note(site, endpoint, stateful=stateful)
        return warmed


def warm_up(
    site: str,
    endpoint: Endpoint,
    root: StorageRoot,
    *,
    stateful: bool,
    slots: int = 1,
    patience_s: int = _PATIENCE_S,
) -> bool:
    """Files to files, as fragments do, with a window where they keep state. Warming that fails is no failure:
    the move is then slower, or says itself what is wrong.
    """
    folder = root.folder / "warming" / uuid.uuid4().hex
    rows = folder / "rows"
    root.disk.make_folder(rows, parents=True)
    for second in range(_BATCHES):
        moment = pyarrow.array([datetime(2020, 1, 1, 0, 0, 10 * second, tzinfo=UTC)] * 2)
        table = pyarrow.table({"n": pyarrow.array([1, 2]), "at": moment.cast(pyarrow.timestamp("us", "UTC"))})
        for part in range(slots):
            pyarrow.parquet.write_table(table, rows / f"{second}-{part}.parquet")
    session = open_session(endpoint)
    try:
        root.introduce(session, site)
        settle_results(session, wanted_results({}))  # a server's own may know no watermark of a timestamp
        session.conf.set(SETTING, str(slots))  # a server's default is 200
        reader = session.readStream.schema("n long, at timestamp").option("maxFilesPerTrigger", slots)
        frame = reader.parquet(root.address(rows))
        if stateful:
            windows = frame.withWatermark("at", "1 second").groupBy(F.window("at", "1 second"), "n")
            frame = windows.agg(F.count("*").alias("rows"))
        writer = frame.writeStream.format("parquet").option("path", root.address(folder / "out"))
        query = (
            writer.option("checkpointLocation", root.address(folder / "checkpoint"))
            .trigger(availableNow=True)
            .outputMode("append")
            .start()
        )
        return bool(query.awaitTermination(patience_s))
    except PySparkException:
        return False
    finally:
        close_session(session)
        with contextlib.suppress(OSError):  # what stays is never read
            root.disk.delete(folder)
