"""Reading what a pipeline has delivered, without Spark: the files that its sinks' logs, and the pointers of
its views, vouch for.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pyarrow.parquet

from mooring.spark.sites.file_name import file_name
from mooring.spark.storage import stream_logs
from mooring.spark.storage.views.versions import VIEWS, ViewVersions


def read_stored(storage: Path, dataset: str) -> pyarrow.Table:
    """Rows of a table that are stored now, over all flows that write it, or of a materialized view, in no
    particular order.

    Files without an entry in the sink's log are leftovers of a batch that never committed, and are ignored.
    """
    folder, view = storage / "channels" / file_name(dataset), storage / VIEWS / file_name(dataset)
    if view.is_dir():  # a channel of its name has what those who read it as a stream still need
        files = ViewVersions(view).files()
    else:
        logs = sorted(folder.glob("*/_spark_metadata"))
        files = [entry.path for log in logs for entry in stream_logs.sink_entries(log)]
    parts = [pyarrow.parquet.ParquetFile(file).read() for file in files]
    return pyarrow.concat_tables(parts, promote_options="default") if parts else pyarrow.table({})
