"""Three sub-streams of packets, each landing as files at its own site."""

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

LANDING = Path(__file__).parent.parent / "landing"
SCHEMA = "at TIMESTAMP, source INT, destination INT, size_bytes INT"
LATENESS = "5 seconds"


def landed(sub_stream: str) -> DataFrame:
    folder = LANDING / sub_stream
    folder.mkdir(parents=True, exist_ok=True)  # Spark asks for it before the first file lands
    reader = SparkSession.active().readStream.schema(SCHEMA).option("maxFilesPerTrigger", 30)
    return reader.parquet(str(folder))


@dp.table
def packets_berlin() -> DataFrame:
    return landed("berlin")


@dp.table
def packets_oslo() -> DataFrame:
    return landed("oslo")


@dp.table
def packets_porto() -> DataFrame:
    return landed("porto")


@dp.temporary_view
def timed_berlin() -> DataFrame:
    return SparkSession.active().readStream.table("packets_berlin").withWatermark("at", LATENESS)


@dp.temporary_view
def timed_oslo() -> DataFrame:
    return SparkSession.active().readStream.table("packets_oslo").withWatermark("at", LATENESS)


@dp.temporary_view
def timed_porto() -> DataFrame:
    return SparkSession.active().readStream.table("packets_porto").withWatermark("at", LATENESS)


@dp.temporary_view
def timed_packets() -> DataFrame:
    """All packets. Each sub-stream has its own clock: the slowest decides when a window is complete."""
    spark = SparkSession.active()
    return (
        spark.readStream.table("timed_berlin")
        .union(spark.readStream.table("timed_oslo"))
        .union(spark.readStream.table("timed_porto"))
    )
