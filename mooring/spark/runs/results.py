"""Reading what a pipeline has delivered, without Spark: the files its sinks' logs vouch for."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pyarrow.parquet

from mooring.spark.sites.file_name import file_name
from mooring.spark.storage import stream_logs


def read_stored(storage: Path, dataset: str) -> pyarrow.Table:
    """Rows of a dataset that are stored now, over all flows that write it, in no particular order.

    Files without an entry in the sink's log are leftovers of a batch that never committed, and are ignored.
    """
    folder = storage / "channels" / file_name(dataset)
    parts = [
        pyarrow.parquet.ParquetFile(entry.path).read()
        for log in sorted(folder.glob("*/_spark_metadata"))
        for entry in stream_logs.sink_entries(log)
    ]
    return pyarrow.concat_tables(parts, promote_options="default") if parts else pyarrow.table({})
