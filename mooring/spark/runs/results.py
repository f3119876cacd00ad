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
    folder = storage / "channels" / file_name(dataset)
    files = [
        entry.path
        for log in sorted(folder.glob("*/_spark_metadata"))
        for entry in stream_logs.sink_entries(log)
    ]
    files += ViewVersions(storage / VIEWS / file_name(dataset)).files()
    parts = [pyarrow.parquet.ParquetFile(file).read() for file in files]
    return pyarrow.concat_tables(parts, promote_options="default") if parts else pyarrow.table({})
