"""The programming guide's examples, about a lending library: loads, joins, aggregates, tables made in a loop."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


@dp.table
def loans() -> DataFrame:
    rows = spark.readStream.format("json").schema("order_id LONG, reader STRING, books INT, at TIMESTAMP")
    return rows.load("FOLDER/input/orders")


@dp.materialized_view(name="readers")
def all_readers() -> DataFrame:
    return spark.read.format("csv").option("header", True).load("FOLDER/readers.csv")


@dp.temporary_view
def large_loans() -> DataFrame:
    return spark.read.table("loans").where("books > 1")


@dp.materialized_view
def reader_loans() -> DataFrame:
    joined = spark.read.table("loans").join(spark.read.table("readers"), "reader")
    return joined.select("reader", "order_id", "town", F.date_trunc("day", "at").alias("day"))


@dp.materialized_view
def daily_loans_by_town() -> DataFrame:
    return spark.read.table("reader_loans").groupBy("town", "day").count().withColumnRenamed("count", "loans")


def town_table(town: str) -> None:
    @dp.materialized_view(name=f"loans_{town.lower()}")
    def of_town() -> DataFrame:
        return spark.read.table("reader_loans").where(F.col("town") == town)


for name in ("Oban", "Cowes"):
    town_table(name)

dp.create_streaming_table("sizes")


@dp.append_flow(target="sizes")
def large() -> DataFrame:
    return spark.readStream.table("loans").where("books > 1").select("order_id", F.lit("large").alias("size"))
