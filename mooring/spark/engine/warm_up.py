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
from mooring.spark.engine.fragment_query import PreparedFragment
from mooring.spark.engine.rehearsal import pays, rehearse
from mooring.spark.pipeline.shuffle_partitions import SETTING
from mooring.spark.sites.endpoint import Endpoint, close_session, open_session
from mooring.spark.storage.storage_root import StorageRoot

_PATIENCE_S = 60
_BATCHES = 2
"""The second batch takes other ways than the first: it loads state and compares watermarks."""


@dataclass
class Warmth:
    """Which sites have run which fragments, and which kinds of query, since they were started."""

    root: StorageRoot
    _warm: set[tuple[str, Endpoint, bool | str]] = field(default_factory=set)

    def note(self, site: str, endpoint: Endpoint, fragment: str, *, stateful: bool) -> None:
        """A fragment has run there."""
        self._warm |= {(site, endpoint, what) for what in (False, stateful, fragment)}

    def ensure(
        self,
        prepared: PreparedFragment,
        endpoint: Endpoint,
        *,
        stateful: bool,
        state_bytes: float,
        batch_s: float | None,
        slots: int = 1,
    ) -> bool:
        """Unless the site has run the fragment, rehearse it there. Where that does not pay, or would not
        reach each of its `slots`, first run a tiny query of its kind, unless the site has run one: executors
        are processes of their own. False if nothing was done.
        """
        site, fragment = prepared.site, prepared.fragment.name
        if (site, endpoint, fragment) in self._warm:
            return False
        rehearses = pays(prepared, state_bytes, batch_s)
        warmed = (slots > 1 or not rehearses) and self._warmed_up(site, endpoint, stateful, slots)
        if rehearses and rehearse(prepared):
            self.note(site, endpoint, fragment, stateful=stateful)
            return True
        return warmed or (rehearses and self._warmed_up(site, endpoint, stateful, slots))

    def _warmed_up(self, site: str, endpoint: Endpoint, stateful: bool, slots: int) -> bool:
        """Unless it was warm."""
        if (site, endpoint, stateful) in self._warm:
            return False
        warmed = warm_up(site, endpoint, self.root, stateful=stateful, slots=slots)
        self._warm |= {(site, endpoint, kind) for kind in (False, stateful) if warmed}
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
