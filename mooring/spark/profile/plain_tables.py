"""Tables of any format as those that samples are written into and read from."""

from __future__ import annotations

from dataclasses import replace

from mooring.spark.definitions.table_arguments import PARQUET
from mooring.spark.pipeline.pipeline import Pipeline


def plain_tables(pipeline: Pipeline) -> Pipeline:
    """The same pipeline with all tables in the form in which samples are written and read here."""
    plain = {
        name: replace(dataset, arguments=replace(dataset.arguments, format=PARQUET, partition_cols=()))
        for name, dataset in pipeline.datasets.items()
    }
    return replace(pipeline, datasets=plain)
