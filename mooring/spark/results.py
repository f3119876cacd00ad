"""Reading what a pipeline has delivered, without Spark: the files its sinks' logs vouch for."""

from __future__ import annotations

import pyarrow
import pyarrow.parquet

from mooring.spark import stream_logs
from mooring.spark.layout import Layout


def read_dataset(layout: Layout, dataset: str) -> pyarrow.Table:
    """Rows of a dataset that are stored now, over all flows that write it, in no particular order.

    Files without an entry in the sink's log are leftovers of a batch that never committed, and are ignored.
    """
    parts = [
        pyarrow.parquet.ParquetFile(entry.path).read()
        for channel in layout.writers_of(dataset)
        for entry in stream_logs.sink_entries(channel.folder / "_spark_metadata")
    ]
    return pyarrow.concat_tables(parts, promote_options="default") if parts else pyarrow.table({})
