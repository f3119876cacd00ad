"""The rows of a materialized view as its query gives them, in a session where what it reads stands."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from mooring.spark.definitions.definitions import Definitions
from mooring.spark.definitions.running_session import active_session
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.pipeline import FlowNode
from mooring.spark.pipeline.table_schema import in_table_order


def view_frame(layout: Layout, flow: FlowNode, definitions: Definitions, session: SparkSession) -> DataFrame:
    """Tables of other pipelines are taken as they stand now."""
    definitions.lent.update(layout.pipeline.lent)
    for name in flow.lent:
        layout.pipeline.lent[name].frame(session).createOrReplaceTempView(name)
    for view in flow.views:
        definitions.flows[view].build().createOrReplaceTempView(view)
    frame = definitions.flows[flow.name].build()
    return in_table_order(frame, flow.schema.fieldNames(), layout.pipeline.schemas[flow.dataset])


def analysed_view(
    layout: Layout, flow: FlowNode, definitions: Definitions, session: SparkSession
) -> DataFrame:
    """Over empty tables: what is wrong with it at this site shows before anything else is done."""
    for name, value in flow.spark_conf.items():
        session.conf.set(name, value)
    with active_session(session):
        for dataset in flow.static:
            empty = session.read.schema(layout.pipeline.schemas[dataset])
            empty.parquet(layout.address(layout.empty)).createOrReplaceTempView(dataset)
        frame = view_frame(layout, flow, definitions, session)
        _ = frame.schema
    return frame
