"""Counts and mean sizes by source: per second, per minute, and over a sliding minute."""

from pyspark import pipelines as dp
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F


def counted(packets: DataFrame, window: Column, *keys: str) -> DataFrame:
    """Packets, bytes and mean size per window and key."""
    return (
        packets.groupBy(window.alias("span"), *keys)
        .agg(F.count("*").alias("packets"), F.sum("size_bytes").alias("bytes"))
        .select(
            F.col("span.start").alias("since"),
            *keys,
            "packets",
            "bytes",
            (F.col("bytes") / F.col("packets")).alias("mean_bytes"),
        )
    )


@dp.table
def source_seconds() -> DataFrame:
    packets = SparkSession.active().readStream.table("timed_berlin")
    return counted(packets, F.window("at", "1 second"), "source")


@dp.table
def busy_sources() -> DataFrame:
    return SparkSession.active().readStream.table("source_seconds").filter("packets >= 20")


@dp.table
def source_sliding() -> DataFrame:
    packets = SparkSession.active().readStream.table("timed_porto")
    return counted(packets, F.window("at", "60 seconds", "10 seconds"), "source")


@dp.table
def source_minutes() -> DataFrame:
    packets = SparkSession.active().readStream.table("timed_packets")
    return counted(packets, F.window("at", "1 minute"), "source")
